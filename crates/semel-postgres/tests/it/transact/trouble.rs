//! Connections that end, acknowledgements that are lost, time that runs out.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use semel::{Call, Policy, StoreErrorKind};
use semel_postgres::transact::{Ran, RunError};
use semel_testkit::servers::{Major, PgBouncer, TcpProxy};
use sqlx::{AssertSqlSafe, postgres::PgPoolOptions};
use tokio_postgres::Error;

use super::{
    pool::Pool,
    shop::{Shop, call, granted, on_every_major, paid, pay},
};

on_every_major! {
    a_connection_killed_at_each_statement_leaves_all_or_nothing
    a_transaction_that_is_idle_for_too_long_frees_its_key
    a_statement_that_takes_too_long_undoes_everything
    a_server_that_can_only_be_read_is_told_as_such
}

/// What each statement of a run can be known by on its way.
const STATEMENTS: [&str; 4] =
    ["pg_try_advisory_xact_lock", ".payment VALUES", "settled_at_us, replay_until_us", "COMMIT"];

/// Each statement in turn does not arrive, or arrives and is not answered. Whatever the run says, the
/// next one under the same key makes it whole: one payment, one record.
#[tokio::test]
async fn a_lost_request_and_a_lost_reply_of_each_statement_make_no_second_effect() {
    let shop = Shop::new(Major::V18).await;
    let proxy = TcpProxy::start(shop.fixture.server.address()).await;
    let url = proxy.through(&shop.fixture.url);
    for (n, statement) in STATEMENTS.into_iter().enumerate() {
        for arrives in [false, true] {
            let (key, runs) = (format!("k{n}{arrives}"), AtomicU32::new(0));
            let pool = Pool::new(&url, 1);
            let trap = match arrives {
                true => proxy.swallow_replies_after(statement),
                false => proxy.cut_before(statement),
            };
            let mine = call(&key);
            let first = shop.transact.run_on(&pool, &mine, async |guard| {
                runs.fetch_add(1, Ordering::Relaxed);
                pay(&shop.fixture, &*guard, &key).await?;
                Ok::<_, Error>(guard.done(paid(), 7))
            });
            let first = first.await;
            assert!(trap.has_sprung(), "{statement} never passed");
            match (&first, n) {
                // Once the outcome was on its way, the run finds out by itself what became of it: the
                // completion is sent with the commit.
                (Ok(Ran::Done(7)), 2 | 3) => {}
                (Err(RunError::Work(_) | RunError::Store(_)), 0 | 1) => {}
                other => panic!("{statement}, arrives: {arrives}: {other:?}"),
            }
            let found = u32::from(statement == "COMMIT" && arrives);
            assert!(found == 0 || runs.load(Ordering::Relaxed) == 1, "it was committed at once");
            let again = shop.transact.run_on(&pool, &mine, async |guard| {
                pay(&shop.fixture, &*guard, &key).await?;
                Ok::<_, Error>(guard.done(paid(), 7))
            });
            let again = again.await.unwrap();
            assert_eq!(matches!(again, Ran::Replay(_)), first.is_ok(), "{again:?}");
            let paid = format!("SELECT count(*) FROM semel.payment WHERE key = '{key}'");
            assert_eq!(shop.number(&paid).await, 1, "{statement}, arrives: {arrives}");
        }
    }
    assert_eq!(shop.payments().await, shop.records().await);
}

/// The same over sqlx.
#[tokio::test]
async fn a_lost_acknowledgement_of_a_commit_of_sqlx_is_found_out() {
    let shop = Shop::new(Major::V18).await;
    let proxy = TcpProxy::start(shop.fixture.server.address()).await;
    let url = proxy.through(&shop.fixture.url);
    let pool = PgPoolOptions::new().max_connections(1).connect(&url).await.unwrap();
    for arrives in [false, true] {
        let key = format!("k{arrives}");
        let trap = match arrives {
            true => proxy.swallow_replies_after("COMMIT"),
            false => proxy.cut_before("COMMIT"),
        };
        let mine = call(&key);
        let runs = AtomicU32::new(0);
        let ran = shop.transact.run_on(&pool, &mine, async |mut guard| {
            runs.fetch_add(1, Ordering::Relaxed);
            let insert = shop.fixture.sql("INSERT INTO semel.payment VALUES ($1, 10)");
            sqlx::query(AssertSqlSafe(insert)).bind(&key).execute(&mut *guard).await?;
            Ok::<_, sqlx::Error>(guard.done(paid(), 7))
        });
        assert!(matches!(ran.await, Ok(Ran::Done(7))));
        assert!(trap.has_sprung());
        assert_eq!(runs.load(Ordering::Relaxed), if arrives { 1 } else { 2 });
    }
    assert_eq!((shop.payments().await, shop.records().await), (2, 2));
}

