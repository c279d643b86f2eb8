//! What becomes of an intent when its run ends, in every way that a run can end.

use std::time::Duration;

use semel::{
    Begun, Error, Outcome, Phase, State,
    decide::{Finish, FinishKind, Grant, OnLost, ResolveAsk, Verdict},
    engine::Ended,
    outcome::Body,
    store::{Actor, Store},
};

use semel_testkit::{Fault, Verb};

use crate::world::{
    World, call, created, ended, id, other_content, policy, refused, replayed, running,
};

/// How a run ends without a word of its holder.
async fn vanish(world: &World, on_lost: OnLost, started: bool) -> Begun {
    let holder = world.hold("k", policy(on_lost)).await;
    if started {
        holder.start().await.unwrap();
    }
    drop(holder);
    world.settle().await;
    assert_eq!(world.engine.holding(), 0);
    world.other().begin(call("k", policy(on_lost))).await.unwrap()
}

/// C14, C28, S20: a holder that goes away before its effect began gives the key back at once,
/// whatever the policy, and to any content: no run had an effect.
#[tokio::test]
async fn a_holder_dropped_before_its_effect_frees_the_key() {
    for on_lost in [OnLost::Hold, OnLost::Reconcile, OnLost::Rerun] {
        let world = World::new();
        let next = running(vanish(&world, on_lost, false).await);
        assert_eq!(next.grant(), Some(Grant::Reopened));
        drop(next);
        world.settle().await;
        let other = world.engine.begin(other_content("k", policy(on_lost))).await.unwrap();
        assert_eq!(running(other).permit().incarnation, 1);
    }
}

/// C13, C32: under hold, a holder that goes away after its effect began leaves the intent unknown.
#[tokio::test]
async fn under_hold_a_dropped_holder_leaves_it_unknown() {
    let world = World::new();
    let refusal = refused(vanish(&world, OnLost::Hold, true).await);
    assert_eq!(refusal.code(), "unknown");
    assert_eq!(world.record("k").await.unwrap().reason.as_deref(), Some("dropped"));
}

/// Under rerun it is taken up again, by a caller with the same content alone.
#[tokio::test]
async fn under_rerun_a_dropped_holder_is_followed_by_the_same_content() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Rerun)).await;
    holder.start().await.unwrap();
    drop(holder);
    world.settle().await;
    let other = world.engine.begin(other_content("k", policy(OnLost::Rerun))).await.unwrap();
    assert_eq!(refused(other).code(), "mismatch");
    let next = running(world.engine.begin(call("k", policy(OnLost::Rerun))).await.unwrap());
    assert_eq!((next.permit().incarnation, next.ask_first()), (0, false));
}

/// Under reconcile the next caller is granted it at once, and asks first.
#[tokio::test]
async fn under_reconcile_a_dropped_holder_is_followed_by_one_that_asks_first() {
    let world = World::new();
    let next = running(vanish(&world, OnLost::Reconcile, true).await);
    assert!(next.ask_first());
}

/// Whoever takes over and gives the intent back before it asked leaves that to the next.
#[tokio::test]
async fn under_reconcile_the_question_outlives_whoever_gives_the_intent_back() {
    let world = World::new();
    let holder = running(vanish(&world, OnLost::Reconcile, true).await);
    assert!(holder.ask_first());
    drop(holder);
    world.settle().await;
    assert_eq!(world.phase("k").await, Phase::Stored(State::Open));
    let begun = world.engine.begin(call("k", policy(OnLost::Reconcile))).await.unwrap();
    assert!(running(begun).ask_first());
}

/// C13: work that panics leaves what a dropped holder leaves, and says why.
#[tokio::test]
async fn work_that_panics_leaves_it_unknown() {
    let world = World::new();
    let engine = world.engine.clone();
    let work = tokio::spawn(async move {
        let begun = engine.begin(call("k", policy(OnLost::Hold))).await.unwrap();
        let holder = running(begun);
        holder.start().await.unwrap();
        panic!("the work panics");
    });
    assert!(work.await.unwrap_err().is_panic());
    world.settle().await;
    let record = world.record("k").await.unwrap();
    assert_eq!((record.state, record.reason.as_deref()), (State::Unknown, Some("panicked")));
}

