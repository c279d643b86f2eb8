//! Bounds: nothing is unbounded, and what is past a bound is refused whole.

use semel::inbox::{MessageId, Park, Uncount, store::READ_MAX};

use super::{FreshInbox, verbs::*};

fn many() -> Vec<MessageId> {
    (0..=READ_MAX).map(|number| message(&format!("m{number}"))).collect()
}

/// The unique keys are there, as a consumer asks before it begins.
pub async fn the_unique_keys_are_proved(on: FreshInbox) {
    on.store.check().await.unwrap();
}

/// More messages or logs than one call takes are refused.
pub async fn a_call_over_the_bound_is_refused_whole(on: FreshInbox) {
    refused(on.store.attempts(billing(), many()).await);
    refused(on.store.count(billing(), many()).await);
    refused(on.store.uncount(billing(), many(), Uncount::Ended).await);
    let logs = (0..=READ_MAX).map(|number| log(&format!("l{number}"))).collect();
    refused(on.store.positions(billing(), logs).await);
    assert_eq!(counts(&on.attempts(&["m0"]).await), [0]);
}

/// The largest call is served.
pub async fn a_call_of_the_largest_size_is_served(on: FreshInbox) {
    let mut most = many();
    most.pop();
    let counted = on.store.count(billing(), most.clone()).await.unwrap();
    assert!(counted.len() == READ_MAX && counted.iter().all(|attempts| attempts.count == 1));
    on.store.uncount(billing(), most.clone(), Uncount::GivenBack).await.unwrap();
    let read = on.store.attempts(billing(), most).await.unwrap();
    assert!(read.iter().all(|attempts| attempts.count == 0));
}

/// A reason past its bound is refused; the longest is kept.
pub async fn a_reason_over_the_bound_is_refused(on: FreshInbox) {
    let why = |length| Park { why: "y".repeat(length).into(), ..parking(delivery("a")) };
    refused(on.store.park(why(Park::WHY_MAX + 1)).await);
    assert_eq!(on.parked().await, []);
    on.park_as(why(Park::WHY_MAX)).await;
    assert_eq!(on.parked().await[0].why.len(), Park::WHY_MAX);
}
