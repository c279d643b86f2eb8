//! Messages that could not be handled: kept with a copy, known for ever, run again when an operator says
//! so.

use bytes::Bytes;
use semel::{
    Timestamp,
    inbox::{Delivery, Handled, Mark, Park, ParkAnswer, ParkedState, Position, Standing, Uncount},
};

use super::{FreshInbox, verbs::*};

/// A copy of every part.
fn whole() -> Delivery {
    let mut whole = delivery("a");
    whole.payload = Some(Bytes::from_static(b"\x00\xff{"));
    whole.headers = vec![
        ("trace".into(), Bytes::from_static(b"\x00\xff")),
        ("trace".into(), Bytes::new()),
        ("Trace \u{e9}".into(), Bytes::from_static(b"x")),
    ];
    whole.key = Some(Bytes::from_static(b"\xfe order 7"));
    whole.position = Some(Position { log: log("orders/0"), offset: 7 });
    whole.sent_at = Some(Timestamp::from_micros(1_700_000_000_000_001));
    whole
}

/// All that was delivered is kept, in whatever parts it came, and comes back to be run again.
pub async fn a_parked_message_keeps_all_that_was_delivered(on: FreshInbox) {
    let mut bare = delivery("b");
    bare.payload = None;
    let mut empty = delivery("c");
    (empty.payload, empty.key) = (Some(Bytes::new()), Some(Bytes::new()));
    for sent in [whole(), bare, empty] {
        assert_eq!(on.park(sent.clone()).await, ParkAnswer::Parked);
        let state = on.state(sent.message.id()).await;
        let parked = state.parked.expect("it is parked");
        assert_eq!((parked.state, parked.attempts), (ParkedState::Failed, 8));
        assert_eq!((&*parked.why, &parked.consumer), ("cannot be read", &billing()));
        let recorded = state.recorded.expect("it is remembered");
        assert_eq!((recorded.standing, recorded.at), (Standing::Parked, parked.parked_at));
        assert_eq!(recorded.fingerprint, sent.fingerprint());
        let mut again = parked.delivery();
        assert!(again.parked);
        (again.parked, again.receipt, again.redelivered) = (false, sent.receipt, sent.redelivered);
        assert_eq!(again, sent);
    }
    assert_eq!(parked_ids(&on.parked().await), ["a", "b", "c"]);
}

/// M47: what is parked is not run, and nothing behind it waits.
pub async fn a_copy_of_a_parked_message_is_not_run(on: FreshInbox) {
    assert_eq!(on.park(delivery("a")).await, ParkAnswer::Parked);
    assert_eq!(copy(on.handle(&delivery("a")).await).standing, Standing::Parked);
    mismatch(on.handle(&telling("a", "other")).await);
    first(on.handle(&delivery("b")).await);
    assert_eq!((on.effects_of("a").await, on.effects().await), (0, 1));
}

/// Whoever is parked again is one row, whose last failure is told.
pub async fn a_parking_repeated_is_one(on: FreshInbox) {
    assert_eq!(on.park(whole()).await, ParkAnswer::Parked);
    let before = on.state("a").await.parked.unwrap();
    on.after(DAY).await;
    let later = Park { attempts: 9, why: "still not".into(), ..parking(whole()) };
    assert_eq!(on.park_as(later).await, ParkAnswer::Parked);
    let parked = on.parked().await;
    assert_eq!(parked.len(), 1);
    assert_eq!((parked[0].attempts, &*parked[0].why), (9, "still not"));
    assert_eq!(parked[0].parked_at.since(before.parked_at), DAY);
    assert_eq!(parked[0].headers, before.headers);
}

/// What was handled or left out is not parked any more.
pub async fn what_has_come_to_its_end_is_not_parked(on: FreshInbox) {
    let done = first(on.handle(&delivery("done")).await);
    assert_eq!(on.park(delivery("out")).await, ParkAnswer::Parked);
    assert!(on.mark("out", Mark::Drop).await);
    for id in ["done", "out"] {
        assert_eq!(on.park(delivery(id)).await, ParkAnswer::Ended, "{id}");
    }
    assert_eq!(on.parked().await, []);
    assert_eq!(copy(on.handle(&delivery("done")).await), done);
}