/// Work that is cancelled by its task leaves what a dropped holder leaves.
#[tokio::test]
async fn work_that_is_cancelled_leaves_it_unknown() {
    let world = World::new();
    let engine = world.engine.clone();
    let work = tokio::spawn(async move {
        let begun = engine.begin(call("k", policy(OnLost::Hold))).await.unwrap();
        let holder = running(begun);
        holder.start().await.unwrap();
        std::future::pending::<()>().await;
        drop(holder);
    });
    world.settle().await;
    work.abort();
    world.settle().await;
    assert_eq!(world.phase("k").await, Phase::Stored(State::Unknown));
}

/// A handle on the work keeps nothing alive: only the holder counts.
#[tokio::test]
async fn a_handle_of_the_work_keeps_no_lease() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    let held = holder.held();
    drop(holder);
    world.settle().await;
    assert_eq!(world.phase("k").await, Phase::Stored(State::Open));
    drop(held);
}

/// C67: a holder that cannot say what happened is followed by what the policy says.
#[tokio::test]
async fn a_holder_in_doubt_is_followed_by_what_the_policy_says() {
    for (on_lost, code) in [(OnLost::Hold, Some("unknown")), (OnLost::Rerun, None)] {
        let world = World::new();
        let holder = world.hold("k", policy(on_lost)).await;
        holder.start().await.unwrap();
        holder.may_have_acted("upstream-reset").await.unwrap();
        let begun = world.engine.begin(call("k", policy(on_lost))).await.unwrap();
        match (begun, code) {
            (Begun::Refused(refusal), Some(code)) => assert_eq!(refusal.code(), code),
            (Begun::Run(next), None) => assert!(!next.ask_first()),
            (begun, _) => panic!("{on_lost:?}: {begun:?}"),
        }
    }
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Reconcile)).await;
    holder.may_have_acted("upstream-reset").await.unwrap();
    let begun = world.engine.begin(call("k", policy(OnLost::Reconcile))).await.unwrap();
    assert!(running(begun).ask_first());
}

/// An open transaction that holds the key keeps a lease from being ended: it is ended when that is over,
/// and whoever cannot say is not told that it was before.
#[tokio::test]
async fn a_lease_that_cannot_be_ended_for_a_transaction_is_ended_after_it() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Reconcile)).await;
    holder.start().await.unwrap();
    world.store.next(Verb::Renew, Fault::LockTaken);
    let ended_later = tokio::spawn(holder.may_have_acted("upstream-reset"));
    world.settle().await;
    assert!(!ended_later.is_finished());
    world.clock.run(Duration::from_secs(1)).await;
    ended(ended_later).await.unwrap();
    let begun = world.engine.begin(call("k", policy(OnLost::Reconcile))).await.unwrap();
    assert!(running(begun).ask_first());
}

/// C65: what had no effect runs again.
#[tokio::test]
async fn a_released_intent_runs_again() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    holder.start().await.unwrap();
    holder.release("upstream-503").await.unwrap();
    assert_eq!(world.record("k").await.unwrap().reason.as_deref(), Some("upstream-503"));
    running(world.engine.begin(call("k", policy(OnLost::Hold))).await.unwrap());
    assert_eq!(world.engine.stats().released, 1);
}

/// C25, C68: a final failure is replayed, and is not success.
#[tokio::test]
async fn a_final_failure_is_replayed() {
    let world = World::new();
    let refusal = Outcome::new(409, "out of stock");
    world.hold("k", policy(OnLost::Hold)).await.fail(refusal.clone()).await.unwrap();
    let begun = world.engine.begin(call("k", policy(OnLost::Hold))).await.unwrap();
    assert_eq!(replayed(begun), refusal);
    assert_eq!(world.phase("k").await, Phase::Stored(State::Failed));
}

