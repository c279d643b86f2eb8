//! Attempts: counted outside of the transactions of the effects.

use semel::inbox::{ParkAnswer, Uncount};

use super::{FreshInbox, verbs::*};

/// M67: attempts are counted, given back and forgotten; what has come to an end is not counted any more.
pub async fn attempts_are_counted_given_back_and_forgotten(on: FreshInbox) {
    assert_eq!(counts(&on.attempts(&["b", "a"]).await), [0, 0]);
    assert_eq!(counts(&on.count(&["b", "a"]).await), [1, 1]);
    assert_eq!(counts(&on.count(&["a"]).await), [2]);
    assert_eq!(counts(&on.attempts(&["b", "a"]).await), [1, 2]);
    on.uncount(&["b", "a"], Uncount::GivenBack).await;
    assert_eq!(counts(&on.attempts(&["b", "a"]).await), [0, 1]);
    on.uncount(&["b"], Uncount::GivenBack).await;
    assert_eq!(counts(&on.attempts(&["b"]).await), [0], "there is no less than none");
    on.uncount(&["b", "a"], Uncount::Ended).await;
    assert_eq!(counts(&on.attempts(&["b", "a"]).await), [0, 0]);
    let consumers = on.inspect.consumers().await.unwrap();
    assert!(consumers.iter().all(|consumer| consumer.attempted == 0), "{consumers:?}");
}

/// The first attempt is dated, so that parking can need a time, and the store's own time comes along.
pub async fn the_first_attempt_is_dated(on: FreshInbox) {
    let none = on.attempts(&["a"]).await[0];
    assert_eq!(none.first_at, none.now);
    let one = on.count(&["a"]).await[0];
    assert_eq!(one.first_at, one.now);
    on.after(DAY).await;
    let two = on.count(&["a"]).await[0];
    assert_eq!((two.first_at, two.now.since(two.first_at)), (one.first_at, DAY));
    assert_eq!(on.attempts(&["a"]).await[0], two);
    on.uncount(&["a"], Uncount::Ended).await;
    assert_eq!(on.count(&["a"]).await[0].first_at, two.now, "it begins anew");
}

/// Answers come in the order asked for; a name that stands there twice is one message, counted once and
/// given back once.
pub async fn a_name_twice_in_a_call_is_one_message(on: FreshInbox) {
    on.count(&["a"]).await;
    assert_eq!(counts(&on.count(&["b", "a", "b"]).await), [1, 2, 1]);
    assert_eq!(counts(&on.attempts(&["a", "b", "none", "a"]).await), [2, 1, 0, 2]);
    on.uncount(&["a", "b", "a"], Uncount::GivenBack).await;
    assert_eq!(counts(&on.attempts(&["a", "b"]).await), [1, 0]);
    assert_eq!(counts(&on.count(&[]).await), [0_u32; 0]);
}

/// What is counted outlives the transaction of the effect that was rolled back.
pub async fn a_failed_run_takes_no_attempt_back(on: FreshInbox) {
    for attempt in 1..=3 {
        assert_eq!(counts(&on.count(&["a"]).await), [attempt]);
        assert!(on.try_handle(policy(), &delivery("a"), failing()).await.is_err());
    }
    assert_eq!(counts(&on.attempts(&["a"]).await), [3]);
}

/// Consumers and sources count their own.
pub async fn consumers_and_sources_share_no_attempts(on: FreshInbox) {
    on.count(&["a"]).await;
    let other = vec![message_of("queue:refunds", "a")];
    let (mailing, billing) = (consumer("mailing"), billing());
    let of_consumer = on.store.count(mailing.clone(), vec![message("a")]).await.unwrap();
    let of_source = on.store.count(billing.clone(), other.clone()).await.unwrap();
    assert_eq!((counts(&of_consumer), counts(&of_source)), (vec![1], vec![1]));
    on.store.uncount(mailing, vec![message("a")], Uncount::Ended).await.unwrap();
    on.store.uncount(billing, other, Uncount::GivenBack).await.unwrap();
    assert_eq!(counts(&on.attempts(&["a"]).await), [1]);
}

/// Whoever is parked is counted anew if it is ever run again.
pub async fn attempts_go_with_the_parking(on: FreshInbox) {
    on.count(&["a", "b"]).await;
    assert_eq!(on.park(delivery("a")).await, ParkAnswer::Parked);
    assert_eq!(counts(&on.attempts(&["a", "b"]).await), [0, 1]);
    assert_eq!(on.state("a").await.attempts, None);
    assert_eq!(on.state("b").await.attempts.map(|attempts| attempts.count), Some(1));
}

/// That a message is done with takes the copy of a parked one along only if it is done.
pub async fn an_end_takes_only_the_copy_of_what_is_done(on: FreshInbox) {
    let again = on.again("a").await;
    on.uncount(&["a"], Uncount::Ended).await;
    assert_eq!(parked_ids(&on.due().await), ["a"], "it is still to be run");
    first(on.handle(&again).await);
    on.uncount(&["a"], Uncount::GivenBack).await;
    assert_eq!(parked_ids(&on.due().await), ["a"], "what it recorded may be unsent");
    on.uncount(&["a"], Uncount::Ended).await;
    assert!(on.due().await.is_empty() && on.parked().await.is_empty());
}
