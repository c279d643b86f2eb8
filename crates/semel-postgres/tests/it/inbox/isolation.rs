//! Receipts under stricter isolation: a lost race is no failure of the message.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use semel::inbox::{InboxStore, Redelivered};
use semel_postgres::{
    inbox::{Ran, Receive, ReceiveAll},
    transact::Isolation,
};
use semel_testkit::servers::Major;
use tokio_postgres::IsolationLevel;

use super::desk::{Desk, consumer, delivery, is_first, message, policy};

/// M77: the winner commits after the loser's snapshot was taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_race_under_repeatable_read_is_told_as_one() {
    for (major, level) in [
        (Major::V15, IsolationLevel::RepeatableRead),
        (Major::V18, IsolationLevel::RepeatableRead),
        (Major::V18, IsolationLevel::Serializable),
    ] {
        let desk = Desk::new(major).await;
        let (mut loser, mut winner) = (desk.connect().await, desk.connect().await);
        let tx = loser.build_transaction().isolation_level(level).start().await.unwrap();
        tx.query_one("SELECT 1", &[]).await.unwrap();
        assert!(is_first(&desk.handle(&mut winner, &delivery("a"), None).await.unwrap()));
        let received = desk.inbox.receive(tx, &delivery("a")).await.unwrap();
        assert!(matches!(received, Receive::Retry(_)), "{received:?}");
        drop(received);
        let tx = loser.build_transaction().isolation_level(level).start().await.unwrap();
        tx.query_one("SELECT 1", &[]).await.unwrap();
        assert!(is_first(&desk.handle(&mut winner, &delivery("b"), None).await.unwrap()));
        let batch = [delivery("c"), delivery("b")];
        let received = desk.inbox.receive_all(tx, &batch).await.unwrap();
        assert!(matches!(received, ReceiveAll::Retry(_)), "{received:?}");
        assert_eq!(desk.effects(Some("a")).await, 1);
    }
}

/// M77: inside a run it is retried, and no attempt is counted of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_retries_a_lost_race_by_itself() {
    for isolation in [Isolation::RepeatableRead, Isolation::Serializable] {
        let desk = Desk::new(Major::V18).await;
        let strict = desk.store.transact().isolation(isolation);
        let strict = strict.inbox(policy().into()).unwrap();
        let desk = Arc::new(Desk { inbox: strict, fixture: desk.fixture, store: desk.store });
        let runs = Arc::new(AtomicU32::new(0));
        let copies = (0..16).map(|_| {
            let (desk, runs) = (Arc::clone(&desk), Arc::clone(&runs));
            tokio::spawn(async move {
                let mut client = desk.connect().await;
                let mut delivery = delivery("a");
                delivery.redelivered = Redelivered::Unknown;
                let ran = desk.handle(&mut client, &delivery, None).await.unwrap();
                runs.fetch_add(u32::from(is_first(&ran)), Ordering::Relaxed);
            })
        });
        for copy in copies.collect::<Vec<_>>() {
            copy.await.unwrap();
        }
        assert_eq!((runs.load(Ordering::Relaxed), desk.effects(Some("a")).await), (1, 1));
        let attempts = desk.store.attempts(consumer(), vec![message("a")]).await.unwrap();
        assert_eq!(attempts[0].count, 0);
    }
}

#[tokio::test]
async fn what_the_work_of_a_run_loses_is_retried_too() {
    let desk = Desk::new(Major::V18).await;
    let mut client = desk.connect().await;
    let mut runs = 0;
    let raises = "DO $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = '40001'; END $$";
    let ran = desk
        .inbox
        .run(&mut client, &delivery("a"), |handling| {
            runs += 1;
            let loses = runs == 1;
            let desk = &desk;
            async move {
                desk.act(&*handling, "a").await?;
                if loses {
                    handling.batch_execute(raises).await?;
                }
                Ok::<_, tokio_postgres::Error>(handling.finish(None, ()))
            }
        })
        .await
        .unwrap();
    assert!(matches!(ran, Ran::First(..)), "{ran:?}");
    assert_eq!((runs, desk.effects(Some("a")).await), (2, 1));
}
