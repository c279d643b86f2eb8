//! Retention of what consumers had.

use std::time::Duration;

use semel::inbox::{InboxPolicy, InboxStore, InboxSweep, store::ATTEMPTS_KEPT};

use super::{Desk, consumer, delivery, is_first, message, park, policy};

const DAY: Duration = Duration::from_secs(86_400);

/// M67: thirty days simulated, with a memory of three.
#[tokio::test]
async fn what_is_remembered_stays_bounded_over_thirty_days() {
    let mut desk = Desk::with(InboxPolicy { remember_for: 3 * DAY, ..policy() });
    for day in 0..30 {
        for number in 0..10 {
            let sent = delivery(&format!("m{day}-{number}"));
            desk.store.count(consumer(), vec![sent.message.clone()]).await.unwrap();
            desk.handle(&sent, None).map(drop).unwrap();
        }
        desk.clock.advance(DAY);
        while desk.store.sweep_inbox(7).await.unwrap().more {}
        let kept = desk.number("SELECT count(*) FROM semel_inbox");
        assert!(kept <= 30, "day {day}: {kept}");
        assert_eq!(desk.number("SELECT count(*) FROM semel_inbox_attempt"), 0);
    }
    assert_eq!(desk.effects(), 300);
}

/// M74: the name is unique for as long as it is remembered, on whatever day its copy comes.
#[tokio::test]
async fn a_copy_is_known_until_the_end_of_its_memory_and_not_longer() {
    let mut desk = Desk::new();
    desk.handle(&delivery("a"), None).map(drop).unwrap();
    desk.store.park(park(delivery("parked"))).await.unwrap();
    for _ in 0..29 {
        desk.clock.advance(DAY);
        desk.store.sweep_inbox(100).await.unwrap();
        assert!(!is_first(&desk.handle(&delivery("a"), None).unwrap()));
    }
    desk.clock.advance(2 * DAY);
    assert_eq!(desk.store.sweep_inbox(100).await.unwrap().messages, 1);
    assert!(is_first(&desk.handle(&delivery("a"), None).unwrap()));
    assert!(!is_first(&desk.handle(&delivery("parked"), None).unwrap()));
}

#[tokio::test]
async fn attempts_of_what_never_came_again_are_forgotten() {
    let desk = Desk::new();
    desk.store.count(consumer(), vec![message("a"), message("b")]).await.unwrap();
    assert_eq!(desk.store.sweep_inbox(10).await.unwrap().attempts, 0);
    desk.clock.advance(ATTEMPTS_KEPT + DAY);
    assert_eq!(desk.store.sweep_inbox(10).await.unwrap().attempts, 2);
}
