//! The guard over a transaction of tokio-postgres.

use std::sync::Arc;

use semel::{
    Call, Fingerprint, Outcome, Policy, Refusal, StoreErrorKind,
    decide::{Compare, Grant, OnLost},
    fingerprint::PlanId,
};

use semel_testkit::conformance::MoveTime as _;

use super::shop::{Shop, call, call_on_lost, granted, id, on_every_major, paid, refused, replayed};

on_every_major! {
    key_effect_and_outcome_are_committed_together
    prepared_statements_do_the_same
    a_dropped_guard_leaves_nothing
    a_completed_transaction_that_is_rolled_back_leaves_nothing
    one_transaction_may_hold_several_keys_and_meets_its_own
    a_final_failure_is_an_outcome_too
    refusals_come_in_their_order_and_give_the_transaction_back
    a_refused_claim_leaves_no_mark
    an_older_plan_is_compared_by_the_records_plan
    a_take_over_ends_the_old_permit_when_it_commits_and_not_before
    a_lost_holder_is_unknown_from_the_refusal_that_commits
    a_lease_renewed_in_the_future_is_rewritten_to_now
    what_was_forgotten_is_refused_and_later_may_run_again
    retention_counts_from_the_completion
}

async fn key_effect_and_outcome_are_committed_together(mut shop: Shop) {
    let transact = shop.transact.clone();
    for replays in [false, true] {
        let mut client = shop.fixture.connect().await;
        let tx = client.transaction().await.unwrap();
        let claimed = transact.claim(tx, &call("k")).await.unwrap();
        if replays {
            let (tx, outcome) = replayed(claimed);
            assert_eq!(outcome, paid());
            tx.commit().await.unwrap();
            continue;
        }
        let guard = granted(claimed);
        shop.pay(&*guard, "k").await.unwrap();
        assert_eq!((shop.payments().await, shop.records().await), (0, 0), "not yet");
        guard.complete(paid()).await.unwrap().commit().await.unwrap();
    }
    assert_eq!((shop.payments().await, shop.records().await), (1, 1));
    assert_eq!(shop.state("k").await.as_deref(), Some("done"));
    let tx = shop.client.transaction().await.unwrap();
    drop(replayed(transact.claim(tx, &call("k")).await.unwrap()));
}

async fn prepared_statements_do_the_same(mut shop: Shop) {
    let transact = shop.transact.clone();
    let prepared = transact.prepare(&shop.client).await.unwrap();
    shop.leased("old", b"pay 10", 31).await;
    for key in ["k", "old", "k", "old"] {
        let tx = shop.client.transaction().await.unwrap();
        let call = call_on_lost(key, OnLost::Rerun);
        match transact.claim_prepared(tx, &call, &prepared).await.unwrap() {
            semel_postgres::transact::Atomic::Run(guard) => {
                guard.complete(paid()).await.unwrap().commit().await.unwrap();
            }
            other => assert_eq!(replayed(other).1, paid()),
        }
    }
    assert_eq!(shop.records().await, 2);
}

async fn a_dropped_guard_leaves_nothing(mut shop: Shop) {
    let transact = shop.transact.clone();
    let fixture = shop.fixture.clone();
    for _ in 0..2 {
        let tx = shop.client.transaction().await.unwrap();
        let guard = granted(transact.claim(tx, &call("k")).await.unwrap());
        super::shop::pay(&fixture, &*guard, "k").await.unwrap();
        drop(guard);
    }
    assert_eq!((shop.payments().await, shop.records().await), (0, 0));
}

async fn a_completed_transaction_that_is_rolled_back_leaves_nothing(mut shop: Shop) {
    let transact = shop.transact.clone();
    let tx = shop.client.transaction().await.unwrap();
    let guard = granted(transact.claim(tx, &call("k")).await.unwrap());
    guard.complete(paid()).await.unwrap().rollback().await.unwrap();
    assert_eq!(shop.records().await, 0);
}

async fn one_transaction_may_hold_several_keys_and_meets_its_own(mut shop: Shop) {
    let transact = shop.transact.clone();
    let mut tx = shop.client.transaction().await.unwrap();
    for key in ["a", "b"] {
        let guard = granted(transact.claim(tx, &call(key)).await.unwrap());
        tx = guard.complete(Outcome::new(201, key)).await.unwrap();
    }
    let (tx, outcome) = replayed(transact.claim(tx, &call("a")).await.unwrap());
    assert_eq!(outcome, Outcome::new(201, "a"));
    tx.commit().await.unwrap();
    assert_eq!(shop.records().await, 2);
}

