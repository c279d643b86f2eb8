//! Races under each isolation of the server.

use std::cell::Cell;

use semel::StoreErrorKind;
use semel_postgres::transact::{Atomic, Guard, Isolation, Ran, Started};
use tokio_postgres::IsolationLevel;

use super::shop::{Shop, call, granted, on_every_major, paid, pay, refused, replayed};

on_every_major! {
    whoever_claims_second_is_told_of_the_first
    a_record_that_the_snapshot_hides_is_a_lost_race
    a_run_decides_anew_after_a_lost_race
    many_runs_of_one_key_have_one_effect
}

const LEVELS: [IsolationLevel; 3] =
    [IsolationLevel::ReadCommitted, IsolationLevel::RepeatableRead, IsolationLevel::Serializable];

async fn whoever_claims_second_is_told_of_the_first(shop: Shop) {
    for (level, key) in LEVELS.into_iter().zip(["a", "b", "c"]) {
        let (mut one, mut other) = (shop.fixture.connect().await, shop.fixture.connect().await);
        let tx = one.build_transaction().isolation_level(level).start().await.unwrap();
        let guard = granted(shop.transact.claim(tx, &call(key)).await.unwrap());
        let tx = other.build_transaction().isolation_level(level).start().await.unwrap();
        let (tx, refusal) = refused(shop.transact.claim(tx, &call(key)).await.unwrap());
        assert_eq!(refusal.code(), "in-progress");
        tx.rollback().await.unwrap();
        pay(&shop.fixture, &*guard, key).await.unwrap();
        guard.complete(paid()).await.unwrap().commit().await.unwrap();
        let tx = other.build_transaction().isolation_level(level).start().await.unwrap();
        assert_eq!(replayed(shop.transact.claim(tx, &call(key)).await.unwrap()).1, paid());
    }
    assert_eq!((shop.payments().await, shop.records().await), (3, 3));
}

async fn a_record_that_the_snapshot_hides_is_a_lost_race(shop: Shop) {
    for (level, key) in LEVELS.into_iter().skip(1).zip(["b", "c"]) {
        let (mut one, mut other) = (shop.fixture.connect().await, shop.fixture.connect().await);
        let old = one.build_transaction().isolation_level(level).start().await.unwrap();
        old.query_one("SELECT 1", &[]).await.unwrap();
        let tx = other.transaction().await.unwrap();
        let guard = granted(shop.transact.claim(tx, &call(key)).await.unwrap());
        guard.complete(paid()).await.unwrap().commit().await.unwrap();
        let guard = granted(shop.transact.claim(old, &call(key)).await.unwrap());
        pay(&shop.fixture, &*guard, key).await.unwrap();
        let error = guard.complete(paid()).await.err().unwrap();
        assert_eq!(error.kind(), StoreErrorKind::Busy, "{error}");
    }
    assert_eq!((shop.payments().await, shop.records().await), (0, 2));
}

async fn a_run_decides_anew_after_a_lost_race(mut shop: Shop) {
    for (isolation, key) in [
        (Isolation::ReadCommitted, "a"),
        (Isolation::RepeatableRead, "b"),
        (Isolation::Serializable, "c"),
    ] {
        let transact = shop.transact.clone().isolation(isolation);
        let other = shop.fixture.connect().await;
        let fixture = shop.fixture.clone();
        let runs = Cell::new(0);
        let ran = transact
            .run(&mut shop.client, &call(key), async |guard| {
                runs.set(runs.get() + 1);
                if runs.get() == 1 {
                    // Whoever holds no lock, such as an older writer, may still win.
                    let insert = "INSERT INTO semel.record (tenant, operation, key, state, token,
                            fence, plan, digest, renewed_at_us, created_at_us, claimed_at_us,
                            replay_until_us, remember_until_us, outcome)
                        SELECT 'acme', 'payments.create', $1, 'done', '\\x02020202020202020202020202020202', 2,
                            $2, $3, 0, 0, 0, 9223372036854775807, 9223372036854775807, $4";
                    let mine = call(key);
                    let plan = mine.fingerprint.plan().as_bytes().to_vec();
                    let digest = mine.fingerprint.digest().to_vec();
                    let outcome = semel::codec::encode(&paid());
                    other.execute(&*fixture.sql(insert), &[&key, &plan, &digest, &outcome]).await?;
                }
                pay(&fixture, &*guard, key).await?;
                Ok::<_, tokio_postgres::Error>(guard.done(paid(), ()))
            })
            .await
            .unwrap();
        assert!(matches!(ran, Ran::Replay(_)), "{isolation:?}: {ran:?}");
        assert_eq!(runs.get(), 1);
    }
    assert_eq!((shop.payments().await, shop.records().await), (0, 3));
}

