//! The verbs on their way through file and writer; what they mean is the conformance suite's.

use std::{sync::Arc, time::Duration};

use semel::{
    Outcome, State, Store,
    decide::{Refusal, Resolution, ResolveAsk, Verdict},
    store::{
        Actor, ClaimAnswer, Completed, ReleaseAnswer, Renew, Renewed,
        capability::{AuditKind, Filter, Inspect, Sweep, SweepBudget},
    },
};

use crate::bench::{Bench, ask, claim, done, granted, id, record, release, run, token};

#[tokio::test]
async fn everything_that_is_kept_comes_back_equal_after_a_restart() {
    let bench = Bench::new();
    let store = bench.open();
    let outcome = Outcome::new(201, (0..=255).collect::<Vec<u8>>())
        .header("location", "/payments/7")
        .header("link", "</a>")
        .header("link", "</b>")
        .pointer("payment", "7");
    let permit = granted(&store, ask("k", 1)).await;
    store.complete(permit, done(outcome.clone())).await.unwrap();
    let before = record(&store, "k").await.unwrap();
    drop(store);
    let store = bench.open();
    assert_eq!(record(&store, "k").await, Some(before));
    match claim(&store, ask("k", 2)).await.unwrap() {
        ClaimAnswer::Replay(record) => assert_eq!(record.outcome, Some(outcome)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_batch_keeps_its_order_and_a_repeated_name_sees_the_first() {
    let bench = Bench::new();
    let store = bench.open();
    run(&store, "done", vec![1]).await;
    let asks = vec![ask("a", 1), ask("done", 2), ask("b", 3), ask("a", 4)];
    let answers = store.claim(asks).await.unwrap();
    let answers: Vec<_> = answers.into_iter().map(|claimed| claimed.answer).collect();
    assert!(matches!(&answers[0], ClaimAnswer::Granted { permit, .. } if permit.id == id("a")));
    assert!(matches!(&answers[1], ClaimAnswer::Replay(record) if record.id == id("done")));
    assert!(matches!(&answers[2], ClaimAnswer::Granted { permit, .. } if permit.id == id("b")));
    assert!(matches!(&answers[3], ClaimAnswer::Refused(Refusal::InProgress { .. })));
    let answers = store.claim(vec![ask("c", 5), ask("done", 6), ask("d", 7)]).await.unwrap();
    assert!(matches!(&answers[1].answer, ClaimAnswer::Replay(_)));
    assert!(
        matches!(&answers[2].answer, ClaimAnswer::Granted { permit, .. } if permit.id == id("d"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_64_callers_one_is_granted() {
    let bench = Bench::new();
    let store = Arc::new(bench.open());
    let callers: Vec<_> = (0..64_u8)
        .map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { claim(&store, ask("k", number)).await.unwrap() })
        })
        .collect();
    let mut granted = 0;
    for caller in callers {
        granted += usize::from(matches!(caller.await.unwrap(), ClaimAnswer::Granted { .. }));
    }
    assert_eq!(granted, 1);
}

#[tokio::test]
async fn a_lease_is_renewed_and_ended_by_its_permit_alone() {
    let bench = Bench::new();
    let store = bench.open();
    let permit = granted(&store, ask("k", 1)).await;
    let mut other = permit.clone();
    other.token = token(9);
    let lease = Duration::from_secs(90);
    let renewed = store.renew(vec![Renew::of(&permit, lease), Renew::of(&other, lease)]).await;
    assert_eq!(renewed.unwrap(), [Renewed::Held, Renewed::Stale]);
    assert_eq!(record(&store, "k").await.unwrap().lease.length, lease);
    let released = store.release(id("k"), release(&other)).await.unwrap();
    assert_eq!(released.answer, ReleaseAnswer::NotHeld);
    let released = store.release(id("k"), release(&permit)).await.unwrap();
    assert_eq!(released.answer, ReleaseAnswer::Stored);
    assert_eq!(record(&store, "k").await.unwrap().state, State::Open);
}

#[tokio::test]
async fn a_completion_after_its_permit_is_kept_as_a_conflict() {
    let bench = Bench::new();
    let store = bench.open();
    let permit = granted(&store, ask("k", 1)).await;
    store.release(id("k"), release(&permit)).await.unwrap();
    let late = store.complete(permit, done(Outcome::new(201, ""))).await.unwrap();
    assert_eq!(late, Completed::Stale);
    let audit = store.audit(Some(id("k")), 10).await.unwrap();
    assert_eq!(audit.len(), 1);
    assert_eq!(audit[0].kind, AuditKind::Conflict);
    assert_eq!(store.audit(Some(id("other")), 10).await.unwrap(), []);
}

#[tokio::test]
async fn the_audit_keeps_the_newest_rows() {
    let bench = Bench::new();
    let store = bench.builder().audit_max(3).open().unwrap();
    let permit = granted(&store, ask("k", 1)).await;
    store.release(id("k"), release(&permit)).await.unwrap();
    for status in 200..206 {
        store.complete(permit.clone(), done(Outcome::new(status, ""))).await.unwrap();
    }
    let notes: Vec<_> =
        store.audit(None, 10).await.unwrap().into_iter().map(|row| row.note).collect();
    assert_eq!(notes.len(), 3);
    assert!(notes[0].contains("205") && notes[2].contains("203"), "{notes:?}");
}

#[tokio::test]
async fn a_resolution_and_its_audit_row_are_one_step() {
    let bench = Bench::new();
    let store = bench.open();
    let permit = granted(&store, ask("k", 1)).await;
    let mut finish = done(Outcome::new(0, ""));
    finish.kind = semel::decide::FinishKind::Unknown;
    store.complete(permit.clone(), finish).await.unwrap();
    let resolve = ResolveAsk {
        resolve_id: [7; 16],
        token: permit.token,
        fence: permit.fence,
        verdict: Verdict::Done(Outcome::new(200, "found")),
        settle_for: Duration::ZERO,
        force: false,
        replay_for: Duration::from_secs(60),
        remember_for: Duration::from_secs(60),
    };
    let actor = Actor { name: "ops".into(), note: "seen at the bank".into() };
    let first = store.resolve(id("k"), resolve.clone(), actor.clone()).await.unwrap();
    let again = store.resolve(id("k"), resolve, actor).await.unwrap();
    assert_eq!([first, again], [Resolution::Stored, Resolution::Already]);
    let audit = store.audit(None, 10).await.unwrap();
    assert_eq!(audit.len(), 1);
    assert_eq!((&*audit[0].actor, &*audit[0].note), ("ops", "done: seen at the bank"));
}

#[tokio::test]
async fn pages_of_records_follow_each_other_without_a_gap() {
    let bench = Bench::new();
    let store = bench.open();
    for number in 0..10 {
        run(&store, &format!("k{number}"), vec![]).await;
    }
    granted(&store, ask("r", 1)).await;
    for filter in
        [Filter::default(), Filter { tenant: Some(id("k").scope.tenant), ..Filter::default() }]
    {
        let mut keys = Vec::new();
        let mut filter = Filter { limit: 3, ..filter };
        loop {
            let page = store.list(filter.clone()).await.unwrap();
            let Some(last) = page.last() else { break };
            filter.after = Some(last.id.clone());
            keys.extend(page.into_iter().map(|record| record.id.key.as_str().to_owned()));
        }
        let wanted: Vec<_> = (0..10).map(|n| format!("k{n}")).chain(["r".to_owned()]).collect();
        assert_eq!(keys, wanted);
    }
    let held = Filter { state: Some(State::Running), limit: 10, ..Filter::default() };
    assert_eq!(store.list(held).await.unwrap().len(), 1);
    let stuck = Filter { stuck: true, limit: 10, ..Filter::default() };
    assert_eq!(store.list(stuck).await.unwrap().len(), 0);
    let counts = store.counts().await.unwrap();
    assert_eq!((counts.done, counts.running, counts.stuck), (10, 1, 0));
}

#[tokio::test]
async fn a_sweep_keeps_within_its_budget_and_says_whether_more_is_due() {
    let bench = Bench::new();
    let store = bench.open();
    for number in 0..5 {
        let permit = granted(&store, ask(&format!("k{number}"), 1)).await;
        let mut finish = done(Outcome::new(200, "x"));
        finish.replay_for = Duration::ZERO;
        finish.remember_for = Duration::ZERO;
        store.complete(permit, finish).await.unwrap();
    }
    let budget = SweepBudget { records: 3 };
    let first = store.sweep(budget).await.unwrap();
    let second = store.sweep(budget).await.unwrap();
    let third = store.sweep(budget).await.unwrap();
    assert_eq!([first.deleted, second.deleted, third.deleted], [3, 2, 0]);
    assert_eq!([first.more, second.more], [true, false]);
}
