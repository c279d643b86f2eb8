//! Who runs, who is replayed, who is refused, and what becomes of a claim that nobody waits for.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use semel::{
    Error, Fingerprint, Phase, Policy, Reference, Refusal, State, StoreErrorKind, decide::OnLost,
    fingerprint::PlanId,
};
use semel_testkit::{Fault, Gate, Verb};

use crate::world::{
    INSTANT, LEASE, World, call, created, ended, id, other_content, policy, refused, replayed,
    running,
};

/// C49: the same call under the same name meets one record, in this process and in another.
#[tokio::test]
async fn the_first_runs_and_everybody_later_is_replayed() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    holder.start().await.unwrap();
    holder.complete(created()).await.unwrap();
    for engine in [world.engine.clone(), world.other()] {
        let begun = engine.begin(call("k", policy(OnLost::Hold))).await.unwrap();
        assert_eq!(replayed(begun), created());
    }
    let stats = world.engine.stats();
    assert_eq!((stats.fresh, stats.replays, world.engine.holding()), (1, 1, 0));
}

/// C31
#[tokio::test]
async fn a_second_caller_is_told_that_it_is_in_progress() {
    let world = World::new();
    let _holder = world.hold("k", policy(OnLost::Rerun)).await;
    let begun = world.other().begin(call("k", policy(OnLost::Rerun))).await.unwrap();
    assert!(matches!(refused(begun), Refusal::InProgress { lease_left: LEASE, .. }));
}

/// L26
#[tokio::test]
async fn other_content_is_refused_and_counted() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    let other = || world.engine.begin(other_content("k", policy(OnLost::Hold)));
    assert_eq!(refused(other().await.unwrap()), Refusal::Mismatch);
    holder.complete(created()).await.unwrap();
    assert_eq!(refused(other().await.unwrap()), Refusal::Mismatch);
    assert_eq!(world.engine.stats().mismatches, 2);
}

/// A record of an older plan is compared by that plan, which the caller makes on demand.
#[tokio::test]
async fn an_older_plan_is_asked_for_on_demand() {
    let world = World::new();
    let plan = PlanId::new([1; 8]);
    let old = Fingerprint::new(plan, [1; 32]);
    let mut first = call("k", policy(OnLost::Hold));
    first.fingerprint = old;
    running(world.engine.begin(first).await.unwrap()).complete(created()).await.unwrap();

    let mut newer = call("k", policy(OnLost::Hold));
    let begun = world.engine.begin(newer.clone()).await.unwrap();
    assert_eq!(refused(begun), Refusal::Incomparable { plan });
    newer.by_plan = Some(std::sync::Arc::new(move |asked| (asked == plan).then_some(old)));
    assert_eq!(replayed(world.engine.begin(newer).await.unwrap()), created());
}

/// C17: a lease of nothing, and a volatile store under a durable operation, run nothing.
#[tokio::test]
async fn a_policy_that_cannot_be_used_runs_nothing() {
    let world = World::new();
    let durable = Policy::default();
    let no_lease = Policy { lease: Duration::ZERO, ..policy(OnLost::Hold) };
    for (policy, code) in [(durable, "policy-volatile"), (no_lease, "policy-bounds")] {
        let error = world.engine.begin(call("k", policy)).await.unwrap_err();
        assert_eq!((error.code(), error.is_retryable()), (code, false));
    }
    assert_eq!((world.store.calls(Verb::Claim), world.record("k").await), (0, None));
}

/// C79: a store that cannot be asked runs nothing, and the key is free when it is back.
#[tokio::test]
async fn a_store_that_is_away_runs_nothing() {
    let world = World::new();
    world.store.always(Verb::Claim, Fault::LoseCall);
    let begin = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.begin(call("k", policy(OnLost::Hold))).await }
    });
    world.clock.run(Policy::default().claim_timeout + INSTANT).await;
    let error = ended(begin).await.unwrap_err();
    assert!(matches!(&error, Error::Store(e) if e.kind() == StoreErrorKind::Unavailable));
    assert!(error.is_retryable());
    world.store.heal();
    running(world.engine.begin(call("k", policy(OnLost::Hold))).await.unwrap());
}

