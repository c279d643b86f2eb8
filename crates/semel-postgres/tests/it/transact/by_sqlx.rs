//! The same over sqlx.

use std::{future::Future, pin::pin, task::Poll};

use semel::{Outcome, Refusal, StoreErrorKind, decide::OnLost};
use semel_postgres::transact::{Atomic, Isolation, Ran, RunError, Transact};
use semel_testkit::servers::Major;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, PgPool, postgres::PgPoolOptions};

use super::shop::{Shop, call, call_on_lost, granted, on_every_major, paid, refused};
use crate::fixture::Fixture;

on_every_major! {
    key_effect_and_outcome_are_committed_together
    a_dropped_guard_leaves_nothing
    a_claim_inside_a_savepoint_goes_with_it
    refusals_give_the_transaction_back
    a_run_on_a_pool_commits_once_and_replays_then
}

async fn pool(fixture: &Fixture, connections: u32) -> PgPool {
    let options = PgPoolOptions::new().max_connections(connections);
    options.connect(&fixture.url).await.unwrap()
}

async fn pay(fixture: &Fixture, conn: &mut PgConnection, key: &str) -> Result<(), sqlx::Error> {
    let insert = fixture.sql("INSERT INTO semel.payment VALUES ($1, 10)");
    sqlx::query(AssertSqlSafe(insert)).bind(key).execute(conn).await.map(drop)
}

async fn key_effect_and_outcome_are_committed_together(shop: Shop) {
    let pool = pool(&shop.fixture, 2).await;
    let loader = Transact::loader().schema(shop.fixture.schema.as_str());
    let transact = loader.load_sqlx(&pool).await.unwrap();
    let mut guard = granted(transact.claim(pool.begin().await.unwrap(), &call("k")).await.unwrap());
    let permit = guard.permit();
    pay(&shop.fixture, &mut guard, "k").await.unwrap();
    assert_eq!((shop.payments().await, shop.records().await), (0, 0), "not yet");
    guard.complete(paid()).await.unwrap().commit().await.unwrap();
    assert_eq!((shop.payments().await, shop.records().await), (1, 1));
    match transact.claim(pool.begin().await.unwrap(), &call("k")).await.unwrap() {
        Atomic::Replay(_, record) => {
            assert_eq!((record.permit(), record.outcome), (permit, Some(paid())));
        }
        other => panic!("{other:?}"),
    }
}

async fn a_dropped_guard_leaves_nothing(shop: Shop) {
    let pool = pool(&shop.fixture, 1).await;
    for _ in 0..3 {
        let tx = pool.begin().await.unwrap();
        let mut guard = granted(shop.transact.claim(tx, &call("k")).await.unwrap());
        pay(&shop.fixture, &mut guard, "k").await.unwrap();
        drop(guard);
    }
    assert_eq!((shop.payments().await, shop.records().await), (0, 0));
}

async fn a_claim_inside_a_savepoint_goes_with_it(shop: Shop) {
    let pool = pool(&shop.fixture, 1).await;
    let mut outer = pool.begin().await.unwrap();
    for completes in [false, true] {
        let inner = outer.begin().await.unwrap();
        let mut guard = granted(shop.transact.claim(inner, &call("k")).await.unwrap());
        pay(&shop.fixture, &mut guard, "undone").await.unwrap();
        if completes {
            guard.complete(paid()).await.unwrap().rollback().await.unwrap();
        }
    }
    let inner = outer.begin().await.unwrap();
    let mut guard = granted(shop.transact.claim(inner, &call("k")).await.unwrap());
    let mut savepoint = guard.begin().await.unwrap();
    pay(&shop.fixture, &mut savepoint, "undone").await.unwrap();
    drop(savepoint);
    pay(&shop.fixture, &mut guard, "k").await.unwrap();
    let error = {
        let nested = guard.begin().await.unwrap();
        shop.transact.claim(nested, &call("k")).await.unwrap_err()
    };
    assert_eq!(error.kind(), StoreErrorKind::Invalid, "{error}");
    guard.complete(paid()).await.unwrap().commit().await.unwrap();
    outer.commit().await.unwrap();
    assert_eq!((shop.payments().await, shop.records().await), (1, 1));
}

async fn refusals_give_the_transaction_back(shop: Shop) {
    let pool = pool(&shop.fixture, 2).await;
    shop.leased("lost", b"pay 10", 31).await;
    let guard =
        granted(shop.transact.claim(pool.begin().await.unwrap(), &call("k")).await.unwrap());
    let tx = pool.begin().await.unwrap();
    let (tx, refusal) = refused(shop.transact.claim(tx, &call("k")).await.unwrap());
    assert_eq!(refusal.code(), "in-progress");
    let (mut tx, refusal) = refused(shop.transact.claim(tx, &call("lost")).await.unwrap());
    assert!(matches!(refusal, Refusal::Unknown { .. }));
    pay(&shop.fixture, &mut tx, "other").await.unwrap();
    tx.commit().await.unwrap();
    guard.complete(paid()).await.unwrap().commit().await.unwrap();
    assert_eq!((shop.payments().await, shop.records().await), (1, 2));
}

