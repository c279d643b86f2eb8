//! One message inside a transaction.

use semel::StoreErrorKind;
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
async fn a_consumer_may_say_what_makes_the_content() {
    let mut desk = Desk::new();
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
