//! What every store promises, stamped into this one on every major of the server.

use std::sync::Arc;

use semel::Store;
use semel_postgres::PostgresBuilder;
use semel_testkit::{
    Fresh, StoreUnderTest,
    conformance::{Later, TurnedBack},
    servers::Major,
};

use crate::fixture::Fixture;

/// Makes an empty store in a schema; `set` chooses how it is opened.
async fn fresh(fixture: Fixture, set: fn(PostgresBuilder) -> PostgresBuilder) -> Fresh {
    let time = fixture.moved_time().await;
    let builder = set(fixture.builder());
    let again = {
        let builder = builder.clone();
        move || -> Later<Arc<dyn Store>> {
            let opened = builder.clone().open();
            Box::pin(async move {
                let store: Arc<dyn Store> = Arc::new(opened.await.unwrap());
                store
            })
        }
    };
    let store = Arc::new(builder.open().await.unwrap());
    Fresh::new(store.clone(), store.clone(), time)
        .when_turned_back(TurnedBack::Follows)
        .with_bridge(store.clone())
        .with_sweep(store)
        .with_second(again.clone())
        .with_reopen(again)
}

macro_rules! on {
    ($($module:ident: $fixture:expr, $set:expr;)*) => {
        $(mod $module {
            use super::*;

            struct Store;

            #[async_trait::async_trait]
            impl StoreUnderTest for Store {
                async fn fresh() -> Fresh {
                    fresh($fixture.await, $set).await
                }
            }

            semel_testkit::conformance!(Store);
        })*
    };
}

on! {
    pooled_15: Fixture::pooled(Major::V15), |builder| builder;
    pooled_17: Fixture::pooled(Major::V17), |builder| builder;
    pooled_18: Fixture::pooled(Major::V18), |builder| builder;
    postgres_15: Fixture::new(Major::V15), |builder| builder;
    postgres_17: Fixture::new(Major::V17), |builder| builder.prepared(true);
    postgres_17_serializable: Fixture::serializable(Major::V17), |builder| builder;
    postgres_18: Fixture::new(Major::V18), |builder| builder.connections(1);
}
