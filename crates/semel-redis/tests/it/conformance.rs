//! What every store promises, stamped into this one on every kind of server, and on a cluster.

use std::sync::Arc;

use semel::Store;
use semel_testkit::{
    Fresh, StoreUnderTest,
    conformance::{Later, TurnedBack},
    servers::RedisKind,
};

use crate::fixture::Fixture;

/// Makes an empty store.
async fn fresh(fixture: Fixture) -> Fresh {
    let (builder, time) = fixture.timed().await;
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
        .with_move(store.clone())
        .with_notify(store.clone())
        .with_sweep(store)
        .with_second(again.clone())
        .with_reopen(again)
}

macro_rules! on {
    ($($module:ident: $fixture:expr;)*) => {
        $(mod $module {
            use super::*;

            struct Store;

            #[async_trait::async_trait]
            impl StoreUnderTest for Store {
                async fn fresh() -> Fresh {
                    fresh($fixture.await).await
                }
            }

            semel_testkit::conformance!(Store);
        })*
    };
}

on! {
    redis_7: Fixture::new(RedisKind::Redis7);
    redis_8: Fixture::new(RedisKind::Redis8);
    valkey_9: Fixture::new(RedisKind::Valkey9);
    valkey_9_cluster: Fixture::clustered(RedisKind::Valkey9);
}
