//! One message inside a transaction, on both drivers.

use bytes::Bytes;
use semel::inbox::{Consumer, InboxPolicy, Standing};
use semel_postgres::inbox::{Ran, Receive};
use semel_testkit::servers::Major;
use sqlx::Connection;

use super::desk::{Desk, delivery, is_first, telling};

#[tokio::test]
async fn a_message_has_one_effect_and_a_copy_gets_what_was_recorded() {
    for major in Major::ALL {
        let desk = Desk::new(major).await;
        let mut client = desk.connect().await;
        let first = desk.handle(&mut client, &delivery("a"), Some("paid")).await.unwrap();
        let Ran::First((), recorded) = first else { panic!("{first:?}") };
        for _ in 0..3 {
            let again = desk.handle(&mut client, &delivery("a"), Some("other")).await.unwrap();
            let Ran::Duplicate(Some(seen)) = again else { panic!("{again:?}") };
            assert_eq!(seen, recorded, "{major}");
            assert_eq!(seen.answer.as_deref(), Some(&b"paid"[..]));
            assert_eq!(seen.standing, Standing::Done);
        }
        assert_eq!(desk.effects(Some("a")).await, 1, "{major}");
    }
}

/// M71: the key names the consumer.
#[tokio::test]
async fn two_consumers_of_one_message_have_it_each() {
    let desk = Desk::new(Major::V18).await;
    let mut client = desk.connect().await;
    let other = InboxPolicy::new(Consumer::new("mailing").unwrap());
    let other = desk.store.inbox(other.into()).unwrap();
    let mailing =
        Desk { inbox: other, fixture: desk.fixture.clone(), store: desk.fixture.open().await };
    for _ in 0..2 {
        for desk in [&desk, &mailing] {
            desk.handle(&mut client, &delivery("a"), None).await.map(drop).unwrap();
        }
    }
    assert_eq!(desk.effects(Some("a")).await, 2);
}

#[tokio::test]
async fn other_content_under_one_id_is_told_and_not_run() {
    let desk = Desk::new(Major::V18).await;
    let mut client = desk.connect().await;
    assert!(is_first(&desk.handle(&mut client, &telling("a", "ten"), None).await.unwrap()));
    let ran = desk.handle(&mut client, &telling("a", "eleven"), None).await.unwrap();
    let Ran::Mismatch(recorded) = ran else { panic!("{ran:?}") };
    assert_eq!(recorded.fingerprint, telling("a", "ten").fingerprint());
    assert_eq!(desk.effects(Some("a")).await, 1);
    // A consumer may say what makes the content.
    let lenient = desk.inbox.clone().fingerprint(|_| semel::Fingerprint::of_bytes(b"any"));
    let lenient = Desk { inbox: lenient, fixture: desk.fixture.clone(), store: desk.store };
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
async fn a_failed_effect_leaves_the_message_new() {
    let desk = Desk::new(Major::V18).await;
    let mut client = desk.connect().await;
    let failed = desk
        .inbox
        .run(&mut client, &delivery("a"), async |handling| {
            handling.batch_execute("SELECT 1 / 0").await?;
            Ok::<_, tokio_postgres::Error>(handling.finish(None, ()))
        })
        .await;
    assert!(failed.is_err());
    assert!(is_first(&desk.handle(&mut client, &delivery("a"), None).await.unwrap()));
    assert_eq!(desk.effects(Some("a")).await, 1);
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

#[tokio::test]
async fn an_answer_past_its_bound_is_refused_and_nothing_is_committed() {
    let desk = Desk::new(Major::V18).await;
    let mut client = desk.connect().await;
    let large = Bytes::from(vec![0; 1024 * 1024 + 1]);
    let refused = desk
        .inbox
        .run(&mut client, &delivery("a"), async |handling| {
            desk.act(&*handling, "a").await?;
            Ok::<_, tokio_postgres::Error>(handling.finish(Some(large.clone()), ()))
        })
        .await;
    assert!(refused.is_err());
    assert_eq!(desk.effects(None).await, 0);
    assert!(is_first(&desk.handle(&mut client, &delivery("a"), None).await.unwrap()));
}
