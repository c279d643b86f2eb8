//! Waiting for another transaction without a connection or a lock.

use std::{sync::Arc, time::Duration};

use semel::{Call, Policy, Refusal};
use semel_postgres::transact::{Guard, Ran, Transact, Tx, Worked};
use semel_testkit::servers::Major;
use sqlx::postgres::PgPoolOptions;
use tokio::{sync::Notify, task::JoinSet};
use tokio_postgres::Error;

use super::{
    pool::Pool,
    shop::{Shop, call, granted, paid, pay},
};

fn patient(key: &str) -> Call {
    let policy = Policy { wait: Duration::from_secs(60), ..Policy::default() };
    Call { policy: Arc::new(policy), ..call(key) }
}

/// Work that does nothing else.
async fn done<T: Tx>(guard: Guard<T>) -> Result<Worked<T, ()>, std::convert::Infallible> {
    Ok(guard.done(paid(), ()))
}

/// Ends well before its bound, or fails.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("it waits for ever")
}

/// Lets 200 callers wait for one key that another process holds, on two connections.
async fn two_hundred_wait(shop: &Shop, transact: Transact, sqlx: bool) {
    let mut other = shop.fixture.connect().await;
    let guard =
        granted(shop.transact.claim(other.transaction().await.unwrap(), &call("k")).await.unwrap());
    let ours = Pool::new(&shop.fixture.url, 2);
    let theirs = PgPoolOptions::new().max_connections(2).connect(&shop.fixture.url).await.unwrap();
    let mut waiters = JoinSet::new();
    for _ in 0..200 {
        let (transact, ours, theirs) = (transact.clone(), ours.clone(), theirs.clone());
        waiters.spawn(async move {
            let mine = patient("k");
            if sqlx {
                return matches!(transact.run_on(&theirs, &mine, done).await, Ok(Ran::Replay(_)));
            }
            matches!(transact.run_on(&ours, &mine, done).await, Ok(Ran::Replay(_)))
        });
    }
    soon(async {
        while transact.waiting() < 200 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // Their connections are free for others meanwhile.
    for n in 0..5 {
        let other = call(&format!("other-{n}"));
        assert!(matches!(soon(transact.run_on(&ours, &other, done)).await, Ok(Ran::Done(()))));
    }
    assert_eq!(transact.waiting(), 200);
    guard.complete(paid()).await.unwrap().commit().await.unwrap();
    while let Some(replayed) = soon(waiters.join_next()).await {
        assert!(replayed.unwrap(), "every waiter has the outcome");
    }
    assert_eq!(transact.waiting(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_waiters_on_two_connections_learn_by_the_stores_poll() {
    let shop = Shop::new(Major::V18).await;
    let store = shop.fixture.open().await;
    two_hundred_wait(&shop, store.transact(), false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_waiters_on_two_connections_of_sqlx_learn_without_a_store() {
    let shop = Shop::new(Major::V18).await;
    two_hundred_wait(&shop, shop.transact.clone(), true).await;
}

/// S04: whoever ends in this process wakes the waiters; if it failed, one of them becomes the holder.
#[tokio::test]
async fn a_run_that_fails_lets_one_waiter_run() {
    let shop = Shop::new(Major::V18).await;
    let pool = Pool::new(&shop.fixture.url, 2);
    let (began, fails) = (Notify::new(), Notify::new());
    let mine = patient("k");
    let first = shop.transact.run_on(&pool, &mine, async |guard| {
        pay(&shop.fixture, &*guard, "undone").await.unwrap();
        began.notify_one();
        fails.notified().await;
        drop(guard);
        Err::<Worked<_, ()>, _>(std::io::Error::other("no"))
    });
    let waiters = (0..20).map(|_| {
        shop.transact.run_on(&pool, &mine, async |guard| {
            pay(&shop.fixture, &*guard, "k").await?;
            Ok::<_, Error>(guard.done(paid(), ()))
        })
    });
    let waiters = async {
        began.notified().await;
        futures_util::future::join_all(waiters).await
    };
    let until_all_wait = async {
        while shop.transact.waiting() < 20 {
            tokio::task::yield_now().await;
        }
        fails.notify_one();
    };
    let (first, waiters, ()) =
        soon(Box::pin(async { tokio::join!(first, waiters, until_all_wait) })).await;
    assert!(first.is_err());
    let done = waiters.iter().filter(|ran| matches!(ran, Ok(Ran::Done(())))).count();
    let replayed = waiters.iter().filter(|ran| matches!(ran, Ok(Ran::Replay(_)))).count();
    assert_eq!((done, replayed), (1, 19));
    assert_eq!((shop.payments().await, shop.records().await), (1, 1));
}

#[tokio::test]
async fn whoever_does_not_wait_is_told_at_once_and_whoever_waits_at_the_end() {
    let mut shop = Shop::new(Major::V18).await;
    let tx = shop.client.transaction().await.unwrap();
    let _guard = granted(shop.transact.claim(tx, &call("k")).await.unwrap());
    let pool = Pool::new(&shop.fixture.url, 1);
    for wait in [Duration::ZERO, Duration::from_millis(120)] {
        let policy = Arc::new(Policy { wait, ..Policy::default() });
        let mine = Call { policy, ..call("k") };
        let began = std::time::Instant::now();
        let ran = shop
            .transact
            .run_on(&pool, &mine, async |guard| Ok::<_, Error>(guard.done(paid(), ())));
        let ran = soon(ran).await.unwrap();
        assert!(matches!(ran, Ran::Refused(Refusal::InProgress { .. })), "{ran:?}");
        assert!(began.elapsed() >= wait);
    }
}

/// A waiter that goes away takes no place and no turn with it.
#[tokio::test]
async fn a_waiter_that_is_dropped_leaves_its_place() {
    let mut shop = Shop::new(Major::V18).await;
    let tx = shop.client.transaction().await.unwrap();
    let guard = granted(shop.transact.claim(tx, &call("k")).await.unwrap());
    let pool = Pool::new(&shop.fixture.url, 1);
    let mine = patient("k");
    {
        let gone = shop.transact.run_on(&pool, &mine, done);
        let waits = async {
            while shop.transact.waiting() == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = gone => panic!("nobody ended it"),
            () = waits => {}
        }
    }
    assert_eq!(shop.transact.waiting(), 0);
    drop(guard);
    let ran =
        shop.transact.run_on(&pool, &mine, async |guard| Ok::<_, Error>(guard.done(paid(), ())));
    assert!(matches!(soon(ran).await, Ok(Ran::Done(()))));
}
