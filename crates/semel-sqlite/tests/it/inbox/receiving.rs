//! One message inside a transaction.

use std::sync::Arc;

use rusqlite::Connection;
use semel::{
    StoreErrorKind, SystemClock,
    entropy::SystemEntropy,
    inbox::{Consumer, InboxPolicy, Recorded, Standing},
    outbox::{Event, EventId, Lane, OutboxInspect, store::EventFilter},
};
use semel_sqlite::inbox::{Handling, Ran, Receive};

use super::{Desk, act, delivery, handle, is_first, telling};

#[track_caller]
fn first(received: Receive<'_>) -> Handling<'_> {
    match received {
        Receive::First(handling) => handling,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_message_has_one_effect_and_a_copy_gets_what_was_recorded() {
    let mut desk = Desk::new();
    let Ran::First((), recorded) = desk.handle(&delivery("a"), Some("paid")).unwrap() else {
        panic!()
    };
    assert_eq!(recorded.answer.as_deref(), Some(&b"paid"[..]));
    assert_eq!(recorded.standing, Standing::Done);
    for _ in 0..3 {
        let Ran::Duplicate(Some(seen)) = desk.handle(&delivery("a"), Some("other")).unwrap() else {
            panic!()
        };
        assert_eq!(seen, recorded);
    }
    assert_eq!(desk.effects(), 1);
}

/// M71
#[tokio::test]
async fn two_consumers_of_one_message_have_it_each() {
    let mut desk = Desk::new();
    let other = InboxPolicy::new(Consumer::new("mailing").unwrap());
    let other = desk.store.inbox(Arc::new(other)).unwrap();
    for _ in 0..2 {
        desk.handle(&delivery("a"), None).map(drop).unwrap();
        handle(&other, &mut desk.conn, &delivery("a"), None).map(drop).unwrap();
    }
    assert_eq!(desk.effects(), 2);
}

#[tokio::test]
async fn other_content_under_one_id_is_told_and_not_run() {
    let mut desk = Desk::new();
    assert!(is_first(&desk.handle(&telling("a", "ten"), None).unwrap()));
    let Ran::Mismatch(recorded) = desk.handle(&telling("a", "eleven"), None).unwrap() else {
        panic!()
    };
    assert_eq!(recorded.fingerprint, telling("a", "ten").fingerprint());
    assert_eq!(desk.effects(), 1);
    // A consumer may say what makes the content.
    let lenient = desk.inbox.clone().fingerprint(|_| semel::Fingerprint::of_bytes(b"any"));
    let mut say = |payload| handle(&lenient, &mut desk.conn, &telling("b", payload), None).unwrap();
    assert!(is_first(&say("ten")));
    assert!(matches!(say("eleven"), Ran::Duplicate(_)));
}

#[tokio::test]
async fn a_guard_that_is_dropped_leaves_nothing() {
    let mut desk = Desk::new();
    let inbox = desk.inbox.clone();
    for commits in [false, true] {
        let mut tx = desk.begin();
        tx.set_drop_behavior(rusqlite::DropBehavior::Commit);
        let handling = first(inbox.receive(tx, &delivery("a")).unwrap());
        act(&handling, "a").unwrap();
        if commits {
            handling.done(Some("paid".into())).unwrap().commit().unwrap();
        }
    }
    assert_eq!((desk.effects(), desk.number("SELECT count(*) FROM semel_inbox")), (1, 1));
}

/// M98: an effect that fails leaves its message to the next copy.
#[tokio::test]
async fn a_message_whose_effect_failed_is_handled_when_it_comes_again() {
    let mut desk = Desk::new();
    let failed = desk.inbox.run(&mut desk.conn, &delivery("a"), |handling| {
        act(handling, "a")?;
        handling.execute("INSERT INTO missing VALUES (1)", []).map(|_| (None, ()))
    });
    assert!(failed.is_err());
    assert_eq!(desk.effects(), 0);
    assert!(is_first(&desk.handle(&delivery("a"), None).unwrap()));
    assert_eq!(desk.effects(), 1);
}

/// M73: what the first run published and answered is told to every copy.
#[tokio::test]
async fn events_leave_with_the_effect_and_their_ids_are_recorded() {
    let mut desk = Desk::new();
    let inbox = desk.inbox.clone();
    let event = |number: u8| {
        let id = EventId::new(&SystemClock::new(), &SystemEntropy);
        Event::new(id, Lane::new("invoice", "7").unwrap(), "Due", Some(vec![number].into()))
    };
    let handling = first(inbox.receive(desk.begin(), &delivery("a")).unwrap());
    let ids = [1, 2].map(|number| handling.publish(event(number).unwrap()).unwrap());
    handling.done(None).unwrap().commit().unwrap();
    let Ran::Duplicate(Some(seen)) = desk.handle(&delivery("a"), None).unwrap() else { panic!() };
    assert_eq!(seen.events, ids);
    let filter = EventFilter { limit: 9, ..EventFilter::default() };
    let kept = desk.store.events(filter).await.unwrap();
    assert_eq!(kept.iter().map(|placed| placed.event.id).collect::<Vec<_>>(), ids);
    for placed in kept {
        assert_eq!(placed.event.cause.as_ref().unwrap().as_str(), "message:kafka:orders a");
    }
}

#[tokio::test]
async fn a_statement_that_ends_the_transaction_or_undoes_the_receipt_is_noticed() {
    let mut desk = Desk::new();
    let inbox = desk.inbox.clone();
    for undo in ["ROLLBACK", "COMMIT", "DELETE FROM semel_inbox"] {
        let handling = first(inbox.receive(desk.begin(), &delivery(undo)).unwrap());
        handling.execute_batch(undo).unwrap();
        let error = handling.done(None).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Invalid);
        assert!(error.to_string().contains("undid the receipt"), "{error}");
    }
}

#[tokio::test]
async fn an_answer_past_its_bound_is_refused_and_nothing_is_committed() {
    let mut desk = Desk::new();
    let large = vec![0; Recorded::ANSWER_MAX + 1];
    let refused = desk.inbox.run(&mut desk.conn, &delivery("a"), |handling| {
        act(handling, "a").map(|()| (Some(large.clone().into()), ()))
    });
    assert!(refused.is_err());
    assert_eq!((desk.effects(), desk.number("SELECT count(*) FROM semel_inbox")), (0, 0));
}

/// M17, M113: fifty copies at once, on connections of their own.
#[tokio::test]
async fn fifty_copies_at_once_have_one_effect() {
    let desk = Desk::new();
    let (start, path) = (std::sync::Barrier::new(50), desk.bench.path());
    let (inbox, start, path) = (&desk.inbox, &start, &path);
    let firsts: usize = std::thread::scope(|scope| {
        let copy = move || {
            let mut conn = Connection::open(path).unwrap();
            conn.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
            start.wait();
            let ran = handle(inbox, &mut conn, &delivery("a"), Some("paid")).unwrap();
            usize::from(is_first(&ran))
        };
        let copies: Vec<_> = (0..50).map(|_| scope.spawn(copy)).collect();
        copies.into_iter().map(|copy| copy.join().unwrap()).sum()
    });
    assert_eq!((firsts, desk.effects()), (1, 1));
}