async fn a_final_failure_is_an_outcome_too(mut shop: Shop) {
    let transact = shop.transact.clone();
    let tx = shop.client.transaction().await.unwrap();
    let guard = granted(transact.claim(tx, &call("k")).await.unwrap());
    guard.fail(Outcome::new(402, "no money")).await.unwrap().commit().await.unwrap();
    assert_eq!(shop.state("k").await.as_deref(), Some("failed"));
    let tx = shop.client.transaction().await.unwrap();
    assert_eq!(replayed(transact.claim(tx, &call("k")).await.unwrap()).1.status, 402);
}

async fn refusals_come_in_their_order_and_give_the_transaction_back(mut shop: Shop) {
    let transact = shop.transact.clone();
    shop.leased("k", b"pay 10", 0).await;
    let tx = shop.client.transaction().await.unwrap();
    let (tx, refusal) = refused(transact.claim(tx, &call("k")).await.unwrap());
    match refusal {
        Refusal::InProgress { lease_left, .. } => assert!(lease_left.as_secs() > 20),
        other => panic!("{other:?}"),
    }
    let mut other = call("k");
    other.fingerprint = Fingerprint::of_bytes(b"pay 11");
    let (tx, refusal) = refused(transact.claim(tx, &other).await.unwrap());
    assert_eq!(refusal, Refusal::Mismatch);
    super::shop::pay(&shop.fixture, &tx, "k").await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(shop.payments().await, 1);
}

async fn a_refused_claim_leaves_no_mark(mut shop: Shop) {
    let transact = shop.transact.clone();
    shop.leased("k", b"pay 11", 31).await;
    let tx = shop.client.transaction().await.unwrap();
    let (tx, refusal) = refused(transact.claim(tx, &call("k")).await.unwrap());
    assert_eq!(refusal, Refusal::Mismatch);
    let mut right = call_on_lost("k", OnLost::Rerun);
    right.fingerprint = Fingerprint::of_bytes(b"pay 11");
    let guard = granted(transact.claim(tx, &right).await.unwrap());
    guard.complete(paid()).await.unwrap().commit().await.unwrap();
    assert_eq!(shop.state("k").await.as_deref(), Some("done"));
}

async fn an_older_plan_is_compared_by_the_records_plan(mut shop: Shop) {
    let transact = shop.transact.clone();
    let old = Fingerprint::new(PlanId::new([7; 8]), [1; 32]);
    let mut before = call("k");
    before.fingerprint = old;
    let tx = shop.client.transaction().await.unwrap();
    let guard = granted(transact.claim(tx, &before).await.unwrap());
    guard.complete(paid()).await.unwrap().commit().await.unwrap();
    let tx = shop.client.transaction().await.unwrap();
    let (tx, refusal) = refused(transact.claim(tx, &call("k")).await.unwrap());
    assert!(matches!(refusal, Refusal::Incomparable { .. }));
    let mut now = call("k");
    now.by_plan = Some(Arc::new(move |plan| (plan == old.plan()).then_some(old)));
    drop(replayed(transact.claim(tx, &now).await.unwrap()));
}

async fn a_take_over_ends_the_old_permit_when_it_commits_and_not_before(mut shop: Shop) {
    let transact = shop.transact.clone();
    shop.leased("k", b"pay 10", 31).await;
    let rerun = call_on_lost("k", OnLost::Rerun);
    let tx = shop.client.transaction().await.unwrap();
    let guard = granted(transact.claim(tx, &rerun).await.unwrap());
    assert_eq!(guard.grant(), Grant::TakenOver { ask_first: false });
    assert!(guard.permit().fence.get() > 1);
    drop(guard);
    assert_eq!(shop.state("k").await.as_deref(), Some("running"));
    let tx = shop.client.transaction().await.unwrap();
    let guard = granted(transact.claim(tx, &rerun).await.unwrap());
    let token = guard.permit().token.as_bytes().to_vec();
    guard.complete(paid()).await.unwrap().commit().await.unwrap();
    let kept = "SELECT token, takeovers FROM semel.record WHERE lease_us IS NULL";
    let row = shop.client.query_one(&*shop.fixture.sql(kept), &[]).await.unwrap();
    assert_eq!((row.get::<_, Vec<u8>>(0), row.get::<_, i64>(1)), (token, 1));
}