/// C82
async fn many_runs_of_one_key_have_one_effect(shop: Shop) {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable]
    {
        let transact = shop.transact.clone().isolation(isolation).attempts_max(50);
        let key = format!("{isolation:?}");
        let runs = (0..8).map(|_| async {
            let mut client = shop.fixture.connect().await;
            loop {
                let work = async |guard: Guard<Started<_>>| {
                    pay(&shop.fixture, &*guard, &key).await?;
                    Ok::<_, tokio_postgres::Error>(guard.done(paid(), ()))
                };
                match transact.run(&mut client, &call(&key), work).await.unwrap() {
                    Ran::Done(()) => return 1,
                    Ran::Replay(record) => {
                        assert_eq!(record.outcome, Some(paid()));
                        return 0;
                    }
                    Ran::Refused(refusal) => assert_eq!(refusal.code(), "in-progress"),
                }
            }
        });
        let done: i32 = futures_util::future::join_all(runs).await.iter().sum();
        assert_eq!(done, 1, "{isolation:?}");
    }
    assert_eq!((shop.payments().await, shop.records().await), (3, 3));
}

/// A claim that the server undoes says so, and nothing is left to be used by mistake.
#[tokio::test]
async fn a_claim_in_a_transaction_that_was_undone_says_retry() {
    let mut shop = Shop::new(semel_testkit::servers::Major::V18).await;
    let transact = shop.transact.clone();
    shop.leased("k", b"pay 10", 31).await;
    let mut other = shop.fixture.connect().await;
    let level = IsolationLevel::RepeatableRead;
    let old = shop.client.build_transaction().isolation_level(level).start().await.unwrap();
    old.query_one("SELECT 1", &[]).await.unwrap();
    let tx = other.transaction().await.unwrap();
    let (tx, _) = refused(transact.claim(tx, &call("k")).await.unwrap());
    tx.commit().await.unwrap();
    // The old snapshot still sees it running, and would write down that it is lost.
    let claimed = transact.claim(old, &call("k")).await.unwrap();
    match claimed {
        Atomic::Retry(error) => assert_eq!(error.kind(), StoreErrorKind::Busy),
        _ => panic!("must be tried again"),
    }
}

/// C82: under serialisable isolation many writers of one key have one effect, writers of other keys are
/// not failed by them, and no caller sees a lost race.
#[tokio::test]
async fn serialisable_writers_of_one_key_and_of_others_all_settle() {
    let shop = Shop::new(semel_testkit::servers::Major::V18).await;
    let transact = shop.transact.clone().isolation(Isolation::Serializable);
    let pool = super::pool::Pool::new(&shop.fixture.url, 20);
    let runs = (0..20).map(|n| {
        let (shop, transact, pool) = (&shop, &transact, &pool);
        async move {
            let key = if n < 10 { "one".to_owned() } else { format!("k{n}") };
            let mine = call(&key);
            let ran = transact.run_on(pool, &mine, async |guard| {
                pay(&shop.fixture, &*guard, &key).await?;
                Ok::<_, tokio_postgres::Error>(guard.done(paid(), ()))
            });
            i32::from(matches!(ran.await.unwrap(), Ran::Done(())))
        }
    });
    let done: i32 = futures_util::future::join_all(runs).await.iter().sum();
    assert_eq!((done, shop.payments().await, shop.records().await), (11, 11, 11));
}