/// An end is stored though nobody waits for it.
#[tokio::test]
async fn an_end_that_nobody_waits_for_is_stored() {
    let world = World::new();
    drop(world.hold("done", policy(OnLost::Hold)).await.complete(created()));
    drop(world.hold("open", policy(OnLost::Hold)).await.release("no-effect"));
    drop(world.hold("unknown", policy(OnLost::Hold)).await.may_have_acted("reset"));
    world.settle().await;
    for (key, state) in [("done", State::Done), ("open", State::Open), ("unknown", State::Unknown)]
    {
        assert_eq!(world.phase(key).await, Phase::Stored(state), "{key}");
    }
    assert_eq!(world.engine.holding(), 0);
}

/// Two ends by one permit: the first is kept, and the second is shown it.
#[tokio::test]
async fn the_end_that_came_first_is_shown() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    let first = Finish {
        kind: FinishKind::Done,
        outcome: Some(created()),
        reason: None,
        replay_for: policy(OnLost::Hold).replay_for,
        remember_for: policy(OnLost::Hold).remember_for,
    };
    world.memory.complete(holder.permit().clone(), first).await.unwrap();
    match holder.complete(Outcome::new(500, "second")).await.unwrap() {
        Ended::Before(record) => assert_eq!(record.outcome, Some(created())),
        Ended::Stored => panic!("the second end was not stored"),
    }
}

/// A completion after an operator's word is refused, told to the caller and counted.
#[tokio::test]
async fn a_completion_after_a_resolution_is_told() {
    let world = World::new();
    let permit = world.crash("k").await;
    world.clock.advance(crate::world::LEASE);
    let begun = world.engine.begin(call("k", policy(OnLost::Hold))).await.unwrap();
    assert_eq!(refused(begun).code(), "unknown");
    let ask = ResolveAsk {
        resolve_id: [1; 16],
        token: permit.token,
        fence: permit.fence,
        verdict: Verdict::Done(created()),
        settle_for: crate::world::LEASE,
        force: false,
        replay_for: policy(OnLost::Hold).replay_for,
        remember_for: policy(OnLost::Hold).remember_for,
    };
    let actor = Actor { name: "ada".into(), note: "asked the bank".into() };
    world.engine.resolve(id("k"), ask, actor).await.unwrap();
    let begun = world.engine.begin(call("k", policy(OnLost::Hold))).await.unwrap();
    assert_eq!(replayed(begun), created());
}

/// An outcome larger than its store keeps is done all the same: without its body, or its headers.
#[tokio::test]
async fn an_outcome_that_is_too_large_is_kept_without_its_body() {
    let world = World::new();
    let large = vec![7; Outcome::BODY_MAX + 1];
    let outcome = Outcome::new(201, large).header("etag", "\"7\"").pointer("payment", "pay_7");
    let ended = world.hold("k", policy(OnLost::Hold)).await.complete(outcome).await.unwrap();
    assert_eq!(ended, Ended::Stored);
    let kept = world.record("k").await.unwrap().outcome.unwrap();
    assert_eq!((kept.status, &kept.body, kept.headers.len()), (201, &Body::NotKept, 1));
    assert!(kept.pointer.is_some());
}

/// Texts for tracing are cut to their bounds, between two characters: no run fails for its reason.
#[tokio::test]
async fn a_long_reason_is_cut() {
    let world = World::new();
    let mut long = call("k", policy(OnLost::Hold));
    long.claimed_by = Some("é".repeat(200).into());
    let holder = running(world.engine.begin(long).await.unwrap());
    holder.release(&"ß".repeat(1_000)).await.unwrap();
    let record = world.record("k").await.unwrap();
    assert_eq!(record.claimed_by, Some("é".repeat(127).into()));
    assert_eq!(record.reason, Some("ß".repeat(127).into()));
}

/// A stale release is told.
#[tokio::test]
async fn a_release_of_an_ended_permit_is_told() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Rerun)).await;
    world.clock.advance(crate::world::LEASE);
    let _next = running(world.other().begin(call("k", policy(OnLost::Rerun))).await.unwrap());
    assert!(matches!(holder.release("no-effect").await, Err(Error::Stale)));
    assert_eq!(world.engine.stats().released, 0);
}