/// The guard form: the caller's own commit is not answered, and the next claim tells.
#[tokio::test]
async fn a_commit_that_was_not_answered_is_told_by_the_next_claim() {
    let shop = Shop::new(Major::V18).await;
    let proxy = TcpProxy::start(shop.fixture.server.address()).await;
    let mut client = Pool::connect(&proxy.through(&shop.fixture.url)).await.unwrap();
    let trap = proxy.swallow_replies_after("COMMIT");
    let tx = client.transaction().await.unwrap();
    let guard = granted(shop.transact.claim(tx, &call("k")).await.unwrap());
    pay(&shop.fixture, &*guard, "k").await.unwrap();
    guard.complete(paid()).await.unwrap().commit().await.unwrap_err();
    assert!(trap.has_sprung());
    let mut client = shop.fixture.connect().await;
    let tx = client.transaction().await.unwrap();
    let (_, outcome) = super::shop::replayed(shop.transact.claim(tx, &call("k")).await.unwrap());
    assert_eq!((outcome, shop.payments().await), (paid(), 1));
}

async fn a_connection_killed_at_each_statement_leaves_all_or_nothing(shop: Shop) {
    let pool = Pool::new(&shop.fixture.url, 1);
    for at in 0..3 {
        let key = format!("k{at}");
        let mine = call(&key);
        for kills in [true, false] {
            let ran = shop.transact.run_on(&pool, &mine, async |guard| {
                let pid: i32 = guard.query_one("SELECT pg_backend_pid()", &[]).await?.get(0);
                let kill = async |now: i32| {
                    let end = format!("SELECT count(pg_terminate_backend({pid}, 10000))");
                    if kills && now == at {
                        shop.number(&end).await;
                    }
                };
                kill(0).await;
                pay(&shop.fixture, &*guard, &key).await?;
                kill(1).await;
                pay(&shop.fixture, &*guard, &key).await?;
                kill(2).await;
                Ok::<_, Error>(guard.done(paid(), ()))
            });
            let ran = ran.await;
            // Killed before the completion, it may have run again by itself, and been killed again.
            assert_eq!(ran.is_err(), kills, "killed at {at}: {ran:?}");
            let rows = format!("SELECT count(*) FROM semel.payment WHERE key = '{key}'");
            assert_eq!(shop.number(&rows).await, if kills { 0 } else { 2 });
        }
    }
    assert_eq!(shop.records().await, 3);
}

async fn a_transaction_that_is_idle_for_too_long_frees_its_key(mut shop: Shop) {
    let transact = shop.transact.clone().idle_timeout(Duration::from_millis(50));
    let tx = shop.client.transaction().await.unwrap();
    let guard = granted(transact.claim(tx, &call("k")).await.unwrap());
    let policy = Policy { wait: Duration::from_secs(60), ..Policy::default() };
    let mine = Call { policy: std::sync::Arc::new(policy), ..call("k") };
    let pool = Pool::new(&shop.fixture.url, 1);
    let ran = shop.transact.run_on(&pool, &mine, async |guard| {
        pay(&shop.fixture, &*guard, "k").await?;
        Ok::<_, Error>(guard.done(paid(), ()))
    });
    assert!(matches!(ran.await, Ok(Ran::Done(()))));
    let error = guard.complete(paid()).await.err().unwrap();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert_eq!((shop.payments().await, shop.records().await), (1, 1));
    // The smaller of both bounds holds inside, and the session's own after.
    let transact = shop.transact.clone().idle_timeout(Duration::from_secs(30));
    for (session, inside) in [("10s", "10s"), ("1h", "30s"), ("0", "30s")] {
        let mut client = shop.fixture.connect().await;
        let set = format!("SET idle_in_transaction_session_timeout = '{session}'");
        client.batch_execute(&set).await.unwrap();
        let show = "SELECT current_setting('idle_in_transaction_session_timeout')";
        let mine = call(&format!("k{session}"));
        let ran = transact.run(&mut client, &mine, async |guard| {
            let bound: String = guard.query_one(show, &[]).await?.get(0);
            Ok::<_, Error>(guard.done(paid(), bound))
        });
        match ran.await.unwrap() {
            Ran::Done(bound) => assert_eq!(bound, inside),
            other => panic!("{other:?}"),
        }
        let after: String = client.query_one(show, &[]).await.unwrap().get(0);
        assert_eq!(after, session);
    }
}