async fn a_lost_holder_is_unknown_from_the_refusal_that_commits(mut shop: Shop) {
    let transact = shop.transact.clone();
    shop.leased("k", b"pay 10", 31).await;
    for commits in [false, true] {
        let tx = shop.client.transaction().await.unwrap();
        let (tx, refusal) = refused(transact.claim(tx, &call("k")).await.unwrap());
        assert!(matches!(refusal, Refusal::Unknown { .. }));
        if commits {
            tx.commit().await.unwrap()
        } else {
            tx.rollback().await.unwrap()
        }
        let state = if commits { "unknown" } else { "running" };
        assert_eq!(shop.state("k").await.as_deref(), Some(state));
    }
}

async fn a_lease_renewed_in_the_future_is_rewritten_to_now(mut shop: Shop) {
    let transact = shop.transact.clone();
    shop.leased("k", b"pay 10", -1_000).await;
    let tx = shop.client.transaction().await.unwrap();
    let (tx, refusal) = refused(transact.claim(tx, &call("k")).await.unwrap());
    assert!(matches!(refusal, Refusal::InProgress { .. }));
    tx.commit().await.unwrap();
    let ahead = "SELECT count(*) FROM semel.seen WHERE renewed_at_us > semel.now_us()";
    assert_eq!(shop.number(ahead).await, 0);
}

async fn what_was_forgotten_is_refused_and_later_may_run_again(mut shop: Shop) {
    let transact = shop.transact.clone();
    let time = shop.fixture.moved_time().await;
    let tx = shop.client.transaction().await.unwrap();
    let guard = granted(transact.claim(tx, &call("k")).await.unwrap());
    let first = guard.permit().fence;
    guard.complete(paid()).await.unwrap().commit().await.unwrap();
    let day = std::time::Duration::from_secs(24 * 60 * 60);
    time.advance(day).await;
    let tx = shop.client.transaction().await.unwrap();
    let (tx, refusal) = refused(transact.claim(tx, &call("k")).await.unwrap());
    match refusal {
        Refusal::Forgotten { pointer, .. } => assert_eq!(pointer, paid().pointer),
        other => panic!("{other:?}"),
    }
    drop(tx);
    time.advance(30 * day).await;
    let tx = shop.client.transaction().await.unwrap();
    let guard = granted(transact.claim(tx, &call("k")).await.unwrap());
    assert!(guard.permit().fence > first);
    guard.complete(paid()).await.unwrap().commit().await.unwrap();
    assert_eq!(shop.records().await, 1);
}

async fn retention_counts_from_the_completion(mut shop: Shop) {
    let transact = shop.transact.clone();
    let time = shop.fixture.moved_time().await;
    let tx = shop.client.transaction().await.unwrap();
    let guard = granted(transact.claim(tx, &call("k")).await.unwrap());
    time.advance(std::time::Duration::from_secs(1_000)).await;
    guard.complete(paid()).await.unwrap().commit().await.unwrap();
    let late = "SELECT count(*) FROM semel.record
        WHERE settled_at_us >= claimed_at_us + 1000000000
            AND replay_until_us = settled_at_us + 86400000000
            AND remember_until_us = settled_at_us + 2592000000000
            AND sweep_at_us = replay_until_us";
    assert_eq!(shop.number(late).await, 1);
}

/// What the guard itself refuses is refused on every server alike.
#[tokio::test]
async fn an_outcome_over_the_bound_rolls_everything_back() {
    let mut shop = Shop::new(semel_testkit::servers::Major::V18).await;
    let transact = shop.transact.clone();
    let tx = shop.client.transaction().await.unwrap();
    let guard = granted(transact.claim(tx, &call("k")).await.unwrap());
    super::shop::pay(&shop.fixture, &*guard, "k").await.unwrap();
    let error = guard.complete(Outcome::new(201, vec![0; 2 * 1024 * 1024])).await.err().unwrap();
    assert_eq!(error.kind(), StoreErrorKind::Invalid);
    assert_eq!((shop.payments().await, shop.records().await), (0, 0));
}

#[tokio::test]
async fn without_comparing_a_finished_record_is_replayed_whatever_the_content() {
    let mut shop = Shop::new(semel_testkit::servers::Major::V18).await;
    let transact = shop.transact.clone();
    let tx = shop.client.transaction().await.unwrap();
    let guard = granted(transact.claim(tx, &call("k")).await.unwrap());
    guard.complete(paid()).await.unwrap().commit().await.unwrap();
    let policy = Policy { compare: Compare::ReplayFirst, ..Policy::default() };
    let other = Call::new(id("k"), Fingerprint::of_bytes(b"pay 11"), Arc::new(policy));
    let tx = shop.client.transaction().await.unwrap();
    assert_eq!(replayed(transact.claim(tx, &other).await.unwrap()).1, paid());
}