/// A store that is away for less than `claim_timeout`, as while another takes over, is waited for: also by the first
/// call of a process, which asks for the store's time before it claims.
#[tokio::test]
async fn a_store_that_is_away_for_a_moment_is_waited_for() {
    for verb in [Verb::Read, Verb::Claim] {
        let world = World::new();
        world.store.always(verb, Fault::LoseCall);
        let begin = tokio::spawn({
            let engine = world.engine.clone();
            async move { engine.begin(call("k", policy(OnLost::Hold))).await }
        });
        world.clock.run(Policy::default().claim_timeout - Duration::from_secs(1)).await;
        assert!(!begin.is_finished(), "it is given up when {verb:?} fails");
        assert!(world.engine.stats().store_errors > 1, "it asked once");
        world.store.heal();
        world.clock.run(Duration::from_millis(20)).await;
        let holder = running(ended(begin).await.unwrap());
        holder.complete(created()).await.unwrap();
        assert_eq!(world.record("k").await.unwrap().takeovers, 0);
    }
}

/// An error that says "nothing was written" ends the call at once: there is nothing to give back.
#[tokio::test]
async fn a_definite_error_gives_nothing_back() {
    let world = World::new();
    world.store.next(Verb::Claim, Fault::Fail(StoreErrorKind::Full));
    let error = world.engine.begin(call("k", policy(OnLost::Hold))).await.unwrap_err();
    assert_eq!((error.code(), error.is_retryable()), ("store-full", false));
    world.settle().await;
    assert_eq!((world.store.calls(Verb::Claim), world.store.calls(Verb::Release)), (1, 0));
}

/// A claim that is delayed until past its `not_after` is granted to nobody.
#[tokio::test]
async fn a_claim_that_arrives_too_late_is_granted_to_nobody() {
    let world = World::new();
    let gate = Gate::shut();
    world.store.always(Verb::Claim, Fault::Delay(gate.clone()));
    let begin = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.begin(call("k", policy(OnLost::Hold))).await }
    });
    world.clock.run(Policy::default().claim_timeout * 2).await;
    assert!(ended(begin).await.is_err());
    gate.open();
    world.settle().await;
    assert_eq!(world.store.done(Verb::Claim), 2);
    assert_eq!(world.record("k").await, None);
}

/// The caller is refused, but an earlier copy of its claim is still on its way: granted after the
/// other holder has gone, it is given back.
#[tokio::test]
async fn a_ghost_of_a_refused_claim_is_given_back() {
    let world = World::new();
    let other = world.other();
    let holder = running(other.begin(call("k", policy(OnLost::Hold))).await.unwrap());
    let gate = Gate::shut();
    world.store.next(Verb::Claim, Fault::Delay(gate.clone()));
    let begin = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.begin(call("k", policy(OnLost::Hold))).await }
    });
    world.clock.run(Policy::default().claim_timeout * 3 / 4).await;
    assert_eq!(refused(ended(begin).await.unwrap()).code(), "in-progress");
    holder.release("no-effect").await.unwrap();
    gate.open();
    world.settle().await;
    assert_eq!(world.store.done(Verb::Claim), 2);
    world.clock.run(Policy::default().claim_timeout).await;
    assert_eq!(world.phase("k").await, Phase::Stored(State::Open));
    running(other.begin(call("k", policy(OnLost::Hold))).await.unwrap());
}

/// The caller held the intent and gave it back, another one had it since, and only then an earlier
/// copy of the first claim arrives: what it is granted is given back.
#[tokio::test]
async fn a_ghost_of_a_released_claim_is_given_back() {
    let world = World::new();
    let other = world.other();
    let gate = Gate::shut();
    world.store.next(Verb::Claim, Fault::Delay(gate.clone()));
    let begin = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.begin(call("k", policy(OnLost::Hold))).await }
    });
    world.clock.run(Policy::default().claim_timeout * 3 / 4).await;
    running(ended(begin).await.unwrap()).release("no-effect").await.unwrap();
    world.settle().await;
    let holder = running(other.begin(call("k", policy(OnLost::Hold))).await.unwrap());
    holder.release("no-effect").await.unwrap();
    gate.open();
    world.settle().await;
    assert_eq!(world.phase("k").await, Phase::Stored(State::Running));
    world.clock.run(Policy::default().claim_timeout).await;
    assert_eq!(world.phase("k").await, Phase::Stored(State::Open));
    assert!(world.engine.close(LEASE).await);
}

