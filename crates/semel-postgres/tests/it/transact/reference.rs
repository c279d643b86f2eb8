//! Business references.

use std::time::Duration;

use semel::{Outcome, Reference, Refusal};
use semel_postgres::transact::Ran;
use semel_testkit::{conformance::MoveTime as _, servers::Major};
use tokio_postgres::{Error, IsolationLevel};

use super::shop::{Shop, call, granted, on_every_major, paid, pay, refused, replayed};

on_every_major! {
    a_reference_is_used_once_under_whichever_key
    a_reference_that_another_transaction_claims_is_in_progress
    what_failed_or_was_rolled_back_did_not_use_its_reference
    a_reference_that_the_snapshot_hides_is_a_lost_race
    a_reference_may_be_used_again_after_its_time
}

fn order(key: &str, order: &str) -> semel::Call {
    call(key).reference(Reference::new(order).unwrap())
}

async fn a_reference_is_used_once_under_whichever_key(mut shop: Shop) {
    let transact = shop.transact.clone();
    for key in ["a", "a", "b"] {
        let mine = order(key, "order-7");
        let ran = transact.run(&mut shop.client, &mine, async |guard| {
            pay(&shop.fixture, &*guard, key).await?;
            Ok::<_, Error>(guard.done(paid(), ()))
        });
        match ran.await.unwrap() {
            Ran::Done(()) | Ran::Replay(_) => assert_eq!(key, "a"),
            Ran::Refused(Refusal::ReferenceExists { pointer, used_at }) => {
                assert_eq!((key, pointer), ("b", paid().pointer));
                assert!(used_at.is_some());
            }
            other => panic!("{other:?}"),
        }
    }
    // In another scope it is another reference; and the refused key is free for another one.
    let mut other = order("b", "order-7");
    other.id.scope.tenant = semel::Tenant::new("other").unwrap();
    for mine in [other, order("b", "order-8"), call("c")] {
        let ran = transact
            .run(&mut shop.client, &mine, async |guard| Ok::<_, Error>(guard.done(paid(), ())));
        assert!(matches!(ran.await, Ok(Ran::Done(()))));
    }
    assert_eq!((shop.payments().await, shop.records().await), (1, 4));
    assert_eq!(shop.number("SELECT count(*) FROM semel.reference").await, 3);
}

async fn a_reference_that_another_transaction_claims_is_in_progress(mut shop: Shop) {
    let transact = shop.transact.clone();
    let mut other = shop.fixture.connect().await;
    let tx = other.transaction().await.unwrap();
    let guard = granted(transact.claim(tx, &order("a", "order-7")).await.unwrap());
    let tx = shop.client.transaction().await.unwrap();
    let (tx, refusal) = refused(transact.claim(tx, &order("b", "order-7")).await.unwrap());
    assert_eq!(refusal.code(), "in-progress");
    guard.complete(paid()).await.unwrap().commit().await.unwrap();
    // The refusal left no mark: the same transaction may ask again.
    let (_, refusal) = refused(transact.claim(tx, &order("b", "order-7")).await.unwrap());
    assert_eq!(refusal.code(), "reference-exists");
}

async fn what_failed_or_was_rolled_back_did_not_use_its_reference(mut shop: Shop) {
    let transact = shop.transact.clone();
    let tx = shop.client.transaction().await.unwrap();
    drop(granted(transact.claim(tx, &order("a", "order-7")).await.unwrap()));
    let tx = shop.client.transaction().await.unwrap();
    let guard = granted(transact.claim(tx, &order("b", "order-7")).await.unwrap());
    guard.fail(Outcome::new(402, "")).await.unwrap().commit().await.unwrap();
    let tx = shop.client.transaction().await.unwrap();
    let guard = granted(transact.claim(tx, &order("c", "order-7")).await.unwrap());
    guard.complete(paid()).await.unwrap().commit().await.unwrap();
    let tx = shop.client.transaction().await.unwrap();
    let (tx, outcome) = replayed(transact.claim(tx, &order("c", "order-7")).await.unwrap());
    assert_eq!(outcome, paid());
    drop(refused(transact.claim(tx, &order("a", "order-7")).await.unwrap()));
}