/// M70, M80: an operator has a dead letter run again under its own id, once, whatever copies come.
pub async fn a_parked_message_is_run_again_once_under_its_own_id(on: FreshInbox) {
    assert_eq!(on.park(delivery("a")).await, ParkAnswer::Parked);
    assert_eq!(on.due().await, [], "nobody said so yet");
    assert!(on.mark("a", Mark::Retry).await);
    assert_eq!(copy(on.handle(&delivery("a")).await).standing, Standing::Parked);
    let again = on.due().await[0].delivery();
    assert_eq!((&again.message, again.parked), (&message("a"), true));
    let recorded = first(on.answer(&again, "paid").await);
    // Its copy stays until whoever ran it says that it is done with: what it recorded may be unsent.
    assert_eq!(parked_ids(&on.due().await), ["a"]);
    for sent in [again, delivery("a")] {
        assert_eq!(copy(on.answer(&sent, "other").await), recorded);
    }
    on.uncount(&["a"], Uncount::Ended).await;
    assert_eq!((on.due().await, on.parked().await), (vec![], vec![]));
    assert_eq!(on.effects().await, 1);
}

/// A run again that fails leaves the message parked, and once that is said it waits for an operator again.
pub async fn a_run_again_that_fails_waits_for_an_operator_again(on: FreshInbox) {
    let again = on.again("a").await;
    assert!(on.try_handle(policy(), &again, failing()).await.is_err());
    assert_eq!(on.state("a").await.recorded.unwrap().standing, Standing::Parked);
    assert_eq!(parked_ids(&on.due().await), ["a"]);
    let failed = Park { attempts: 9, why: "still not".into(), ..parking(again) };
    assert_eq!(on.park_as(failed).await, ParkAnswer::Parked);
    assert_eq!(on.due().await, []);
    let parked = on.state("a").await.parked.unwrap();
    assert_eq!((parked.state, parked.attempts), (ParkedState::Failed, 9));
    assert_eq!(on.effects().await, 0);
}

/// What an operator left out is not run, although somebody still has it to be run again.
pub async fn what_was_left_out_meanwhile_is_not_run(on: FreshInbox) {
    let again = on.again("a").await;
    assert!(on.mark("a", Mark::Skip).await);
    assert_eq!(copy(on.handle(&again).await).standing, Standing::LeftOut);
    assert_eq!((on.effects().await, on.due().await), (0, vec![]));
}

/// What is due comes the oldest first, so many at most, and of one consumer.
pub async fn the_oldest_is_due_first(on: FreshInbox) {
    for id in ["c", "a", "b"] {
        on.again(id).await;
        on.after(INSTANT).await;
    }
    let mailing = Park { consumer: consumer("mailing"), ..parking(delivery("other")) };
    assert_eq!(on.park_as(mailing).await, ParkAnswer::Parked);
    assert_eq!(on.park(delivery("waits")).await, ParkAnswer::Parked);
    assert_eq!(parked_ids(&on.due().await), ["c", "a", "b"]);
    assert_eq!(parked_ids(&on.store.due(billing(), 2).await.unwrap()), ["c", "a"]);
}

/// Of one message each consumer, and of one id each source, has its own copy.
pub async fn consumers_and_sources_share_no_parked_messages(on: FreshInbox) {
    let mailing = Park { consumer: consumer("mailing"), ..parking(delivery("a")) };
    assert_eq!(on.park_as(mailing).await, ParkAnswer::Parked);
    first(on.handle(&delivery("a")).await);
    let other = delivered(message_of("queue:refunds", "a"), "a");
    assert_eq!(on.park(other.clone()).await, ParkAnswer::Parked);
    assert_eq!(copy(on.handle(&delivery("a")).await).standing, Standing::Done);
    let handled = on.run_by(of("mailing"), &delivery("a")).await;
    assert_eq!(copy(handled).standing, Standing::Parked);
    assert!(!on.mark("a", Mark::Drop).await, "its own is done");
    assert_eq!(on.parked().await.len(), 2);
    assert!(matches!(on.handle(&other).await, Handled::Duplicate(Some(_))));
    assert_eq!(on.effects().await, 1);
}
