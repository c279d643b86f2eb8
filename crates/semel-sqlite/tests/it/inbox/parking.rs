//! Attempts and parked messages, beside the transactions of the effects.

use bytes::Bytes;
use semel::{
    StoreErrorKind, Timestamp,
    inbox::{
        InboxInspect, InboxStore, InboxSweep, Mark, Park, ParkAnswer, ParkedState, Standing,
        Uncount,
    },
    store::Actor,
};
use semel_sqlite::inbox::Ran;

use super::{Desk, at, consumer, delivery, is_first, message, park};

pub(super) fn actor() -> Actor {
    Actor { name: "ada".into(), note: "the schema is fixed".into() }
}

/// M67: what has come to an end is not counted any more.
#[tokio::test]
async fn attempts_are_counted_given_back_and_forgotten() {
    let desk = Desk::new();
    let (store, names) = (&desk.store, vec![message("b"), message("a")]);
    let counts = async || -> Vec<u32> {
        let counted = store.attempts(consumer(), names.clone()).await.unwrap();
        counted.iter().map(|attempts| attempts.count).collect()
    };
    assert_eq!(counts().await, [0, 0]);
    store.count(consumer(), names.clone()).await.unwrap();
    desk.clock.advance(std::time::Duration::from_secs(1));
    let counted = store.count(consumer(), vec![message("a")]).await.unwrap();
    assert_eq!((counted[0].count, counts().await), (2, vec![1, 2]));
    assert!(counted[0].first_at < counted[0].now);
    store.uncount(consumer(), names.clone(), Uncount::GivenBack).await.unwrap();
    assert_eq!(counts().await, [0, 1]);
    store.uncount(consumer(), names.clone(), Uncount::Ended).await.unwrap();
    assert_eq!(desk.number("SELECT count(*) FROM semel_inbox_attempt"), 0);
}

#[tokio::test]
async fn a_parked_message_keeps_all_that_was_delivered() {
    let desk = Desk::new();
    let mut sent = at(7);
    sent.headers.push(("trace".into(), Bytes::from_static(b"\x00\xff")));
    sent.headers.push(("trace".into(), Bytes::from_static(b"")));
    sent.key = Some(Bytes::from_static(b"order-7"));
    sent.sent_at = Some(Timestamp::from_micros(1_700_000_000_000_000));
    desk.store.count(consumer(), vec![sent.message.clone()]).await.unwrap();
    for _ in 0..2 {
        assert_eq!(desk.store.park(park(sent.clone())).await.unwrap(), ParkAnswer::Parked);
    }
    let state = desk.store.message(consumer(), sent.message.clone()).await.unwrap();
    let parked = state.parked.unwrap();
    let mut again = parked.delivery();
    assert!(again.parked);
    (again.parked, again.receipt, again.redelivered) = (false, sent.receipt, sent.redelivered);
    assert_eq!((again, parked.state, parked.attempts), (sent, ParkedState::Failed, 8));
    assert_eq!(state.recorded.unwrap().standing, Standing::Parked);
    assert_eq!(state.attempts, None, "they go with the parking");
}

/// M47: what is parked is not run, and nothing behind it waits.
#[tokio::test]
async fn a_copy_of_a_parked_message_is_not_run() {
    let mut desk = Desk::new();
    desk.store.park(park(delivery("a"))).await.unwrap();
    let ran = desk.handle(&delivery("a"), None).unwrap();
    let Ran::Duplicate(Some(recorded)) = ran else { panic!("{ran:?}") };
    assert_eq!(recorded.standing, Standing::Parked);
    assert!(is_first(&desk.handle(&delivery("b"), None).unwrap()));
    assert_eq!(desk.effects(), 1);
    // What was handled is not parked any more.
    assert_eq!(desk.store.park(park(delivery("b"))).await.unwrap(), ParkAnswer::Ended);
    assert_eq!(desk.number("SELECT count(*) FROM semel_inbox_parked"), 1);
}

/// M70, M80: an operator runs a dead letter again under its own id, once; afterwards it is known for ever.
#[tokio::test]
async fn a_parked_message_is_run_again_once_under_its_own_id() {
    let mut desk = Desk::new();
    desk.store.park(park(delivery("a"))).await.unwrap();
    assert_eq!(desk.store.due(consumer(), 10).await.unwrap(), []);
    assert!(desk.store.mark(consumer(), message("a"), Mark::Retry, actor()).await.unwrap());
    let again = desk.store.due(consumer(), 10).await.unwrap()[0].delivery();
    assert!(is_first(&desk.handle(&again, Some("paid")).unwrap()));
    // Its copy stays until whoever ran it says that it is done with: what it recorded may be unsent.
    assert_eq!(desk.store.due(consumer(), 10).await.unwrap().len(), 1);
    for copy in [again, delivery("a")] {
        assert!(matches!(desk.handle(&copy, None).unwrap(), Ran::Duplicate(Some(_))));
    }
    desk.store.uncount(consumer(), vec![message("a")], Uncount::Ended).await.unwrap();
    assert_eq!(desk.number("SELECT count(*) FROM semel_inbox_parked"), 0);
    assert_eq!(desk.number("SELECT count(*) FROM semel_inbox_header"), 0);
    desk.clock.advance(std::time::Duration::from_secs(50 * 365 * 86_400));
    desk.store.sweep_inbox(100).await.unwrap();
    assert!(matches!(desk.handle(&delivery("a"), None).unwrap(), Ran::Duplicate(Some(_))));
    assert_eq!(desk.effects(), 1);
}

#[tokio::test]
async fn a_run_again_that_fails_waits_for_an_operator_again() {
    let desk = Desk::new();
    desk.store.park(park(delivery("a"))).await.unwrap();
    desk.store.mark(consumer(), message("a"), Mark::Retry, actor()).await.unwrap();
    let again = desk.store.due(consumer(), 10).await.unwrap()[0].delivery();
    let failed = Park { attempts: 9, why: "still not".into(), ..park(again) };
    assert_eq!(desk.store.park(failed).await.unwrap(), ParkAnswer::Parked);
    assert_eq!(desk.store.due(consumer(), 10).await.unwrap(), []);
    let parked = desk.store.message(consumer(), message("a")).await.unwrap().parked.unwrap();
    assert_eq!((parked.attempts, &*parked.why), (9, "still not"));
    assert_eq!(parked.state, ParkedState::Failed);
}

/// M76: without its unique key the table would let copies pass that come at one instant.
#[tokio::test]
async fn a_lost_unique_key_is_found_before_anything_is_consumed() {
    for (table, columns) in
        [("semel_inbox", "consumer, source, message_id"), ("semel_inbox_position", "consumer, log")]
    {
        let desk = Desk::new();
        desk.store.check().await.unwrap();
        // A tool moved the rows into a table without its key. A part of the rows, or more than the key,
        // will not do.
        let moved = format!(
            "CREATE TABLE moved AS SELECT *, 1 AS more FROM {table}; DROP TABLE {table}; \
             ALTER TABLE moved RENAME TO {table}; CREATE INDEX plain ON {table} ({columns}); \
             CREATE UNIQUE INDEX part ON {table} ({columns}) WHERE consumer = 'a'; \
             CREATE UNIQUE INDEX longer ON {table} ({columns}, more)"
        );
        desk.conn.execute_batch(&moved).unwrap();
        let error = desk.store.check().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Damaged, "{error}");
    }
}
