//! The sweep beside others, and what it leaves behind.

use std::time::Duration;

use semel::{
    Store,
    store::capability::{Inspect, Sweep, SweepBudget, Swept},
};
use semel_testkit::{conformance::MoveTime, servers::Major};

use crate::{fixture::Fixture, words::*};

/// Longer than anything is remembered.
const LATER: Duration = Duration::from_secs(10_000);

#[tokio::test]
async fn a_record_that_somebody_holds_is_swept_later_and_keeps_nobody_waiting() {
    let fixture = Fixture::new(Major::V18).await;
    let time = fixture.moved_time().await;
    let store = fixture.open().await;
    for key in ["held", "free"] {
        let permit = hold(&store, &id(key)).await;
        store.complete(permit, done(201)).await.unwrap();
    }
    time.advance(LATER).await;
    let client = fixture.connect().await;
    let lock = "BEGIN; SELECT pg_advisory_xact_lock(semel.lock_hash('acme', 'pay', 'held', ''))";
    client.batch_execute(&fixture.sql(lock)).await.unwrap();
    let budget = SweepBudget::default();
    let swept = tokio::time::timeout(PATIENCE, store.sweep(budget)).await.unwrap().unwrap();
    assert_eq!((swept.deleted, swept.forgotten), (1, 0));
    assert_eq!(store.sweep(budget).await.unwrap(), Swept::default(), "nothing is due by now");
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(store.sweep(budget).await.unwrap().deleted, 1);
}

#[tokio::test]
async fn a_fence_grows_past_the_sweep_even_when_the_clock_is_turned_back() {
    let fixture = Fixture::new(Major::V18).await;
    let time = fixture.moved_time().await;
    let store = fixture.open().await;
    time.advance(LATER).await;
    let first = hold(&store, &id("k")).await;
    store.complete(first.clone(), done(201)).await.unwrap();
    time.advance(LATER).await;
    assert_eq!(store.sweep(SweepBudget::default()).await.unwrap().deleted, 1);
    time.turn_back(LATER * 3).await;
    let second = hold(&store, &id("k")).await;
    assert_eq!(second.fence.get(), first.fence.get() + 1);
}

#[tokio::test]
async fn a_sweep_in_small_steps_drops_everything_with_its_lease() {
    let fixture = Fixture::new(Major::V18).await;
    let time = fixture.moved_time().await;
    let store = fixture.open().await;
    for number in 0..25 {
        let permit = hold(&store, &id(&format!("k{number}"))).await;
        renew(&store, &permit).await.unwrap();
        store.complete(permit, done(201)).await.unwrap();
    }
    time.advance(LATER).await;
    let (mut steps, mut deleted) = (0, 0);
    loop {
        let swept = store.sweep(SweepBudget { records: 10 }).await.unwrap();
        steps += 1;
        deleted += swept.deleted;
        if !swept.more {
            break;
        }
    }
    assert_eq!((steps, deleted), (3, 25));
    let client = fixture.connect().await;
    let left = fixture
        .sql("SELECT (SELECT count(*) FROM semel.lease) + (SELECT count(*) FROM semel.record)");
    assert_eq!(client.query_one(&left, &[]).await.unwrap().get::<_, i64>(0), 0);
}

#[tokio::test]
async fn the_audit_is_kept_to_its_bound() {
    let fixture = Fixture::new(Major::V18).await;
    let store = fixture.builder().audit_max(3).open().await.unwrap();
    for number in 0..8 {
        let permit = hold(&store, &id(&format!("k{number}"))).await;
        store.complete(permit.clone(), doubt()).await.unwrap();
        store.resolve(permit.id.clone(), not_done(&permit), actor()).await.unwrap();
    }
    let audit = store.audit(None, 100).await.unwrap();
    let keys: Vec<_> = audit.iter().map(|row| row.id.key.as_str()).collect();
    assert_eq!(keys, ["k7", "k6", "k5"]);
}
