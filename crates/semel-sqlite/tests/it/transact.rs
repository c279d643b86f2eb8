//! Claims inside the caller's own transactions.

use std::{sync::Arc, time::Duration};

use rusqlite::{Connection, DropBehavior, Transaction, TransactionBehavior};
use semel::{
    Call, Fingerprint, Outcome, Policy, State, Store, StoreErrorKind,
    decide::{Grant, OnLost, Refusal},
    store::{ClaimAnswer, Completed},
};
use semel_sqlite::{
    SqliteStore,
    transact::{Atomic, Guard, Ran, RunError},
};
use semel_testkit::ManualClock;

use crate::bench::{Bench, ask, claim, done, granted, id, record};

/// A store, and the application's connection to the same file.
struct Shop {
    bench: Bench,
    clock: Arc<ManualClock>,
    store: SqliteStore,
    conn: Connection,
}

impl Shop {
    fn new() -> Self {
        let (bench, clock) = (Bench::new(), ManualClock::new());
        let wait = Duration::from_millis(50);
        let store = bench.builder().clock(clock.clone()).busy_wait(wait).open().unwrap();
        let conn = Connection::open(bench.path()).unwrap();
        conn.execute_batch("CREATE TABLE payment (amount INTEGER)").unwrap();
        conn.busy_timeout(wait).unwrap();
        Self { bench, clock, store, conn }
    }

    fn immediate(&mut self) -> Transaction<'_> {
        self.conn.transaction_with_behavior(TransactionBehavior::Immediate).unwrap()
    }

    fn payments(&self) -> u32 {
        let conn = Connection::open(self.bench.path()).unwrap();
        conn.query_row("SELECT count(*) FROM payment", [], |row| row.get(0)).unwrap()
    }
}

fn call(key: &str) -> Call {
    Call::new(id(key), Fingerprint::of_bytes(b"pay 10"), Arc::new(Policy::default()))
}

fn call_on_lost(key: &str, on_lost: OnLost) -> Call {
    let policy = Policy { on_lost, ..Policy::default() };
    Call::new(id(key), Fingerprint::of_bytes(b"pay 10"), Arc::new(policy))
}

fn pay(conn: &Connection) {
    conn.execute("INSERT INTO payment VALUES (10)", []).unwrap();
}

