//! Retention of what consumers had.

use std::time::Duration;

use semel::inbox::{InboxPolicy, InboxStore, InboxSweep, store::ATTEMPTS_KEPT};
use semel_testkit::{conformance::MoveTime, servers::Major};

use super::{
    desk::{Desk, consumer, delivery, is_first, message, policy},
    parking::park,
};

const DAY: Duration = Duration::from_secs(86_400);

/// M67: thirty days simulated, with a memory of three.
#[tokio::test]
async fn what_is_remembered_stays_bounded_over_thirty_days() {
    let remember_for = 3 * DAY;
    let desk = Desk::with(Major::V18, InboxPolicy { remember_for, ..policy() }).await;
    let time = desk.fixture.moved_time().await;
    let mut client = desk.connect().await;
    for day in 0..30 {
        for number in 0..10 {
            let sent = delivery(&format!("m{day}-{number}"));
            desk.store.count(consumer(), vec![sent.message.clone()]).await.unwrap();
            desk.handle(&mut client, &sent, None).await.map(drop).unwrap();
        }
        time.advance(DAY).await;
        while desk.store.sweep_inbox(7).await.unwrap().more {}
        let kept = desk.number("SELECT count(*) FROM semel.inbox").await;
        assert!(kept <= 30, "day {day}: {kept}");
        assert_eq!(desk.number("SELECT count(*) FROM semel.inbox_attempt").await, 0);
    }
    assert_eq!(desk.effects(None).await, 300);
}

/// M74: the name is unique for as long as it is remembered, on whatever day its copy comes.
#[tokio::test]
async fn a_copy_is_known_until_the_end_of_its_memory_and_not_longer() {
    let desk = Desk::new(Major::V18).await;
    let time = desk.fixture.moved_time().await;
    let mut client = desk.connect().await;
    desk.handle(&mut client, &delivery("a"), None).await.map(drop).unwrap();
    for _ in 0..29 {
        time.advance(DAY).await;
        desk.store.sweep_inbox(100).await.unwrap();
        assert!(!is_first(&desk.handle(&mut client, &delivery("a"), None).await.unwrap()));
    }
    time.advance(2 * DAY).await;
    assert_eq!(desk.store.sweep_inbox(100).await.unwrap().messages, 1);
    assert!(is_first(&desk.handle(&mut client, &delivery("a"), None).await.unwrap()));
}

/// M67: a message that never came to an end is not counted for ever.
#[tokio::test]
async fn attempts_of_what_never_came_again_are_forgotten() {
    let desk = Desk::new(Major::V18).await;
    let time = desk.fixture.moved_time().await;
    desk.store.count(consumer(), vec![message("a"), message("b")]).await.unwrap();
    assert_eq!(desk.store.sweep_inbox(10).await.unwrap().attempts, 0);
    time.advance(ATTEMPTS_KEPT + DAY).await;
    assert_eq!(desk.store.sweep_inbox(10).await.unwrap().attempts, 2);
}

/// M70: what was ever parked is never forgotten, and the sweep waits for nobody.
#[tokio::test]
async fn a_sweep_leaves_what_was_parked_and_what_somebody_holds() {
    let desk = Desk::new(Major::V15).await;
    let time = desk.fixture.moved_time().await;
    let mut client = desk.connect().await;
    for id in ["held", "free"] {
        desk.handle(&mut client, &delivery(id), None).await.map(drop).unwrap();
    }
    desk.store.park(park(delivery("parked"))).await.unwrap();
    time.advance(1_000 * DAY).await;
    let lock =
        desk.fixture.sql("BEGIN; SELECT FROM semel.inbox WHERE message_id = 'held' FOR UPDATE");
    client.batch_execute(&lock).await.unwrap();
    assert_eq!(desk.store.sweep_inbox(10).await.unwrap().messages, 1);
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(desk.store.sweep_inbox(10).await.unwrap().messages, 1);
    assert_eq!(desk.number("SELECT count(*) FROM semel.inbox").await, 1);
}
