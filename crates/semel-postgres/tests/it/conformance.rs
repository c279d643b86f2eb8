//! What every store promises, stamped into this one in every way to a server.

use std::sync::Arc;

use semel::Store;
use semel_postgres::PostgresBuilder;
use semel_testkit::{
    Fresh, StoreUnderTest,
    conformance::{Later, TurnedBack},
    servers::Major,
};

use crate::fixture::{Fixture, major_of_way};

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
        .with_move(store.clone())
        .with_sweep(store)
        .with_second(again.clone())
        .with_reopen(again)
}

macro_rules! on {
    ($($way:ident: $fixture:expr, $major:expr, $set:expr;)*) => {
        $(mod $way {
            use super::*;

            struct Store;

            #[async_trait::async_trait]
            impl StoreUnderTest for Store {
                async fn fresh() -> Fresh {
                    fresh($fixture(major_of_way($major)).await, $set).await
                }
            }

            semel_testkit::conformance!(Store);
        })*
    };
}

on! {
    plain: Fixture::new, Major::V15, |builder| builder;
    pooled: Fixture::pooled, Major::V17, |builder| builder;
    serializable: Fixture::serializable, Major::V17, |builder| builder;
    single: Fixture::new, Major::V18, |builder| builder.connections(1).prepared(true);
}