async fn a_run_on_a_pool_commits_once_and_replays_then(shop: Shop) {
    let pool = pool(&shop.fixture, 1).await;
    shop.leased("old", b"pay 10", 31).await;
    for isolation in [Isolation::Default, Isolation::RepeatableRead, Isolation::Serializable] {
        let transact = shop.transact.clone().isolation(isolation);
        let key = format!("{isolation:?}");
        for runs in [true, false] {
            let mine = call(&key);
            let ran = transact.run_on(&pool, &mine, async |mut guard| {
                pay(&shop.fixture, &mut guard, &key).await?;
                Ok::<_, sqlx::Error>(guard.done(paid(), 7))
            });
            match ran.await.unwrap() {
                Ran::Done(value) => assert_eq!((runs, value), (true, 7)),
                Ran::Replay(record) => assert_eq!((runs, record.outcome), (false, Some(paid()))),
                other => panic!("{other:?}"),
            }
        }
    }
    let mine = call("fails");
    let ran = shop.transact.run_on(&pool, &mine, async |mut guard| {
        pay(&shop.fixture, &mut guard, "fails").await?;
        guard.execute("SELECT 1 / 0").await?;
        Ok::<_, sqlx::Error>(guard.done(paid(), ()))
    });
    assert!(matches!(ran.await, Err(RunError::Work(_))));
    let rerun = call_on_lost("old", OnLost::Rerun);
    let ran = shop.transact.run_on(&pool, &rerun, async |guard| {
        Ok::<_, sqlx::Error>(guard.failed(Outcome::new(402, ""), ()))
    });
    assert!(matches!(ran.await, Ok(Ran::Done(()))));
    assert_eq!((shop.payments().await, shop.records().await), (3, 4));
}

/// The driver leaves a transaction open in its pool when it is dropped while it begins one.
#[tokio::test]
async fn a_run_dropped_anywhere_leaves_a_pool_without_a_transaction() {
    let shop = Shop::new(Major::V18).await;
    let pool = pool(&shop.fixture, 1).await;
    for drop_after in 1.. {
        let key = format!("k{drop_after}");
        let mine = call(&key);
        let ended = {
            let mut run = pin!(shop.transact.run_on(&pool, &mine, async |mut guard| {
                pay(&shop.fixture, &mut guard, &key).await?;
                Ok::<_, sqlx::Error>(guard.done(paid(), ()))
            }));
            let mut polls = 0;
            std::future::poll_fn(|cx| {
                polls += 1;
                match run.as_mut().poll(cx) {
                    Poll::Ready(ran) => Poll::Ready(Some(ran)),
                    Poll::Pending if polls >= drop_after => Poll::Ready(None),
                    Poll::Pending => Poll::Pending,
                }
            })
            .await
        };
        let mut conn = pool.acquire().await.unwrap();
        let error = conn.execute("SAVEPOINT outside").await.unwrap_err();
        let code = error.as_database_error().unwrap().code().unwrap().into_owned();
        assert_eq!(code, "25P01", "a transaction was left open by a drop after {drop_after}");
        drop(conn);
        assert_eq!(shop.payments().await, shop.records().await, "dropped after {drop_after}");
        if let Some(ran) = ended {
            assert!(matches!(ran, Ok(Ran::Done(()))));
            break;
        }
    }
}

/// Many requests at once on a few connections, in sqlx and in tokio-postgres.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_on_a_pool_can_be_sent_to_another_thread() {
    let Shop { fixture, transact, client } = Shop::new(Major::V18).await;
    let ours = super::pool::Pool::new(&fixture.url, 2);
    let sqlx = pool(&fixture, 2).await;
    let tasks = (0..40).map(|n| {
        let (fixture, transact) = (fixture.clone(), transact.clone());
        let (ours, sqlx) = (ours.clone(), sqlx.clone());
        tokio::spawn(async move {
            let key = format!("k{}", n / 4);
            let mine = call(&key);
            loop {
                let ran = match n % 2 {
                    0 => {
                        let ran = transact.run_on(&ours, &mine, async |guard| {
                            super::shop::pay(&fixture, &*guard, &key).await?;
                            Ok::<_, tokio_postgres::Error>(guard.done(paid(), ()))
                        });
                        ran.await.unwrap()
                    }
                    _ => {
                        let ran = transact.run_on(&sqlx, &mine, async |mut guard| {
                            pay(&fixture, &mut guard, &key).await?;
                            Ok::<_, sqlx::Error>(guard.done(paid(), ()))
                        });
                        ran.await.unwrap()
                    }
                };
                match ran {
                    Ran::Done(()) => return 1,
                    Ran::Replay(_) => return 0,
                    Ran::Refused(refusal) => assert_eq!(refusal.code(), "in-progress"),
                }
            }
        })
    });
    let ended = futures_util::future::join_all(tasks).await;
    assert_eq!(ended.into_iter().map(Result::unwrap).sum::<i32>(), 10);
    let paid = fixture.sql("SELECT count(*), count(DISTINCT key) FROM semel.payment");
    let row = client.query_one(&*paid, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (10, 10));
}

/// Behind a pooler, what one client prepared would be met by another.
#[tokio::test]
async fn statements_stay_prepared_only_if_asked_for() {
    let shop = Shop::new(Major::V18).await;
    for (prepared, kept) in [(false, 0), (true, 2)] {
        let pool = pool(&shop.fixture, 1).await;
        let transact = shop.transact.clone().prepared(prepared);
        for n in 0..3 {
            let mine = call(&format!("k{prepared}{n}"));
            let ran = transact
                .run_on(&pool, &mine, async |guard| Ok::<_, sqlx::Error>(guard.done(paid(), ())));
            assert!(matches!(ran.await, Ok(Ran::Done(()))));
        }
        let count = sqlx::query_scalar("SELECT count(*) FROM pg_prepared_statements");
        let count: i64 = count.persistent(false).fetch_one(&pool).await.unwrap();
        assert_eq!(count, kept, "prepared({prepared})");
    }
}
