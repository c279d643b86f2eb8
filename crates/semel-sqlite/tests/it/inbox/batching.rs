//! Several messages in one transaction.

use semel_sqlite::inbox::{ReceiveAll, Verdict};

use super::{Desk, act, delivery};

#[tokio::test]
async fn a_batch_keeps_something_only_of_its_new_messages() {
    let mut desk = Desk::new();
    desk.handle(&delivery("old"), Some("paid")).map(drop).unwrap();
    let batch = ["a", "old", "b", "a"].map(delivery);
    let handled = desk.inbox.run_all(&mut desk.conn, &batch, |guard| {
        assert_eq!(guard.new_ones().collect::<Vec<_>>(), [0, 2]);
        for at in [1, 3, 9] {
            assert!(guard.answer(at, "no".into()).is_err(), "nothing new stands at {at}");
        }
        for at in guard.new_ones() {
            act(guard, batch[at].message.id())?;
        }
        Ok::<_, rusqlite::Error>(())
    });
    assert_eq!((handled.unwrap().len(), desk.effects()), (4, 3));
    // A copy of the batch gives the transaction back.
    let inbox = desk.inbox.clone();
    let ReceiveAll::None(_, verdicts) = inbox.receive_all(desk.begin(), &batch).unwrap() else {
        panic!("it was new again")
    };
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Verdict::Duplicate(Some(_)))));
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
