//! Several messages in one transaction.

use semel::{
    SystemClock,
    entropy::SystemEntropy,
    inbox::{Handled, InboxStore, Standing},
    outbox::{Event, EventId, Lane},
};
use semel_sqlite::inbox::{ReceiveAll, Verdict};

use super::{Desk, act, delivery, park, telling};

#[tokio::test]
async fn a_batch_does_the_effects_of_what_is_new_and_nothing_else() {
    let mut desk = Desk::new();
    desk.handle(&delivery("old"), Some("paid")).map(drop).unwrap();
    desk.store.park(park(delivery("parked"))).await.unwrap();
    let batch = [
        delivery("a"),
        delivery("old"),
        telling("old", "other"),
        delivery("b"),
        delivery("a"),
        telling("b", "other"),
        delivery("parked"),
        delivery("old"),
    ];
    let id = EventId::new(&SystemClock::new(), &SystemEntropy);
    let event = Event::new(id, Lane::new("invoice", "7").unwrap(), "Due", None).unwrap();
    let handled = desk.inbox.run_all(&mut desk.conn, &batch, |guard| {
        assert_eq!(guard.new_ones().collect::<Vec<_>>(), [0, 3]);
        assert!(guard.answer(1, "no".into()).is_err() && guard.answer(9, "no".into()).is_err());
        for at in guard.new_ones() {
            act(guard, batch[at].message.id())?;
        }
        guard.answer(3, "due".into()).unwrap();
        guard.publish(3, event.clone()).unwrap();
        Ok::<_, rusqlite::Error>(())
    });
    let handled = handled.unwrap();
    assert_eq!(desk.effects(), 3);
    let Handled::First(recorded) = &handled[3] else { panic!("{handled:?}") };
    assert_eq!((recorded.answer.as_deref(), &recorded.events), (Some(&b"due"[..]), &vec![id]));
    assert!(matches!(&handled[0], Handled::First(recorded) if recorded.answer.is_none()));
    assert!(matches!(&handled[1], Handled::Duplicate(Some(seen)) if seen.answer.is_some()));
    assert!(matches!(&handled[2], Handled::Mismatch(_)));
    assert_eq!(handled[4], Handled::Duplicate(None));
    assert!(matches!(&handled[5], Handled::Mismatch(_)));
    assert_eq!(handled[7], handled[1], "it is what was had");
    let Handled::Duplicate(Some(parked)) = &handled[6] else { panic!("{handled:?}") };
    assert_eq!(parked.standing, Standing::Parked);
    // A copy of the batch does nothing, and is told what was recorded.
    let inbox = desk.inbox.clone();
    let ReceiveAll::None(_, verdicts) = inbox.receive_all(desk.begin(), &batch[..4]).unwrap()
    else {
        panic!()
    };
    assert_eq!(verdicts[3], Verdict::Duplicate(Some(recorded.clone())));
}

#[tokio::test]
async fn a_statement_that_undoes_the_receipt_of_a_batch_is_noticed() {
    let mut desk = Desk::new();
    let inbox = desk.inbox.clone();
    let batch = ["a", "b", "c"].map(delivery);
    for answers in [None, Some(1)] {
        let tx = desk.begin();
        tx.execute_batch("SAVEPOINT before").unwrap();
        let received = inbox.receive_all(tx, &batch).unwrap();
        let ReceiveAll::Some(guard) = received else { panic!("{received:?}") };
        if let Some(at) = answers {
            guard.answer(at, "paid".into()).unwrap();
        }
        guard.execute_batch("ROLLBACK TO before").unwrap();
        let error = guard.done().unwrap_err();
        assert!(error.to_string().contains("undid the receipt"), "{error}");
    }
    assert_eq!(desk.number("SELECT count(*) FROM semel_inbox"), 0);
}

#[tokio::test]
async fn a_batch_of_which_one_fails_leaves_nothing() {
    let mut desk = Desk::new();
    let batch = ["a", "b", "c"].map(delivery);
    let failed = desk.inbox.run_all(&mut desk.conn, &batch, |guard| {
        act(guard, "a")?;
        guard.execute("INSERT INTO missing VALUES (1)", []).map(drop)
    });
    assert!(failed.is_err());
    assert_eq!((desk.effects(), desk.number("SELECT count(*) FROM semel_inbox")), (0, 0));
    let inbox = desk.inbox.clone();
    assert!(inbox.receive_all(desk.begin(), &[]).is_err());
    let mut again = delivery("a");
    again.parked = true;
    assert!(inbox.receive_all(desk.begin(), &[again]).is_err());
}
