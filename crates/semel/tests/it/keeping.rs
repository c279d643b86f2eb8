//! Keeping a lease alive while the work runs, and telling the work when it is lost.

use std::time::Duration;

use semel::{
    Clock, Error, Holder, Policy, State, StoreErrorKind,
    decide::{OnLost, ReleaseAsk},
    store::{ReleaseAnswer, Store},
};
use semel_testkit::{Fault, Gate, Verb};

use crate::world::{
    INSTANT, LEASE, World, call, created, ended, id, policy, refused, replayed, running,
};

fn is_lost(holder: &Holder) -> bool {
    holder.lost().is_cancelled()
}

/// Ends what the heartbeat may still hold: a fault that hangs must not outlive the test.
async fn end(world: &World, holder: Holder) {
    world.store.heal();
    drop(holder);
    world.settle().await;
}

#[tokio::test]
async fn a_holder_stays_the_holder_for_many_leases() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Rerun)).await;
    holder.start().await.unwrap();
    let other = world.other();
    for _ in 0..20 {
        world.clock.run(LEASE).await;
        let begun = other.begin(call("k", policy(OnLost::Rerun))).await.unwrap();
        assert_eq!(refused(begun).code(), "in-progress");
        assert!(holder.deadline() > world.clock.monotonic());
    }
    let renewals = world.store.calls(Verb::Renew);
    assert!((55..=65).contains(&renewals), "three in a lease: {renewals}");
    holder.complete(created()).await.unwrap();
    world.clock.run(LEASE * 3).await;
    assert_eq!(world.store.calls(Verb::Renew), renewals, "an ended lease is not renewed");
}

/// Many holders are renewed in batches, not one by one.
#[tokio::test]
async fn leases_are_renewed_in_batches() {
    let world = World::new();
    let mut holders = Vec::new();
    for n in 0..100 {
        holders.push(world.hold(&format!("k{n}"), policy(OnLost::Hold)).await);
    }
    world.clock.run(LEASE * 3).await;
    assert!(world.store.calls(Verb::Renew) <= 10, "{} calls", world.store.calls(Verb::Renew));
    assert!(!holders.iter().any(is_lost));
}

/// C35: renewals are refused for two leases while the work runs. The work is told at its own
/// deadline and not before, nothing more may be begun, and once another caller was granted the
/// intent, its completion is refused and kept as a conflict.
#[tokio::test]
async fn a_holder_whose_renewals_fail_is_told_at_its_deadline() {
    for fault in [Fault::Fail(StoreErrorKind::Unavailable), Fault::HangCall, Fault::Panic] {
        let world = World::new();
        let holder = world.hold("k", policy(OnLost::Rerun)).await;
        holder.start().await.unwrap();
        world.store.always(Verb::Renew, fault.clone());
        world.clock.run(LEASE - INSTANT).await;
        assert!(!is_lost(&holder), "told too early: {fault:?}");
        assert!(world.store.calls(Verb::Renew) >= 2, "given up too early: {fault:?}");
        world.clock.run(INSTANT).await;
        assert!(is_lost(&holder), "not told at the deadline: {fault:?}");
        assert!(matches!(holder.start().await, Err(Error::Stale)));
        world.clock.run(LEASE).await;

        let begun = world.other().begin(call("k", policy(OnLost::Rerun))).await.unwrap();
        let next = running(begun);
        assert!(matches!(holder.complete(created()).await, Err(Error::Stale)));
        let stats = world.engine.stats();
        assert_eq!((stats.lost, stats.conflicts), (1, 1));
        next.complete(created()).await.unwrap();
    }
}

/// A renewal that is sent late and hangs does not keep the holder from being told in time.
#[tokio::test]
async fn a_last_renewal_that_hangs_delays_no_word() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    world.store.always(Verb::Renew, Fault::LoseCall);
    world.clock.run(LEASE * 8 / 10).await;
    world.store.always(Verb::Renew, Fault::HangCall);
    world.clock.run(LEASE * 2 / 10 - INSTANT).await;
    assert!(!is_lost(&holder));
    world.clock.run(INSTANT).await;
    assert!(is_lost(&holder), "not told at the deadline");
    end(&world, holder).await;
}