/// Polls a future `left` times at most.
struct Cut<F>(Pin<Box<F>>, usize);

impl<F: Future> Future for Cut<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.1 == 0 {
            return Poll::Ready(None);
        }
        self.1 -= 1;
        match self.0.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending if self.1 == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// A call whose future is dropped at any of its awaits leaves the key free: at once if the claim had
/// arrived, and for certain past its `not_after`.
#[tokio::test]
async fn a_call_dropped_anywhere_leaves_the_key_free() {
    for polls in 1..100 {
        let world = World::new();
        for verb in [Verb::Read, Verb::Claim, Verb::Release] {
            world.store.always(verb, Fault::Slow);
        }
        let begin = world.engine.begin(call("k", policy(OnLost::Rerun)));
        let begun = Cut(Box::pin(begin), polls).await;
        let through = begun.is_some();
        drop(begun);
        world.clock.run(Policy::default().claim_timeout + Duration::from_secs(1)).await;
        let holder = world.other().begin(call("k", policy(OnLost::Rerun))).await.unwrap();
        let record = world.record("k").await.unwrap();
        assert_eq!((record.takeovers, record.permit()), (0, running(holder).permit().clone()));
        assert!(world.engine.close(LEASE).await, "something is left over, cut at {polls}");
        if through {
            assert!(polls > 2, "begin has more awaits than {polls}");
            return;
        }
    }
    panic!("begin is never ready");
}

/// A call that is dropped while its claim is delayed: the claim arrives in time, is granted, and is
/// given back by its token; a copy that arrives later is stale.
#[tokio::test]
async fn a_delayed_claim_of_a_dropped_call_is_given_back() {
    let world = World::new();
    let gate = Gate::shut();
    world.store.next(Verb::Claim, Fault::Delay(gate.clone()));
    let begin = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.begin(call("k", policy(OnLost::Hold))).await }
    });
    gate.arrived(1).await;
    begin.abort();
    world.settle().await;
    assert_eq!(world.record("k").await, None);
    gate.open();
    world.settle().await;
    assert_eq!(world.phase("k").await, Phase::Stored(State::Running));
    world.clock.run(Policy::default().claim_timeout + Duration::from_secs(1)).await;
    assert_eq!(world.phase("k").await, Phase::Stored(State::Open));
    assert_eq!(world.engine.stats().abandoned, 1);
}

#[tokio::test]
async fn status_tells_what_is_known_and_nothing_more() {
    let world = World::new();
    let status = async || world.engine.status(id("k")).await.unwrap();
    assert_eq!(status().await.phase, Phase::Absent);
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    assert_eq!(status().await.phase, Phase::Stored(State::Running));
    holder.complete(created()).await.unwrap();
    let done = status().await;
    assert_eq!(done.record.unwrap().outcome, Some(created()));
    world.clock.advance(Policy::default().replay_for);
    assert_eq!(status().await.phase, Phase::Forgotten);
    world.clock.advance(Policy::default().remember_for);
    let over = status().await;
    assert_eq!((over.phase, over.record), (Phase::Absent, None));
}

#[tokio::test]
async fn a_store_that_hangs_does_not_hang_an_operator() {
    let world = World::new();
    world.store.always(Verb::Read, Fault::HangCall);
    let status = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.status(id("k")).await.map(|status| status.phase) }
    });
    world.clock.run(Duration::from_secs(10)).await;
    assert_eq!(ended(status).await.unwrap_err().code(), "store-unavailable");
}

/// Only a transaction can keep a reference; to ignore it would be worse than to refuse it.
#[tokio::test]
async fn a_leased_claim_refuses_a_business_reference() {
    let world = World::new();
    let named = call("k", policy(OnLost::Hold)).reference(Reference::new("order-7").unwrap());
    let error = world.engine.begin(named).await.unwrap_err();
    assert_eq!(error.code(), "policy-reference");
    assert_eq!(world.store.calls(Verb::Claim), 0);
}
