//! One message inside a transaction, on both drivers.

use bytes::Bytes;
use semel_postgres::inbox::{Ran, Receive};
use semel_testkit::servers::Major;
use sqlx::Connection;

use super::desk::{Desk, delivery, is_first, telling};

#[tokio::test]
async fn a_consumer_may_say_what_makes_the_content() {
    let desk = Desk::new(Major::V18).await;
    let mut client = desk.connect().await;
    let lenient = desk.inbox.clone().fingerprint(|_| semel::Fingerprint::of_bytes(b"any"));
    let lenient = Desk { inbox: lenient, ..desk };
    assert!(is_first(&lenient.handle(&mut client, &telling("b", "ten"), None).await.unwrap()));
    let ran = lenient.handle(&mut client, &telling("b", "eleven"), None).await.unwrap();
    assert!(matches!(ran, Ran::Duplicate(_)), "{ran:?}");
}

#[tokio::test]
async fn a_guard_that_is_dropped_leaves_nothing() {
    let desk = Desk::new(Major::V18).await;
    let mut client = desk.connect().await;
    {
        let tx = client.transaction().await.unwrap();
        let received = desk.inbox.receive(tx, &delivery("a")).await;
        let Ok(Receive::First(handling)) = received else { panic!("{received:?}") };
        desk.act(&*handling, "a").await.unwrap();
    }
    let received = desk.inbox.receive(client.transaction().await.unwrap(), &delivery("a")).await;
    let Ok(Receive::First(handling)) = received else { panic!("{received:?}") };
    desk.act(&*handling, "a").await.unwrap();
    handling.done(None).await.unwrap().commit().await.unwrap();
    assert_eq!(desk.effects(Some("a")).await, 1);
}

#[tokio::test]
async fn a_transaction_of_sqlx_receives_as_well() {
    let desk = Desk::new(Major::V17).await;
    let mut connection = sqlx::PgConnection::connect(&desk.fixture.url).await.unwrap();
    let insert = desk.fixture.sql("INSERT INTO semel.effect VALUES ('a')");
    {
        let received = desk.inbox.receive(connection.begin().await.unwrap(), &delivery("a")).await;
        let Ok(Receive::First(mut handling)) = received else { panic!("{received:?}") };
        sqlx::query(sqlx::AssertSqlSafe(insert)).execute(&mut *handling).await.unwrap();
        let tx = handling.done(Some(Bytes::from_static(b"paid"))).await.unwrap();
        tx.commit().await.unwrap();
    }
    let received = desk.inbox.receive(connection.begin().await.unwrap(), &delivery("a")).await;
    let Ok(Receive::Duplicate(tx, Some(recorded))) = received else { panic!("{received:?}") };
    tx.rollback().await.unwrap();
    assert_eq!(recorded.answer.as_deref(), Some(&b"paid"[..]));
    assert_eq!(desk.effects(Some("a")).await, 1);
}

#[tokio::test]
async fn a_pool_of_sqlx_runs_as_well() {
    let desk = Desk::new(Major::V18).await;
    let pool = sqlx::PgPool::connect(&desk.fixture.url).await.unwrap();
    let insert = desk.fixture.sql("INSERT INTO semel.effect VALUES ('a')");
    for _ in 0..2 {
        let ran = desk
            .inbox
            .run_on(&pool, &delivery("a"), async |mut handling| {
                let insert = sqlx::query(sqlx::AssertSqlSafe(insert.clone()));
                insert.execute(&mut *handling).await?;
                Ok::<_, sqlx::Error>(handling.finish(Some(Bytes::from_static(b"paid")), 7))
            })
            .await
            .unwrap();
        drop(ran);
    }
    assert_eq!(desk.effects(Some("a")).await, 1);
    pool.close().await;
}

#[tokio::test]
async fn the_commit_of_a_receipt_waits_until_it_is_durable() {
    let desk = Desk::new(Major::V18).await;
    let mut client = desk.connect().await;
    client.batch_execute("SET synchronous_commit = off").await.unwrap();
    let mut said = None;
    let ran = desk
        .inbox
        .run(&mut client, &delivery("a"), async |handling| {
            let row = handling.query_one("SHOW synchronous_commit", &[]).await?;
            Ok::<_, tokio_postgres::Error>(handling.finish(None, row.get::<_, String>(0)))
        })
        .await
        .unwrap();
    if let Ran::First(setting, _) = ran {
        said = Some(setting);
    }
    assert_eq!(said.as_deref(), Some("on"));
}