#[track_caller]
fn run(atomic: Atomic<'_>) -> Guard<'_> {
    match atomic {
        Atomic::Run(guard) => guard,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refusal(atomic: Atomic<'_>) -> Refusal {
    match atomic {
        Atomic::Refused(_, refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn key_effect_and_outcome_are_committed_together() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    let guard = run(transact.claim(shop.immediate(), &call("k")).unwrap());
    let permit = guard.permit();
    pay(&guard);
    guard.complete(Outcome::new(201, "paid").pointer("payment", "7")).unwrap().commit().unwrap();
    assert_eq!(shop.payments(), 1);
    let kept = record(&shop.store, "k").await.unwrap();
    assert_eq!((kept.state, kept.permit()), (State::Done, permit));
    match claim(&shop.store, ask("k", 9)).await.unwrap() {
        ClaimAnswer::Replay(record) => assert_eq!(record.outcome.unwrap().status, 201),
        other => panic!("{other:?}"),
    }
    match shop.store.transact().claim(shop.immediate(), &call("k")).unwrap() {
        Atomic::Replay(tx, record) => {
            assert_eq!(record.outcome.unwrap().status, 201);
            tx.commit().unwrap();
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_dropped_guard_leaves_nothing_whatever_the_transaction_would_have_done() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    for behavior in [DropBehavior::Rollback, DropBehavior::Commit] {
        let mut tx = shop.immediate();
        tx.set_drop_behavior(behavior);
        let guard = run(transact.claim(tx, &call("k")).unwrap());
        pay(&guard);
        drop(guard);
        assert_eq!(shop.payments(), 0);
        assert_eq!(record(&shop.store, "k").await, None);
    }
}

#[tokio::test]
async fn a_completed_transaction_that_is_rolled_back_leaves_nothing() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    let guard = run(transact.claim(shop.immediate(), &call("k")).unwrap());
    pay(&guard);
    guard.complete(Outcome::new(201, "")).unwrap().rollback().unwrap();
    assert_eq!((shop.payments(), record(&shop.store, "k").await), (0, None));
}

#[tokio::test]
async fn the_drop_behaviour_comes_back_with_the_transaction() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    let mut tx = shop.immediate();
    tx.set_drop_behavior(DropBehavior::Commit);
    let guard = run(transact.claim(tx, &call("k")).unwrap());
    drop(guard.complete(Outcome::new(201, "")).unwrap());
    assert_eq!(record(&shop.store, "k").await.unwrap().state, State::Done);
}

#[tokio::test]
async fn one_transaction_may_hold_several_keys_and_meets_its_own() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    let mut tx = shop.immediate();
    for key in ["a", "b"] {
        let guard = run(transact.claim(tx, &call(key)).unwrap());
        pay(&guard);
        tx = guard.complete(Outcome::new(201, key)).unwrap();
    }
    let tx = match transact.claim(tx, &call("a")).unwrap() {
        Atomic::Replay(tx, record) => {
            assert_eq!(record.outcome, Some(Outcome::new(201, "a")));
            tx
        }
        other => panic!("{other:?}"),
    };
    tx.commit().unwrap();
    assert_eq!(shop.payments(), 2);
}

#[tokio::test]
async fn a_final_failure_is_an_outcome_too() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    let guard = run(transact.claim(shop.immediate(), &call("k")).unwrap());
    guard.fail(Outcome::new(402, "no money")).unwrap().commit().unwrap();
    assert_eq!(record(&shop.store, "k").await.unwrap().state, State::Failed);
}

#[tokio::test]
async fn refusals_come_in_their_order_and_give_the_transaction_back() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    granted(&shop.store, ask("k", 1)).await;
    let answer = transact.claim(shop.immediate(), &call("k")).unwrap();
    assert!(matches!(refusal(answer), Refusal::InProgress { .. }));
    let mut other = call("k");
    other.fingerprint = Fingerprint::of_bytes(b"pay 11");
    let answer = transact.claim(shop.immediate(), &other).unwrap();
    assert_eq!(refusal(answer), Refusal::Mismatch);
    match transact.claim(shop.immediate(), &call("k")).unwrap() {
        Atomic::Refused(tx, _) => {
            pay(&tx);
            tx.commit().unwrap();
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(shop.payments(), 1);
}

#[tokio::test]
async fn an_older_plan_is_compared_by_the_records_plan() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    let old = Fingerprint::new(semel::fingerprint::PlanId::new([7; 8]), [1; 32]);
    let mut before = call("k");
    before.fingerprint = old;
    let guard = run(transact.claim(shop.immediate(), &before).unwrap());
    guard.complete(Outcome::new(200, "")).unwrap().commit().unwrap();
    let answer = transact.claim(shop.immediate(), &call("k")).unwrap();
    assert!(matches!(refusal(answer), Refusal::Incomparable { .. }));
    let mut now = call("k");
    now.by_plan = Some(Arc::new(move |plan| (plan == old.plan()).then_some(old)));
    assert!(matches!(transact.claim(shop.immediate(), &now).unwrap(), Atomic::Replay(..)));
    let pays = |_: &Guard<'_>| Ok::<_, ()>((Outcome::new(200, ""), ()));
    assert!(matches!(transact.run(&mut shop.conn, &now, pays).unwrap(), Ran::Replay(_)));
}

#[tokio::test]
async fn a_take_over_ends_the_old_permit_when_it_commits_and_not_before() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    let old = granted(&shop.store, ask("k", 1)).await;
    shop.clock.advance(Duration::from_secs(31));
    let rerun = call_on_lost("k", OnLost::Rerun);
    let guard = run(transact.claim(shop.immediate(), &rerun).unwrap());
    assert_eq!(guard.grant(), Grant::TakenOver { ask_first: false });
    assert!(guard.permit().fence > old.fence);
    drop(guard);
    assert_eq!(record(&shop.store, "k").await.unwrap().permit(), old);
    let guard = run(transact.claim(shop.immediate(), &rerun).unwrap());
    guard.complete(Outcome::new(201, "")).unwrap().commit().unwrap();
    let late = shop.store.complete(old, done(Outcome::new(200, "late"))).await.unwrap();
    assert_eq!(late, Completed::Stale);
}

#[tokio::test]
async fn a_lost_holder_is_unknown_from_the_refusal_that_commits() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    granted(&shop.store, ask("k", 1)).await;
    shop.clock.advance(Duration::from_secs(31));
    let answer = transact.claim(shop.immediate(), &call("k")).unwrap();
    assert!(matches!(refusal(answer), Refusal::Unknown { .. }));
    assert_eq!(record(&shop.store, "k").await.unwrap().state, State::Running);
    let pays = |_: &Guard<'_>| Ok::<_, ()>((Outcome::new(200, ""), ()));
    let ran = transact.run(&mut shop.conn, &call("k"), pays).unwrap();
    assert!(matches!(ran, Ran::Refused(Refusal::Unknown { .. })));
    assert_eq!(record(&shop.store, "k").await.unwrap().state, State::Unknown);
}

#[tokio::test]
async fn a_transaction_that_was_not_used_yet_takes_the_lock_by_claiming() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    let guard = run(transact.claim(shop.conn.transaction().unwrap(), &call("k")).unwrap());
    pay(&guard);
    guard.complete(Outcome::new(201, "")).unwrap().commit().unwrap();
    assert_eq!(shop.payments(), 1);
}