/// A lease that was lost to nobody invalidates nothing: the completion is the truth.
#[tokio::test]
async fn a_holder_that_was_told_and_not_overtaken_may_complete() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    holder.start().await.unwrap();
    world.store.always(Verb::Renew, Fault::LoseCall);
    world.clock.run(LEASE * 2).await;
    assert!(is_lost(&holder));
    let begun = world.other().begin(call("k", policy(OnLost::Hold))).await.unwrap();
    assert_eq!(refused(begun).code(), "unknown");
    holder.complete(created()).await.unwrap();
    let begun = world.other().begin(call("k", policy(OnLost::Hold))).await.unwrap();
    assert_eq!(replayed(begun), created());
}

/// One renewal that fails is asked again in time.
#[tokio::test]
async fn a_renewal_that_fails_once_loses_nothing() {
    for fault in [
        Fault::Fail(StoreErrorKind::Busy),
        Fault::HangAnswer,
        Fault::HangCall,
        Fault::LoseAnswer,
        Fault::LoseCall,
        Fault::Panic,
    ] {
        let world = World::new();
        let holder = world.hold("k", policy(OnLost::Hold)).await;
        world.store.next(Verb::Renew, fault.clone());
        world.clock.run(LEASE * 3).await;
        assert!(!is_lost(&holder), "{fault:?}");
        holder.start().await.unwrap();
        end(&world, holder).await;
    }
}

/// A store that hangs on the renewal of one lease does not keep another from being renewed.
#[tokio::test]
async fn a_renewal_that_hangs_delays_no_other() {
    let world = World::new();
    let long = Policy { lease: Duration::from_secs(3_003), ..policy(OnLost::Hold) };
    let slow = world.hold("slow", long).await;
    let quick = world.hold("quick", policy(OnLost::Hold)).await;
    world.clock.run(Duration::from_secs(1_000)).await;
    let gate = Gate::shut();
    world.store.next(Verb::Renew, Fault::Delay(gate.clone()));
    world.clock.run(Duration::from_secs(1)).await;
    gate.arrived(1).await;
    world.clock.run(LEASE * 4).await;
    assert!(!is_lost(&quick));
    assert!(quick.deadline() > world.clock.monotonic(), "its renewals stood behind another");
    gate.open();
    world.settle().await;
    assert!(!is_lost(&slow));
}

/// The work is told as soon as a renewal finds that the permit has ended.
#[tokio::test]
async fn a_holder_whose_permit_has_ended_is_told() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    holder.start().await.unwrap();
    let ask = ReleaseAsk {
        token: holder.permit().token,
        fence: None,
        compare: false,
        reason: None,
        remember_for: LEASE,
    };
    let released = world.memory.release(id("k"), ask).await.unwrap();
    assert_eq!(released.answer, ReleaseAnswer::Stored);
    world.clock.run(LEASE / 3).await;
    assert!(is_lost(&holder));
    assert!(matches!(holder.start().await, Err(Error::Stale)));
}

/// A machine that slept past the deadline renews before the effect begins.
#[tokio::test]
async fn an_effect_past_the_deadline_begins_after_a_renewal() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    world.clock.advance(LEASE * 2);
    assert!(holder.deadline() < world.clock.monotonic());
    holder.start().await.unwrap();
    assert_eq!(world.store.calls(Verb::Renew), 1);
    assert!(holder.deadline() > world.clock.monotonic());
}

/// Past the deadline no effect begins while the store is away, nor once the permit has ended.
#[tokio::test]
async fn an_effect_past_the_deadline_does_not_begin_without_a_renewal() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Rerun)).await;
    world.clock.advance(LEASE * 2);
    world.store.next(Verb::Renew, Fault::LoseCall);
    assert!(matches!(holder.start().await, Err(Error::Store(_))));
    let next = running(world.other().begin(call("k", policy(OnLost::Rerun))).await.unwrap());
    assert!(matches!(holder.start().await, Err(Error::Stale)));
    assert!(is_lost(&holder));
    drop(holder);
    world.settle().await;
    assert_eq!(world.record("k").await.unwrap().permit(), *next.permit());
}

