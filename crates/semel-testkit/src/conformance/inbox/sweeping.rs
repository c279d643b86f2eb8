//! Retention: what is no longer remembered goes, and nothing before its time.

use semel::inbox::{InboxPolicy, ParkAnswer, store::ATTEMPTS_KEPT};

use super::{FreshInbox, verbs::*};

/// M67: thirty days simulated, with a memory of three: what is kept is bounded.
pub async fn what_is_remembered_stays_bounded_over_thirty_days(on: FreshInbox) {
    let policy = InboxPolicy { remember_for: 3 * DAY, ..policy() };
    for day in 0..30 {
        for number in 0..4 {
            let id = format!("m{day}-{number}");
            on.count(&[&id]).await;
            on.run_by(policy.clone(), &delivery(&id)).await;
        }
        on.after(DAY).await;
        on.swept(3).await;
        assert!(on.remembered().await <= 12, "day {day}");
        assert_eq!(on.inspect.consumers().await.unwrap()[0].attempted, 0);
    }
    assert_eq!(on.effects().await, 120);
}

/// M74: a name is unique for as long as it is remembered, on whatever day its copy comes, and never for
/// a shorter time than was promised.
pub async fn a_copy_is_known_until_the_end_of_its_memory(on: FreshInbox) {
    let policy = InboxPolicy { remember_for: 7 * DAY, ..policy() };
    on.run_by(policy.clone(), &delivery("a")).await;
    on.after(7 * DAY - INSTANT).await;
    for _ in 0..2 {
        assert_eq!(on.swept(100).await.messages, 0);
        copy(on.run_by(policy.clone(), &delivery("a")).await);
    }
    on.after(INSTANT).await;
    assert_eq!(on.swept(100).await.messages, 1);
    first(on.run_by(policy, &delivery("a")).await);
    assert_eq!(on.effects().await, 2);
}

/// Consumers remember for as long as each was told.
pub async fn every_consumer_has_a_memory_of_its_own(on: FreshInbox) {
    let short = InboxPolicy { remember_for: DAY, ..of("mailing") };
    let long = InboxPolicy { remember_for: 1_000 * DAY, ..policy() };
    for policy in [&short, &long] {
        on.run_by(policy.clone(), &delivery("a")).await;
        on.batch(policy.clone(), deliveries(["b", "c"])).await.unwrap();
    }
    on.after(2 * DAY).await;
    assert_eq!(on.swept(100).await.messages, 3);
    assert_eq!(on.remembered().await, 3);
    copy(on.run_by(long, &delivery("b")).await);
}

/// M70: what was ever parked is never forgotten: waiting, run again or left out.
pub async fn what_was_ever_parked_is_known_for_ever(on: FreshInbox) {
    for id in ["waits", "skipped"] {
        assert_eq!(on.park(delivery(id)).await, ParkAnswer::Parked);
    }
    assert!(on.mark("skipped", semel::inbox::Mark::Skip).await);
    let again = on.again("again").await;
    first(on.handle(&again).await);
    on.after(50 * 365 * DAY).await;
    assert_eq!(on.swept(100).await.messages, 0);
    for id in ["waits", "skipped", "again"] {
        copy(on.handle(&delivery(id)).await);
    }
    assert_eq!((on.effects().await, on.parked().await.len()), (1, 3));
}

/// M67: attempts of a message that never came to an end are not counted for ever, and not shorter than
/// any pause before it is run again.
pub async fn attempts_of_what_never_came_again_are_forgotten(on: FreshInbox) {
    on.count(&["a", "b"]).await;
    on.after(ATTEMPTS_KEPT - INSTANT).await;
    assert_eq!(on.swept(10).await.attempts, 0);
    on.count(&["b"]).await;
    on.after(INSTANT).await;
    assert_eq!(on.swept(10).await.attempts, 1);
    assert_eq!(counts(&on.attempts(&["a", "b"]).await), [0, 2]);
}

/// M67: attempts of what was handled go, though whoever handled it was gone before it said so.
pub async fn attempts_of_what_was_handled_are_forgotten(on: FreshInbox) {
    on.count(&["a", "b"]).await;
    on.handle(&delivery("a")).await;
    assert_eq!(on.swept(10).await.attempts, 1);
    assert_eq!(counts(&on.attempts(&["a", "b"]).await), [0, 1]);
}

/// A step is bounded, and says whether more is due.
pub async fn steps_are_bounded(on: FreshInbox) {
    let batch: Vec<_> = (0..7).map(|number| delivery(&format!("m{number}"))).collect();
    on.batch(policy(), batch).await.unwrap();
    on.after(31 * DAY).await;
    let step = on.sweep.sweep_inbox(3).await.unwrap();
    assert_eq!((step.messages, step.more), (3, true));
    assert_eq!(on.swept(3).await.messages, 4);
    let none = on.sweep.sweep_inbox(3).await.unwrap();
    assert_eq!((none.messages, none.attempts, none.more), (0, 0, false));
}

/// Positions are never forgotten: whatever is older was had.
pub async fn positions_are_never_forgotten(on: FreshInbox) {
    on.run_by(by_positions(), &at(7)).await;
    on.after(50 * 365 * DAY).await;
    on.swept(100).await;
    assert_eq!(on.next("a").await, Some(8));
    assert!(!is_first(&on.run_by(by_positions(), &at(7)).await));
}
