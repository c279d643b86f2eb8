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

/// Makes an empty store on a major; `set` chooses how it is opened.
async fn fresh(major: Major, set: fn(PostgresBuilder) -> PostgresBuilder) -> Fresh {
    let fixture = Fixture::new(major).await;
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
    ($($module:ident: $major:ident, $set:expr;)*) => {
        $(mod $module {
            use super::*;

            struct Store;

            #[async_trait::async_trait]
            impl StoreUnderTest for Store {
                async fn fresh() -> Fresh {
                    fresh(Major::$major, $set).await
                }
            }

            semel_testkit::conformance!(Store);
        })*
    };
}

on! {
    postgres_15: V15, |builder| builder;
    postgres_17: V17, |builder| builder.prepared(true);
    postgres_18: V18, |builder| builder;
}