async fn a_reference_that_the_snapshot_hides_is_a_lost_race(mut shop: Shop) {
    let transact = shop.transact.clone();
    let level = IsolationLevel::RepeatableRead;
    let mut other = shop.fixture.connect().await;
    let old = other.build_transaction().isolation_level(level).start().await.unwrap();
    old.query_one("SELECT 1", &[]).await.unwrap();
    let tx = shop.client.transaction().await.unwrap();
    let guard = granted(transact.claim(tx, &order("a", "order-7")).await.unwrap());
    guard.complete(paid()).await.unwrap().commit().await.unwrap();
    let guard = granted(transact.claim(old, &order("b", "order-7")).await.unwrap());
    let error = guard.complete(paid()).await.err().unwrap();
    assert_eq!(error.kind(), semel::StoreErrorKind::Busy, "{error}");
    assert_eq!(shop.records().await, 1);
}

async fn a_reference_may_be_used_again_after_its_time(mut shop: Shop) {
    let transact = shop.transact.clone();
    let time = shop.fixture.moved_time().await;
    let hour = Duration::from_secs(3_600);
    for (key, used) in [("a", false), ("b", true), ("c", false), ("d", true)] {
        if key == "c" {
            time.advance(hour).await;
        }
        let mine = order(key, "order-7").reference_for(hour);
        let ran = transact
            .run(&mut shop.client, &mine, async |guard| Ok::<_, Error>(guard.done(paid(), ())));
        let ran = ran.await.unwrap();
        assert_eq!(matches!(ran, Ran::Refused(Refusal::ReferenceExists { .. })), used, "{key}");
    }
    assert_eq!(shop.number("SELECT count(*) FROM semel.reference").await, 1);
}

/// One order, many keys, all at once: one of them is done.
#[tokio::test]
async fn of_many_keys_with_one_reference_one_is_done() {
    let shop = Shop::new(Major::V18).await;
    let pool = super::pool::Pool::new(&shop.fixture.url, 4);
    let runs = (0..16).map(|n| {
        let (shop, pool) = (&shop, &pool);
        async move {
            let key = format!("k{n}");
            let mine = order(&key, "order-7");
            let ran = shop.transact.run_on(pool, &mine, async |guard| {
                pay(&shop.fixture, &*guard, &key).await?;
                Ok::<_, Error>(guard.done(paid(), ()))
            });
            match ran.await.unwrap() {
                Ran::Done(()) => 1,
                Ran::Refused(Refusal::ReferenceExists { pointer, .. }) => {
                    assert_eq!(pointer, paid().pointer);
                    0
                }
                other => panic!("{other:?}"),
            }
        }
    });
    let done: i32 = futures_util::future::join_all(runs).await.iter().sum();
    assert_eq!((done, shop.payments().await, shop.records().await), (1, 1, 1));
}

/// The functions of the schema and this crate know each other's references.
#[tokio::test]
async fn a_reference_used_by_the_functions_is_used_here() {
    let mut shop = Shop::new(Major::V18).await;
    let transact = shop.transact.clone();
    let tx = shop.client.transaction().await.unwrap();
    let claim = "SELECT permit FROM semel.claim('acme', 'payments.create', 'a', 'pay 10',
        reference => 'order-7')";
    let row = tx.query_one(&*shop.fixture.sql(claim), &[]).await.unwrap();
    let mut other = shop.fixture.connect().await;
    let theirs = other.transaction().await.unwrap();
    let (theirs, refusal) = refused(transact.claim(theirs, &order("b", "order-7")).await.unwrap());
    assert_eq!(refusal.code(), "in-progress");
    let complete = "SELECT semel.complete($1, 'acme', 'payments.create', 201,
        pointer_kind => 'payment', pointer_id => '7')";
    let permit: String = row.get(0);
    tx.execute(&*shop.fixture.sql(complete), &[&permit]).await.unwrap();
    tx.commit().await.unwrap();
    let (_, refusal) = refused(transact.claim(theirs, &order("b", "order-7")).await.unwrap());
    match refusal {
        Refusal::ReferenceExists { pointer, .. } => assert_eq!(pointer, paid().pointer),
        other => panic!("{other:?}"),
    }
}
