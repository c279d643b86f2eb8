//! The short form over a client of tokio-postgres.

use std::{cell::Cell, future::Future, pin::pin, task::Poll};

use semel::{Outcome, Refusal, decide::OnLost};
use semel_postgres::transact::{Guard, Ran, RunError, Started};
use semel_testkit::servers::Major;
use tokio_postgres::Error;

use super::shop::{Shop, call, call_on_lost, on_every_major, paid, pay};

on_every_major! {
    a_run_commits_once_and_replays_then
    prepared_statements_run_the_same
    work_that_fails_rolls_back_and_may_be_tried_again
    a_refusal_is_committed_with_what_it_wrote_down
    a_deadlock_with_the_applications_rows_is_tried_again
    a_run_dropped_anywhere_leaves_a_client_without_a_transaction
}

async fn a_run_commits_once_and_replays_then(mut shop: Shop) {
    let (fixture, transact) = (shop.fixture.clone(), shop.transact.clone());
    for runs in [true, false] {
        let work = async |guard: Guard<Started<_>>| {
            pay(&fixture, &*guard, "k").await?;
            Ok::<_, Error>(guard.done(paid(), 7))
        };
        match transact.run(&mut shop.client, &call("k"), work).await.unwrap() {
            Ran::Done(value) => assert_eq!((runs, value), (true, 7)),
            Ran::Replay(record) => assert_eq!((runs, record.outcome), (false, Some(paid()))),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((shop.payments().await, shop.records().await), (1, 1));
}

async fn prepared_statements_run_the_same(mut shop: Shop) {
    let (fixture, transact) = (shop.fixture.clone(), shop.transact.clone());
    let prepared = transact.prepare(&shop.client).await.unwrap();
    shop.leased("old", b"pay 10", 31).await;
    for key in ["k", "old"] {
        for done in [true, false] {
            let call = call_on_lost(key, OnLost::Rerun);
            let work = async |guard: Guard<Started<_>>| {
                pay(&fixture, &*guard, key).await?;
                Ok::<_, Error>(guard.done(paid(), ()))
            };
            let ran = transact.run((&mut shop.client, &prepared), &call, work).await;
            assert_eq!(matches!(ran, Ok(Ran::Done(()))), done, "{ran:?}");
        }
    }
    assert_eq!((shop.payments().await, shop.records().await), (2, 2));
}

async fn work_that_fails_rolls_back_and_may_be_tried_again(mut shop: Shop) {
    let (fixture, transact) = (shop.fixture.clone(), shop.transact.clone());
    for fails in [true, false] {
        let work = async |guard: Guard<Started<_>>| {
            pay(&fixture, &*guard, "k").await.unwrap();
            match fails {
                true => Err(std::io::Error::other("no")),
                false => Ok(guard.failed(Outcome::new(402, ""), ())),
            }
        };
        let ran = transact.run(&mut shop.client, &call("k"), work).await;
        match fails {
            true => assert!(matches!(ran, Err(RunError::Work(_)))),
            false => assert!(matches!(ran, Ok(Ran::Done(())))),
        }
        assert_eq!(shop.payments().await, i64::from(!fails));
    }
    assert_eq!(shop.state("k").await.as_deref(), Some("failed"));
    assert_eq!((shop.payments().await, shop.records().await), (1, 1));
}

async fn a_refusal_is_committed_with_what_it_wrote_down(mut shop: Shop) {
    let transact = shop.transact.clone();
    shop.leased("k", b"pay 10", 31).await;
    let work = async |guard: Guard<Started<_>>| Ok::<_, Error>(guard.done(paid(), ()));
    let ran = transact.run(&mut shop.client, &call("k"), work).await.unwrap();
    assert!(matches!(ran, Ran::Refused(Refusal::Unknown { .. })));
    assert_eq!(shop.state("k").await.as_deref(), Some("unknown"));
}

/// Two runs that lock the same two accounts in opposite order: the server undoes one of them, which
/// then runs again.
async fn a_deadlock_with_the_applications_rows_is_tried_again(shop: Shop) {
    let met = tokio::sync::Barrier::new(2);
    let run = async |key: &str, first: i64, second: i64| {
        let mut client = shop.fixture.connect().await;
        client.batch_execute("SET deadlock_timeout = '10ms'").await.unwrap();
        let update =
            shop.fixture.sql("UPDATE semel.account SET balance = balance + 1 WHERE id = $1");
        let runs = Cell::new(0);
        let work = async |guard: Guard<Started<_>>| {
            runs.set(runs.get() + 1);
            guard.execute(&*update, &[&first]).await?;
            if runs.get() == 1 {
                met.wait().await;
            }
            guard.execute(&*update, &[&second]).await?;
            Ok::<_, Error>(guard.done(paid(), ()))
        };
        let ran = shop.transact.run(&mut client, &call(key), work).await.unwrap();
        assert!(matches!(ran, Ran::Done(())));
        runs.get()
    };
    let (one, other) = tokio::join!(run("a", 1, 2), run("b", 2, 1));
    assert_eq!(one + other, 3, "one of them ran twice");
    let balances = "SELECT sum(balance)::bigint FROM semel.account";
    assert_eq!((shop.number(balances).await, shop.records().await), (4, 2));
}

/// The future is dropped after each of its polls in turn, up to the one that ends it.
async fn a_run_dropped_anywhere_leaves_a_client_without_a_transaction(mut shop: Shop) {
    let (fixture, transact) = (shop.fixture.clone(), shop.transact.clone());
    let mut polls = 0;
    for drop_after in 1.. {
        let key = format!("k{drop_after}");
        let mine = call(&key);
        let work = async |guard: Guard<Started<_>>| {
            pay(&fixture, &*guard, &key).await?;
            Ok::<_, Error>(guard.done(paid(), ()))
        };
        let ended = {
            let mut run = pin!(transact.run(&mut shop.client, &mine, work));
            polls = 0;
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
        // In no transaction this would be the transaction's end, and fail as such.
        let alone = "SELECT pg_current_xact_id_if_assigned() IS NULL
            AND current_setting('semel_claim.marks', true) IS NOT DISTINCT FROM ''
            OR current_setting('semel_claim.marks', true) IS NULL";
        assert!(shop.client.query_one(alone, &[]).await.unwrap().get::<_, bool>(0));
        let warned = shop.client.batch_execute("SAVEPOINT outside").await.unwrap_err();
        assert_eq!(warned.code().unwrap().code(), "25P01", "a transaction was left open");
        let records = "SELECT count(*) FROM semel.record WHERE key = $1";
        let paid = "SELECT count(*) FROM semel.payment WHERE key = $1";
        let records = shop.client.query_one(&*fixture.sql(records), &[&key]).await.unwrap();
        let paid = shop.client.query_one(&*fixture.sql(paid), &[&key]).await.unwrap();
        assert_eq!(records.get::<_, i64>(0), paid.get::<_, i64>(0), "dropped after {drop_after}");
        if ended.is_some() {
            break;
        }
    }
    assert!(polls >= 3, "it waits at least for the claim, the payment and the commit: {polls}");
}

/// A run can be spawned, as by a server that answers many requests.
#[tokio::test]
async fn a_run_can_be_sent_to_another_thread() {
    let Shop { fixture, transact, mut client } = Shop::new(Major::V18).await;
    let task = tokio::spawn(async move {
        let mine = call("k");
        let ran = transact.run(&mut client, &mine, async |guard| {
            pay(&fixture, &*guard, "k").await?;
            Ok::<_, Error>(guard.done(paid(), ()))
        });
        matches!(ran.await, Ok(Ran::Done(())))
    });
    assert!(task.await.unwrap());
}