#[tokio::test]
async fn a_transaction_that_has_read_is_refused() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    let tx = shop.conn.transaction().unwrap();
    tx.query_row("SELECT count(*) FROM payment", [], |row| row.get::<_, u32>(0)).unwrap();
    let error = transact.claim(tx, &call("k")).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Invalid);
    assert!(error.to_string().contains("Immediate"), "{error}");
    assert!(shop.conn.is_autocommit());
}

/// S05
#[tokio::test]
async fn a_connection_that_may_lose_its_commits_is_refused() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    shop.conn.pragma_update(None, "synchronous", "NORMAL").unwrap();
    let error = transact.claim(shop.immediate(), &call("k")).unwrap_err();
    assert!(error.to_string().contains("synchronous"), "{error}");
}

#[tokio::test]
async fn a_transaction_on_another_file_is_refused() {
    let mut shop = Shop::new();
    let other = Bench::new();
    drop(other.open());
    shop.conn = Connection::open(other.path()).unwrap();
    let transact = shop.store.transact();
    let error = transact.claim(shop.immediate(), &call("k")).unwrap_err();
    assert!(error.to_string().contains("another file"), "{error}");
}

#[tokio::test]
async fn a_commit_as_text_inside_the_guard_fails() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    let guard = run(transact.claim(shop.immediate(), &call("k")).unwrap());
    pay(&guard);
    assert!(guard.execute_batch("COMMIT").is_err());
    drop(guard);
    assert_eq!((shop.payments(), record(&shop.store, "k").await), (0, None));
    // Without foreign keys the text commits, and the completion tells.
    shop.conn.pragma_update(None, "foreign_keys", false).unwrap();
    let guard = run(transact.claim(shop.immediate(), &call("k")).unwrap());
    guard.execute_batch("COMMIT").unwrap();
    assert!(guard.complete(Outcome::new(201, "")).is_err());
    assert_eq!(record(&shop.store, "k").await, None);
}

#[tokio::test]
async fn a_claim_that_a_statement_undid_cannot_be_completed() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    for undo in ["ROLLBACK", "ROLLBACK; BEGIN IMMEDIATE"] {
        let guard = run(transact.claim(shop.immediate(), &call("k")).unwrap());
        guard.execute_batch(undo).unwrap();
        let error = guard.complete(Outcome::new(201, "")).unwrap_err();
        assert!(error.to_string().contains("undid the claim"), "{error}");
        assert!(shop.conn.is_autocommit());
    }
    let tx = shop.immediate();
    tx.execute_batch("SAVEPOINT here").unwrap();
    let guard = run(transact.claim(tx, &call("k")).unwrap());
    guard.execute_batch("ROLLBACK TO here").unwrap();
    assert!(guard.complete(Outcome::new(201, "")).is_err());
    assert_eq!(record(&shop.store, "k").await, None);
}

