//! One message: its effect and the fact that its consumer had it are committed together.

use std::time::Duration;

use bytes::Bytes;
use semel::{
    inbox::{Handled, Recorded, Standing},
    outbox::store::EventFilter,
};

use super::{super::outbox::verbs::event, FreshInbox, Work, verbs::*};

/// However often a message comes, it has one effect, and each copy is told what the run recorded.
pub async fn a_message_has_one_effect_and_a_copy_gets_what_was_recorded(on: FreshInbox) {
    let recorded = first(on.answer(&delivery("a"), "paid").await);
    assert_eq!(recorded.answer.as_deref(), Some(&b"paid"[..]));
    assert_eq!(recorded.standing, Standing::Done);
    assert_eq!(recorded.fingerprint, delivery("a").fingerprint());
    for _ in 0..3 {
        assert_eq!(copy(on.answer(&delivery("a"), "other").await), recorded);
    }
    assert_eq!(on.effects().await, 1);
}

/// M71: the name holds for one consumer: another one has the message too.
pub async fn two_consumers_of_one_message_have_it_each(on: FreshInbox) {
    for _ in 0..2 {
        for name in ["billing", "mailing", "Billing"] {
            on.run_by(of(name), &delivery("a")).await;
        }
    }
    assert_eq!(on.effects().await, 3);
}

/// An id is unique inside its source: under another one it is another message.
pub async fn sources_share_no_ids(on: FreshInbox) {
    for _ in 0..2 {
        for source in ["queue:orders", "queue:refunds", "Queue:orders"] {
            on.handle(&delivered(message_of(source, "a"), source)).await;
        }
    }
    assert_eq!(on.effects().await, 3);
}

/// Names are compared byte by byte, and none is taken for another by how its parts are put together.
pub async fn names_are_compared_byte_by_byte(on: FreshInbox) {
    let long = "é".repeat(127);
    let named = [
        ("s", "a"),
        ("s", "A"),
        ("s", "a "),
        ("s", "\u{e9}"),
        ("s", "e\u{301}"),
        ("s a", "b"),
        ("s", "a b"),
        ("s/a", "b"),
        ("s", "a/b"),
        ("s", "a'b\"c\\d"),
        ("s", "{a}"),
        ("s", "%"),
        (long.as_str(), long.as_str()),
    ];
    for _ in 0..2 {
        for (source, id) in named {
            on.handle(&delivered(message_of(source, id), "x")).await;
        }
    }
    assert_eq!(on.effects().await, named.len());
    let consumer = consumer(&"c".repeat(128));
    let long = delivered(message_of(long.as_str(), long.as_str()), "x");
    on.run_by(semel::inbox::InboxPolicy::new(consumer.clone()), &long).await;
    let had = on.inspect.had(consumer, None, 10).await.unwrap();
    assert_eq!(had[0].message, long.message);
}

/// What comes with other content than before under one name is told, with what is remembered, and not
/// run; the first one stays what it is.
pub async fn other_content_under_one_id_is_told_and_not_run(on: FreshInbox) {
    let recorded = first(on.answer(&telling("a", "ten"), "paid").await);
    for _ in 0..2 {
        assert_eq!(mismatch(on.answer(&telling("a", "eleven"), "other").await), recorded);
    }
    assert_eq!(copy(on.handle(&telling("a", "ten")).await), recorded);
    assert_eq!(on.effects().await, 1);
}

/// M98: what fails leaves nothing, neither its effect nor its name: the next copy is run.
pub async fn a_message_whose_effect_failed_is_run_when_it_comes_again(on: FreshInbox) {
    for _ in 0..2 {
        assert!(on.try_handle(policy(), &delivery("a"), failing()).await.is_err());
        assert_eq!((on.effects().await, on.remembered().await), (0, 0));
    }
    first(on.handle(&delivery("a")).await);
    assert_eq!(on.effects().await, 1);
}