/// A claim that was long on its way does not lengthen the holder's own deadline.
#[tokio::test]
async fn the_deadline_counts_from_before_the_claim_was_sent() {
    let world = World::new();
    let gate = Gate::shut();
    world.store.next(Verb::Claim, Fault::Delay(gate.clone()));
    let sent = world.clock.monotonic();
    let begin = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.begin(call("k", policy(OnLost::Hold))).await }
    });
    gate.arrived(1).await;
    world.clock.run(Duration::from_secs(2)).await;
    gate.open();
    let holder = running(ended(begin).await.unwrap());
    assert_eq!(holder.deadline(), sent.after(LEASE));
}

/// The handle of the work sees what the holder sees.
#[tokio::test]
async fn the_works_own_handle_tells_of_the_loss() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    let held = holder.held();
    assert_eq!(held.permit(), holder.permit());
    let work = tokio::spawn(async move {
        held.start().await.unwrap();
        held.lost().cancelled().await;
        held.start().await
    });
    world.settle().await;
    world.store.always(Verb::Renew, Fault::LoseCall);
    world.clock.run(LEASE).await;
    assert!(matches!(ended(work).await, Err(Error::Stale)));
    assert_eq!(world.record("k").await.unwrap().state, State::Running);
    end(&world, holder).await;
}

/// A process that is frozen while its renewal is answered, and thaws after the lease is over and others
/// were told so, does not begin its effect by that answer.
#[tokio::test]
async fn an_answer_that_is_read_a_lease_late_begins_no_effect() {
    let world = World::shared();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    let held = holder.held();
    world.store.always(Verb::Renew, Fault::LockTaken);
    world.clock.run(LEASE).await;
    world.store.heal();
    let gate = Gate::shut();
    world.store.next(Verb::Renew, Fault::DelayAnswer(gate.clone()));
    let start = tokio::spawn(async move { held.start().await });
    gate.arrived(1).await;
    // The answer is there before the process is frozen, and read when it thaws.
    gate.open();
    world.clock.advance(LEASE);
    let met = world.other().begin(call("k", policy(OnLost::Hold))).await.unwrap();
    assert_eq!(refused(met).code(), "unknown");
    assert!(matches!(ended(start).await, Err(Error::Stale)));
    end(&world, holder).await;
}

/// An engine that holds nothing lets go of its store.
#[tokio::test]
async fn an_engine_that_holds_nothing_lets_go_of_its_store() {
    let World { clock, memory, store, engine } = World::new();
    let gone = std::sync::Arc::downgrade(&store);
    let begun = engine.begin(call("k", policy(OnLost::Hold))).await.unwrap();
    running(begun).complete(created()).await.unwrap();
    drop((engine, store));
    clock.run(Duration::from_secs(60)).await;
    assert!(gone.upgrade().is_none(), "a task keeps the store");
    drop(memory);
}

/// An open transaction that holds the key keeps a lease from being renewed and from being taken over:
/// nothing is lost, but past the deadline no effect begins.
#[tokio::test]
async fn a_lease_that_cannot_be_renewed_for_a_transaction_is_not_lost_and_not_longer() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Rerun)).await;
    let held = holder.held();
    world.store.always(Verb::Renew, Fault::LockTaken);
    world.clock.run(LEASE + LEASE).await;
    assert!(!holder.lost().is_cancelled());
    let error = held.start().await.unwrap_err();
    assert_eq!(error.code(), "store-busy");
    world.store.heal();
    world.clock.run(LEASE / 10).await;
    held.start().await.unwrap();
    assert_eq!(world.engine.stats().lost, 0);
    holder.complete(created()).await.unwrap();
}
