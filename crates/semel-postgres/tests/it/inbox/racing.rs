//! Copies at one instant.

use std::sync::Arc;

use semel_testkit::servers::Major;

use super::desk::{Desk, delivery, is_first};

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_waits_for_the_first_and_meets_what_it_recorded() {
    let desk = Arc::new(Desk::new(Major::V18).await);
    let mut first = desk.connect().await;
    let holder = Arc::clone(&desk);
    let received = holder.inbox.receive(first.transaction().await.unwrap(), &delivery("a")).await;
    let Ok(semel_postgres::inbox::Receive::First(handling)) = received else { panic!() };
    let copy = Arc::clone(&desk);
    let copy = tokio::spawn(async move {
        let mut client = copy.connect().await;
        copy.handle(&mut client, &delivery("a"), None).await.unwrap()
    });
    // The copy waits for the lock of the first one's row.
    let waits = "SELECT count(*) FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND query LIKE '%inbox%' AND query LIKE '%' || $1 || '%'";
    let observer = desk.connect().await;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while observer.query_one(waits, &[&desk.fixture.schema]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(std::time::Instant::now() < deadline, "the copy never waited");
        tokio::task::yield_now().await;
    }
    desk.act(&*handling, "a").await.unwrap();
    handling.done(Some("paid".into())).await.unwrap().commit().await.unwrap();
    let semel_postgres::inbox::Ran::Duplicate(Some(recorded)) = copy.await.unwrap() else {
        panic!("the copy ran")
    };
    assert_eq!(recorded.answer.as_deref(), Some(&b"paid"[..]));
    assert_eq!(desk.effects(None).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_vanished_in_its_transaction_keeps_a_message_for_a_bounded_time() {
    let desk = Desk::new(Major::V18).await;
    let idle = std::time::Duration::from_millis(200);
    let bounded = desk.store.transact().idle_timeout(idle).inbox(super::desk::policy().into());
    let bounded = bounded.unwrap();
    for by_batch in [false, true] {
        let id = format!("m{by_batch}");
        let mut vanished = desk.connect().await;
        let tx = vanished.transaction().await.unwrap();
        if by_batch {
            let held = bounded.receive_all(tx, &[delivery(&id)]).await.unwrap();
            std::mem::forget(held);
        } else {
            let held = bounded.receive(tx, &delivery(&id)).await.unwrap();
            std::mem::forget(held);
        }
        let mut client = desk.connect().await;
        let ran = desk.handle(&mut client, &delivery(&id), None).await.unwrap();
        assert!(is_first(&ran), "{ran:?}");
    }
    assert_eq!(desk.effects(None).await, 2);
}
