//! What must be impossible, or loud.

use semel::{Refusal, StoreErrorKind};
use tokio_postgres::error::SqlState;

use super::shop::{Shop, call, granted, on_every_major, paid, pay, refused};

on_every_major! {
    a_claim_that_a_statement_undid_cannot_be_completed
    a_claim_inside_a_savepoint_goes_with_it
    a_savepoint_inside_the_guard_undoes_only_its_own
    one_key_twice_in_a_transaction_is_loud
    a_failed_statement_that_was_not_undone_is_loud
    a_transaction_that_may_lose_its_commit_is_refused
}

async fn a_claim_that_a_statement_undid_cannot_be_completed(mut shop: Shop) {
    let transact = shop.transact.clone();
    for undo in ["ROLLBACK", "ROLLBACK; BEGIN", "COMMIT", "COMMIT; BEGIN"] {
        let tx = shop.client.transaction().await.unwrap();
        let guard = granted(transact.claim(tx, &call("k")).await.unwrap());
        guard.batch_execute(undo).await.unwrap();
        pay(&shop.fixture, &*guard, "k").await.unwrap();
        let error = guard.complete(paid()).await.err().unwrap();
        assert_eq!(error.kind(), StoreErrorKind::Invalid, "{undo}: {error}");
        let source = std::error::Error::source(&error).unwrap();
        let source = source.downcast_ref::<tokio_postgres::Error>().unwrap();
        assert_eq!(source.code().unwrap().code(), "SM005", "{undo}");
        assert_eq!(shop.state("k").await, None);
        shop.client.batch_execute("TRUNCATE").await.unwrap_err();
    }
}

/// A savepoint is a transaction of the driver's too. Its guard owns all that happens in it: whatever
/// becomes of the savepoint, record and effect share it.
async fn a_claim_inside_a_savepoint_goes_with_it(mut shop: Shop) {
    let transact = shop.transact.clone();
    let mut outer = shop.client.transaction().await.unwrap();
    // Dropped, and completed but undone: nothing of either is left, and the key is free again.
    for completes in [false, true] {
        let inner = outer.transaction().await.unwrap();
        let guard = granted(transact.claim(inner, &call("k")).await.unwrap());
        pay(&shop.fixture, &*guard, "undone").await.unwrap();
        if completes {
            guard.complete(paid()).await.unwrap().rollback().await.unwrap();
        }
    }
    let inner = outer.transaction().await.unwrap();
    let guard = granted(transact.claim(inner, &call("k")).await.unwrap());
    pay(&shop.fixture, &*guard, "k").await.unwrap();
    guard.complete(paid()).await.unwrap().commit().await.unwrap();
    outer.commit().await.unwrap();
    assert_eq!((shop.payments().await, shop.records().await), (1, 1));
    // Completed inside, and undone outside: both are gone.
    let mut outer = shop.client.transaction().await.unwrap();
    let inner = outer.transaction().await.unwrap();
    let guard = granted(transact.claim(inner, &call("other")).await.unwrap());
    pay(&shop.fixture, &*guard, "other").await.unwrap();
    guard.complete(paid()).await.unwrap().commit().await.unwrap();
    outer.rollback().await.unwrap();
    assert_eq!((shop.payments().await, shop.records().await), (1, 1));
}

async fn a_savepoint_inside_the_guard_undoes_only_its_own(mut shop: Shop) {
    let transact = shop.transact.clone();
    let tx = shop.client.transaction().await.unwrap();
    let mut guard = granted(transact.claim(tx, &call("k")).await.unwrap());
    let savepoint = guard.savepoint().await.unwrap();
    pay(&shop.fixture, &savepoint, "undone").await.unwrap();
    savepoint.batch_execute("SELECT 1 / 0").await.unwrap_err();
    savepoint.rollback().await.unwrap();
    let savepoint = guard.savepoint().await.unwrap();
    pay(&shop.fixture, &savepoint, "kept").await.unwrap();
    savepoint.commit().await.unwrap();
    guard.complete(paid()).await.unwrap().commit().await.unwrap();
    assert_eq!((shop.payments().await, shop.records().await), (1, 1));
}

async fn one_key_twice_in_a_transaction_is_loud(mut shop: Shop) {
    let transact = shop.transact.clone();
    let tx = shop.client.transaction().await.unwrap();
    let mut guard = granted(transact.claim(tx, &call("k")).await.unwrap());
    pay(&shop.fixture, &*guard, "k").await.unwrap();
    let nested = guard.savepoint().await.unwrap();
    let error = transact.claim(nested, &call("k")).await.unwrap_err();
    assert!(error.to_string().contains("holds the intent already"), "{error}");
    // Another key is another matter.
    let nested = guard.savepoint().await.unwrap();
    let inner = granted(transact.claim(nested, &call("inner")).await.unwrap());
    inner.complete(paid()).await.unwrap().commit().await.unwrap();
    guard.complete(paid()).await.unwrap().commit().await.unwrap();
    assert_eq!((shop.payments().await, shop.records().await), (1, 2));
}

async fn a_failed_statement_that_was_not_undone_is_loud(mut shop: Shop) {
    let transact = shop.transact.clone();
    let tx = shop.client.transaction().await.unwrap();
    let guard = granted(transact.claim(tx, &call("k")).await.unwrap());
    let error = guard.batch_execute("SELECT 1 / 0").await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::DIVISION_BY_ZERO));
    let error = guard.complete(paid()).await.err().unwrap();
    assert_eq!(error.kind(), StoreErrorKind::Invalid);
    assert!(error.to_string().contains("nothing is committed"), "{error}");
}

/// S05
async fn a_transaction_that_may_lose_its_commit_is_refused(mut shop: Shop) {
    let transact = shop.transact.clone();
    let tx = shop.client.transaction().await.unwrap();
    tx.batch_execute("SET LOCAL synchronous_commit = off").await.unwrap();
    let error = transact.claim(tx, &call("k")).await.unwrap_err();
    assert!(error.to_string().contains("synchronous_commit"), "{error}");
    let mut volatile = call("k");
    let policy = semel::Policy { durable: false, ..semel::Policy::default() };
    volatile.policy = std::sync::Arc::new(policy);
    let tx = shop.client.transaction().await.unwrap();
    tx.batch_execute("SET LOCAL synchronous_commit = off").await.unwrap();
    drop(granted(transact.claim(tx, &volatile).await.unwrap()));
}

/// Two names with one lock by chance: the later one only waits.
#[tokio::test]
async fn a_lock_that_another_name_holds_is_in_progress_and_no_more() {
    let mut shop = Shop::new(semel_testkit::servers::Major::V18).await;
    let transact = shop.transact.clone();
    let mut other = shop.fixture.connect().await;
    let tx = other.transaction().await.unwrap();
    let lock = "SELECT pg_advisory_xact_lock(semel.lock_hash('acme', 'payments.create', 'k', ''))";
    tx.execute(&*shop.fixture.sql(lock), &[]).await.unwrap();
    let mine = shop.client.transaction().await.unwrap();
    let (mine, refusal) = refused(transact.claim(mine, &call("k")).await.unwrap());
    assert!(matches!(refusal, Refusal::InProgress { claimed_at: None, .. }), "{refusal:?}");
    tx.commit().await.unwrap();
    let guard = granted(transact.claim(mine, &call("k")).await.unwrap());
    guard.complete(paid()).await.unwrap().commit().await.unwrap();
    assert_eq!(shop.records().await, 1);
}