async fn a_statement_that_takes_too_long_undoes_everything(mut shop: Shop) {
    let transact = shop.transact.clone();
    let locked = shop.fixture.connect().await;
    locked.batch_execute(&shop.fixture.sql("BEGIN; LOCK TABLE semel.account")).await.unwrap();
    for bound in ["statement_timeout", "lock_timeout"] {
        shop.client.batch_execute(&format!("SET {bound} = '500ms'")).await.unwrap();
        let mine = call(bound);
        let ran = transact.run(&mut shop.client, &mine, async |guard| {
            pay(&shop.fixture, &*guard, bound).await?;
            let update = shop.fixture.sql("UPDATE semel.account SET balance = 1");
            guard.execute(&*update, &[]).await?;
            Ok::<_, Error>(guard.done(paid(), ()))
        });
        assert!(matches!(ran.await, Err(RunError::Work(_))));
        shop.client.batch_execute(&format!("RESET {bound}")).await.unwrap();
        let ran = transact
            .run(&mut shop.client, &mine, async |guard| Ok::<_, Error>(guard.done(paid(), ())));
        assert!(matches!(ran.await, Ok(Ran::Done(()))), "the key is free again");
    }
    assert_eq!((shop.payments().await, shop.records().await), (0, 2));
}

async fn a_server_that_can_only_be_read_is_told_as_such(mut shop: Shop) {
    let transact = shop.transact.clone();
    shop.client.batch_execute("SET default_transaction_read_only = on").await.unwrap();
    let mine = call("k");
    let ran =
        transact.run(&mut shop.client, &mine, async |guard| Ok::<_, Error>(guard.done(paid(), ())));
    match ran.await {
        Err(RunError::Store(error)) => {
            assert_eq!(error.kind(), StoreErrorKind::ReadOnly, "{error}")
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(shop.records().await, 0);
}

/// A pooler that gives each transaction another server's session, and knows no prepared statements.
#[tokio::test]
async fn both_drivers_work_behind_a_pooler() {
    let shop = Shop::new(Major::V15).await;
    let pooler = PgBouncer::start(shop.fixture.server, 2).await;
    let url = pooler.url_of("postgres");
    let ours = Pool::new(&url, 4);
    let runs = (0..24).map(|n| {
        let (shop, ours) = (&shop, &ours);
        async move {
            let key = format!("k{}", n / 3);
            let mine = call(&key);
            let insert = format!("INSERT INTO semel.payment VALUES ('{key}', 10)");
            let ran = shop.transact.run_on(ours, &mine, async |guard| {
                guard.batch_execute(&shop.fixture.sql(&insert)).await?;
                Ok::<_, Error>(guard.done(paid(), ()))
            });
            i32::from(matches!(ran.await.unwrap(), Ran::Done(())))
        }
    });
    let done: i32 = futures_util::future::join_all(runs).await.iter().sum();
    assert_eq!(done, 8);
    let options: sqlx::postgres::PgConnectOptions = url.parse().unwrap();
    let options = options.statement_cache_capacity(0);
    let theirs = PgPoolOptions::new().max_connections(4).connect_with(options).await.unwrap();
    for (key, done) in [("k0", false), ("sqlx", true), ("sqlx", false)] {
        let mine = call(key);
        let ran = shop.transact.run_on(&theirs, &mine, async |mut guard| {
            let insert = shop.fixture.sql("INSERT INTO semel.payment VALUES ($1, 10)");
            let insert = sqlx::query(AssertSqlSafe(insert)).persistent(false);
            insert.bind(key).execute(&mut *guard).await?;
            Ok::<_, sqlx::Error>(guard.done(paid(), ()))
        });
        assert_eq!(matches!(ran.await.unwrap(), Ran::Done(())), done);
    }
    assert_eq!((shop.payments().await, shop.records().await), (9, 9));
}