/// Answers come back byte for byte; none is not an empty one.
pub async fn answers_come_back_as_they_were(on: FreshInbox) {
    let answers = [
        None,
        Some(Bytes::new()),
        Some(Bytes::from_static(b"\x00\xff'\\x")),
        Some(Bytes::from(vec![7; Recorded::ANSWER_MAX])),
    ];
    for (number, answer) in answers.into_iter().enumerate() {
        let sent = delivery(&format!("m{number}"));
        let work = Work { answer: answer.clone(), ..Work::default() };
        let recorded = first(on.try_handle(policy(), &sent, work).await.unwrap());
        assert!(recorded.answer == answer, "answer {number} of the run");
        assert!(copy(on.handle(&sent).await).answer == answer, "answer {number} of a copy");
    }
}

/// An answer past its bound is refused, and then nothing is committed.
pub async fn an_answer_past_its_bound_leaves_nothing(on: FreshInbox) {
    let answer = Some(Bytes::from(vec![0; Recorded::ANSWER_MAX + 1]));
    let work = Work { answer, ..Work::default() };
    assert!(on.try_handle(policy(), &delivery("a"), work).await.is_err());
    assert_eq!((on.effects().await, on.remembered().await), (0, 0));
    first(on.handle(&delivery("a")).await);
}

/// A message without a payload is a message like any other.
pub async fn a_tombstone_is_a_message(on: FreshInbox) {
    let mut tombstone = delivery("a");
    tombstone.payload = None;
    first(on.handle(&tombstone).await);
    copy(on.handle(&tombstone).await);
    mismatch(on.handle(&delivery("a")).await);
    assert_eq!(on.effects().await, 1);
}

/// M73: what a run published leaves once, in order, caused by its message, and each copy is told the ids.
pub async fn events_leave_once_with_the_effect_and_copies_are_told(on: FreshInbox) {
    let Some(outbox) = on.outbox.clone() else { return };
    let events = [event("a", "Billed"), event("a", "Sent")];
    let published: Vec<_> = events.iter().map(|event| event.id).collect();
    let work = |fails| Work { events: events.to_vec(), fails, ..Work::default() };
    assert!(on.try_handle(policy(), &delivery("a"), work(true)).await.is_err());
    let recorded = first(on.try_handle(policy(), &delivery("a"), work(false)).await.unwrap());
    assert_eq!(recorded.events, published);
    let more = Work { events: vec![event("a", "More")], ..Work::default() };
    let Handled::Duplicate(Some(seen)) =
        on.try_handle(policy(), &delivery("a"), more).await.unwrap()
    else {
        panic!("a copy ran")
    };
    assert_eq!(seen, recorded);
    let filter = EventFilter { limit: 10, ..EventFilter::default() };
    let left = outbox.events(filter).await.unwrap();
    assert_eq!(left.iter().map(|placed| placed.event.id).collect::<Vec<_>>(), published);
    for placed in left {
        let cause = placed.event.cause.as_ref().expect("it is caused by a message");
        assert_eq!(cause.as_str(), "message:queue:orders a");
    }
}

/// A run that publishes is hinted at to whoever waits, by itself and in a batch.
pub async fn a_run_that_publishes_is_hinted_at(on: FreshInbox) {
    let Some(hints) = on.hints.clone() else { return };
    for by_batch in [false, true] {
        let mut is_heard = false;
        for round in 0..ROUNDS_MAX {
            // A hint may be lost, as one of a commit that comes before anybody waits: another follows.
            let sent = delivery(&format!("m{by_batch}{round}"));
            let work = Work { events: vec![event("a", "Billed")], ..Work::default() };
            let run = async {
                match by_batch {
                    true => on.worker.batch(policy(), vec![sent], vec![work]).await.map(drop),
                    false => on.worker.handle(policy(), sent, work).await.map(drop),
                }
            };
            let (heard, ran) = tokio::join!(hints.hinted(Duration::from_millis(500)), run);
            ran.expect("a message is handled");
            is_heard = heard.expect("hints can be had");
            if is_heard {
                break;
            }
        }
        assert!(is_heard, "no run is ever hinted at; by a batch: {by_batch}");
    }
}