#[tokio::test]
async fn an_outcome_over_the_bound_rolls_everything_back() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    let guard = run(transact.claim(shop.immediate(), &call("k")).unwrap());
    pay(&guard);
    let error = guard.complete(Outcome::new(201, vec![0; 17 * 1024 * 1024])).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Invalid);
    assert_eq!((shop.payments(), record(&shop.store, "k").await), (0, None));
}

#[tokio::test]
async fn a_long_transaction_holds_other_writers_for_a_bounded_time() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    let mut other = Connection::open(shop.bench.path()).unwrap();
    other.busy_timeout(Duration::from_millis(20)).unwrap();
    let tx = shop.conn.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let guard = run(transact.claim(tx, &call("k")).unwrap());
    let error = claim(&shop.store, ask("other", 1)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Busy);
    let pays = |_: &Guard<'_>| Ok::<_, ()>((Outcome::new(200, ""), ()));
    match transact.run(&mut other, &call("k"), pays) {
        Err(RunError::Store(error)) => assert_eq!(error.kind(), StoreErrorKind::Busy),
        other => panic!("{other:?}"),
    }
    guard.complete(Outcome::new(201, "")).unwrap().commit().unwrap();
    granted(&shop.store, ask("other", 1)).await;
}

#[tokio::test]
async fn a_replay_waits_for_no_writer() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    let pays = |guard: &Guard<'_>| {
        pay(guard);
        Ok::<_, ()>((Outcome::new(200, "paid"), 7))
    };
    assert!(matches!(transact.run(&mut shop.conn, &call("k"), pays), Ok(Ran::Done(7))));
    let mut other = Connection::open(shop.bench.path()).unwrap();
    let held = shop.immediate();
    let ran = transact.run(&mut other, &call("k"), pays).unwrap();
    assert!(
        matches!(ran, Ran::Replay(record) if record.outcome == Some(Outcome::new(200, "paid")))
    );
    drop(held);
    assert_eq!(shop.payments(), 1);
}

#[tokio::test]
async fn work_that_fails_rolls_back_and_may_be_tried_again() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    let mut fails = true;
    let mut work = |guard: &Guard<'_>| {
        pay(guard);
        if std::mem::take(&mut fails) { Err("no") } else { Ok((Outcome::new(200, ""), ())) }
    };
    let first = transact.run(&mut shop.conn, &call("k"), &mut work);
    assert!(matches!(first, Err(RunError::Work("no"))));
    assert_eq!(shop.payments(), 0);
    let second = transact.run(&mut shop.conn, &call("k"), &mut work);
    assert!(matches!(second, Ok(Ran::Done(()))));
    assert_eq!(shop.payments(), 1);
}

#[test]
fn of_8_threads_with_one_key_one_pays() {
    let shop = Shop::new();
    let transact = shop.store.transact();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (transact, path) = (transact.clone(), shop.bench.path());
            std::thread::spawn(move || {
                let mut conn = Connection::open(path).unwrap();
                let pays = |guard: &Guard<'_>| {
                    pay(guard);
                    Ok::<_, ()>((Outcome::new(200, ""), ()))
                };
                usize::from(matches!(
                    transact.run(&mut conn, &call("k"), pays).unwrap(),
                    Ran::Done(())
                ))
            })
        })
        .collect();
    let paid: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!((paid, shop.payments()), (1, 1));
}

#[tokio::test]
async fn a_business_reference_is_refused_and_not_ignored() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    let named = call("k").reference(semel::Reference::new("order-7").unwrap());
    let error = transact.claim(shop.immediate(), &named).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Invalid);
    assert!(error.to_string().contains("reference"), "{error}");
}
