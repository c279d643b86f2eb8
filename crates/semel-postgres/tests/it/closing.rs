//! A store that is closed for a move, as applications with transactions of their own meet it.

use std::time::{Duration, Instant};

use semel::{
    Store, StoreErrorKind,
    store::{
        capability::{Filter, Inspect},
        moving::{Closed, Move},
    },
};
use semel_testkit::servers::Major;

use crate::{
    caller::{Caller, PAY, claim, complete},
    fixture::Fixture,
};

/// What an application claims or completes in its own transaction is refused too, and undone.
#[tokio::test]
async fn a_closed_store_is_closed_for_the_functions_of_every_language() {
    for major in [Major::V15, Major::V18] {
        let fixture = Fixture::new(major).await;
        let (store, caller) = (fixture.open().await, Caller::new(&fixture).await);
        for (why, code) in [(Closed::Away, "SM012"), (Closed::Arriving, "SM013")] {
            store.close(why).await.unwrap();
            caller.ok(&format!("BEGIN; {PAY}")).await;
            assert_eq!(caller.err(&format!("SELECT * FROM {}", claim("k"))).await, code);
            caller.ok("ROLLBACK").await;
        }
        assert_eq!(caller.payments().await, "0", "{major}");
        store.open().await.unwrap();
        let permit = caller.begin("k").await;
        caller.ok(&format!("{PAY}; {}; COMMIT", complete(&permit))).await;
        assert_eq!(caller.payments().await, "1", "{major}");
    }
}

/// A transaction that has written before the store was closed is waited for, so that its record is there when
/// the store is closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_close_waits_for_whoever_has_written() {
    let fixture = Fixture::new(Major::V18).await;
    let (store, caller) = (fixture.open().await, Caller::new(&fixture).await);
    let permit = caller.begin("k").await;
    caller.ok(PAY).await;
    let refused = store.close(Closed::Away).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Busy, "{refused}");
    assert_eq!(store.standing().await.unwrap().closed, None);

    let closing = tokio::spawn(async move {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            match store.close(Closed::Away).await {
                Err(error) if error.kind() == StoreErrorKind::Busy && Instant::now() < deadline => {
                }
                closed => return closed.map(|()| store),
            }
        }
    });
    let watch = fixture.connect().await;
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%closing%' AND wait_event_type = 'Lock'";
    let deadline = Instant::now() + Duration::from_secs(60);
    while watch.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(Instant::now() < deadline, "nobody waits");
        // The server tells nobody who waits for a lock.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    caller.ok(&format!("{}; COMMIT", complete(&permit))).await;
    let store = closing.await.unwrap().unwrap();
    let listed = store.list(Filter { limit: 10, ..Filter::default() }).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(store.standing().await.unwrap().closed, Some(Closed::Away));
    assert_eq!(store.capabilities().name, "postgres");
}
