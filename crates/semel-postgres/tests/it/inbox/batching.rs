//! Several messages in one transaction.

use semel::inbox::Handled;
use semel_postgres::inbox::{ReceiveAll, Verdict};
use semel_testkit::servers::Major;

use super::desk::{Desk, delivery};
use crate::transact::pool::Pool;

#[tokio::test]
async fn a_batch_keeps_something_only_of_its_new_messages() {
    let desk = Desk::new(Major::V17).await;
    let mut client = desk.connect().await;
    desk.handle(&mut client, &delivery("old"), Some("paid")).await.map(drop).unwrap();
    let deliveries = ["z", "old", "a", "z"].map(delivery);
    let tx = client.transaction().await.unwrap();
    let received = desk.inbox.receive_all(tx, &deliveries).await.unwrap();
    let ReceiveAll::Some(mut batch) = received else { panic!("{received:?}") };
    assert_eq!(batch.new_ones().collect::<Vec<_>>(), [0, 2]);
    assert_eq!(batch.verdicts()[3], Verdict::Duplicate(None));
    for at in [1, 3, 7] {
        assert!(batch.answer(at, "no".into()).is_err(), "nothing new stands at {at}");
    }
    batch.answer(2, "sent".into()).unwrap();
    batch.done().await.unwrap().commit().await.unwrap();
    let mut other = desk.connect().await;
    let tx = other.transaction().await.unwrap();
    let received = desk.inbox.receive_all(tx, &deliveries).await.unwrap();
    let ReceiveAll::None(_, verdicts) = received else { panic!("{received:?}") };
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Verdict::Duplicate(Some(_)))));
}

#[tokio::test]
async fn a_batch_without_anything_new_runs_nothing() {
    let desk = Desk::new(Major::V18).await;
    let pool = Pool::new(&desk.fixture.url, 2);
    let deliveries: Vec<_> = (0..500).map(|n| delivery(&format!("m{n}"))).collect();
    let mut runs = 0;
    for firsts in [500, 0] {
        let handled = desk
            .inbox
            .run_all_on(&pool, &deliveries, |batch| {
                runs += 1;
                let (desk, deliveries) = (&desk, &deliveries);
                async move {
                    for at in batch.new_ones() {
                        desk.act(&*batch, deliveries[at].message.id()).await?;
                    }
                    Ok::<_, tokio_postgres::Error>(batch.finish())
                }
            })
            .await
            .unwrap();
        let is_first = |handled: &&Handled| matches!(handled, Handled::First(_));
        assert_eq!(handled.iter().filter(is_first).count(), firsts);
    }
    assert_eq!((runs, desk.effects(None).await), (1, 500));
}

/// What is told of a batch does not depend on where in it the known ones stand.
#[tokio::test]
async fn each_place_of_a_known_message_is_told() {
    let desk = Desk::new(Major::V18).await;
    let mut client = desk.connect().await;
    let mut other = desk.connect().await;
    for place in 0..4 {
        let batch: Vec<_> = (0..4).map(|n| delivery(&format!("{place}-{n}"))).collect();
        desk.handle(&mut client, &batch[place], Some("paid")).await.map(drop).unwrap();
        let tx = other.transaction().await.unwrap();
        let received = desk.inbox.receive_all(tx, &batch).await.unwrap();
        let ReceiveAll::Some(received) = received else { panic!("{received:?}") };
        let new: Vec<_> = (0..4).filter(|at| *at != place).collect();
        assert_eq!(received.new_ones().collect::<Vec<_>>(), new);
        let recorded = &received.verdicts()[place];
        assert!(matches!(recorded, Verdict::Duplicate(Some(one)) if one.answer.is_some()));
        received.done().await.unwrap().commit().await.unwrap();
        let known = "SELECT count(*) FROM semel.inbox";
        assert_eq!(desk.number(known).await, 4 * (i64::try_from(place).unwrap() + 1));
    }
}

#[tokio::test]
async fn a_batch_of_sqlx_is_received_as_well() {
    let desk = Desk::new(Major::V18).await;
    let pool = sqlx::PgPool::connect(&desk.fixture.url).await.unwrap();
    let deliveries = [delivery("a"), delivery("b"), delivery("a")];
    let insert = desk.fixture.sql("INSERT INTO semel.effect VALUES ('x')");
    for _ in 0..2 {
        let handled = desk
            .inbox
            .run_all_on(&pool, &deliveries, async |mut batch| {
                for at in batch.new_ones() {
                    let insert = sqlx::query(sqlx::AssertSqlSafe(insert.clone()));
                    insert.execute(&mut *batch).await?;
                    batch.answer(at, "paid".into()).unwrap();
                }
                Ok::<_, sqlx::Error>(batch.finish())
            })
            .await
            .unwrap();
        assert_eq!(handled.len(), 3);
    }
    assert_eq!(desk.effects(None).await, 2);
    pool.close().await;
}
