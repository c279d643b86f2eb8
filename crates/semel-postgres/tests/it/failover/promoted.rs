//! Only a standby is left, which can be read and not written to, until it is promoted.

use std::{sync::Arc, time::Instant};

use semel::{Begun, Engine, Error, State, Store, StoreErrorKind};
use semel_postgres::PostgresStore;
use semel_testkit::servers::{Major, failover_url};

use super::{
    crowd::call,
    pair::{Pair, impatient},
};
use crate::words::*;

/// One store object, from the primary to the standby that may not be written to, and on to the same
/// server as a primary.
async fn waits_for_the_promotion(major: Major) {
    let mut pair = Pair::start(major).await;
    let both = failover_url(&[&pair.old, &pair.new], "postgres");
    let store = Arc::new(impatient(&both).open().await.unwrap());
    let held = hold(&store, &id("held")).await;
    pair.old.run_sql("CHECKPOINT").await;
    pair.old.until_caught_up(&pair.new).await;
    pair.old.kill();

    let error = refused(&store).await;
    assert!(error.contains("can only be read; connect to the primary"), "{error}");
    let engine = Engine::builder(Arc::clone(&store) as Arc<dyn Store>).build();
    let begun = engine.begin(call(&id("k"))).await;
    assert!(matches!(begun, Err(Error::Store(_))), "nothing runs: {begun:?}");

    pair.new.promote().await;
    let ended = until_promoted(|| store.complete(held.clone(), done(201))).await;
    assert_eq!(ended, semel::store::Completed::Stored);
    let Ok(Begun::Run(holder)) = engine.begin(call(&id("k"))).await else {
        panic!("the engine goes on with the store")
    };
    holder.release("no need").await.unwrap();
    let status = engine.status(id("k")).await.unwrap();
    assert_eq!(status.record.unwrap().state, State::Open);
}

/// Asks until it is said that there is only a standby: at first a connection may just be lost.
async fn refused(store: &PostgresStore) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let error = claim(store, &ask(&id("k"))).await.unwrap_err();
        if error.kind() == StoreErrorKind::ReadOnly {
            return error.to_string();
        }
        assert!(Instant::now() < deadline, "{error:?}");
    }
}

/// Asks until the server can be written to.
async fn until_promoted<T, F>(mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, semel::StoreError>>,
{
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(Instant::now() < deadline, "{error:?}"),
        }
    }
}

#[tokio::test]
async fn a_store_left_with_a_standby_says_so_and_goes_on_once_it_is_promoted_15() {
    waits_for_the_promotion(Major::V15).await;
}

#[tokio::test]
async fn a_store_left_with_a_standby_says_so_and_goes_on_once_it_is_promoted_18() {
    waits_for_the_promotion(Major::V18).await;
}

/// M34: the old primary is told to take no writes any more, and keeps its connections.
#[tokio::test]
async fn a_store_leaves_a_primary_that_no_longer_takes_writes() {
    let pair = Pair::start(Major::V18).await;
    let both = failover_url(&[&pair.old, &pair.new], "postgres");
    let store = impatient(&both).open().await.unwrap();
    let held = hold(&store, &id("held")).await;
    pair.old.until_caught_up(&pair.new).await;
    let close = "ALTER SYSTEM SET default_transaction_read_only = on;\nSELECT pg_reload_conf();";
    pair.old.run_sql(close).await;
    pair.isolate_and_promote().await;
    let ended = until_promoted(|| store.complete(held.clone(), done(201))).await;
    assert_eq!(ended, semel::store::Completed::Stored);
    assert_eq!(pair.new.run_sql("SELECT state FROM semel.record").await, "done");
}
