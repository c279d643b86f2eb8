//! Answers that are lost on the way: the engine asks again by the same token until it knows.

use std::time::Duration;

use semel::{Error, Phase, State, StoreErrorKind, decide::OnLost, engine::Ended};
use semel_testkit::{Fault, Verb};

use crate::world::{
    INSTANT, LEASE, World, call, created, ended, other_content, policy, refused, replayed, running,
};

const STORE_FOR: Duration = Duration::from_secs(30);

/// C19: the claim was committed and its answer lost, by an error or by silence. The owner knows its
/// own claim again and runs, once.
#[tokio::test]
async fn a_claim_whose_answer_was_lost_runs_once() {
    for fault in [Fault::LoseAnswer, Fault::LoseCall, Fault::HangAnswer, Fault::HangCall] {
        let world = World::new();
        world.store.next(Verb::Claim, fault.clone());
        let begin = tokio::spawn({
            let engine = world.engine.clone();
            async move { engine.begin(call("k", policy(OnLost::Hold))).await }
        });
        world.clock.run(policy(OnLost::Hold).claim_timeout - INSTANT).await;
        let holder = running(ended(begin).await.unwrap());
        assert_eq!(world.store.calls(Verb::Claim), 2, "{fault:?}");
        assert_eq!(world.record("k").await.unwrap().permit(), *holder.permit());
        holder.complete(created()).await.unwrap();
        assert_eq!(world.engine.stats().fresh, 1);
    }
}

/// The answer to a take-over was lost: whoever must ask first whether the lost holder acted, asks.
#[tokio::test]
async fn a_take_over_whose_answer_was_lost_still_asks_first() {
    for (on_lost, asks) in [(OnLost::Reconcile, true), (OnLost::Rerun, false)] {
        let world = World::new();
        world.crash("k").await;
        world.clock.advance(LEASE);
        world.store.next(Verb::Claim, Fault::LoseAnswer);
        let begin = tokio::spawn({
            let engine = world.engine.clone();
            async move { engine.begin(call("k", policy(on_lost))).await }
        });
        world.clock.run(Duration::from_secs(1)).await;
        let holder = running(ended(begin).await.unwrap());
        assert_eq!((holder.grant(), holder.ask_first()), (None, asks));
    }
}

/// C13, C79, C80: the completion was committed and its answer lost. It is stored once.
#[tokio::test]
async fn a_completion_whose_answer_was_lost_is_stored_once() {
    for fault in [Fault::LoseAnswer, Fault::LoseCall, Fault::HangAnswer, Fault::HangCall] {
        let world = World::new();
        let holder = world.hold("k", policy(OnLost::Hold)).await;
        world.store.next(Verb::Complete, fault.clone());
        let end = tokio::spawn(holder.complete(created()));
        world.clock.run(Duration::from_secs(6)).await;
        assert_eq!(ended(end).await.unwrap(), Ended::Stored, "{fault:?}");
        assert_eq!(world.store.calls(Verb::Complete), 2);
        let begun = world.other().begin(call("k", policy(OnLost::Hold))).await.unwrap();
        assert_eq!(replayed(begun), created());
    }
}

/// A release whose answer was lost is done once.
#[tokio::test]
async fn a_release_whose_answer_was_lost_is_done_once() {
    for fault in [Fault::LoseAnswer, Fault::HangAnswer, Fault::LoseCall] {
        let world = World::new();
        let holder = world.hold("k", policy(OnLost::Hold)).await;
        world.store.next(Verb::Release, fault.clone());
        let end = tokio::spawn(holder.release("no-effect"));
        world.clock.run(Duration::from_secs(6)).await;
        ended(end).await.unwrap();
        assert_eq!((world.store.calls(Verb::Release), world.engine.stats().released), (2, 1));
        assert_eq!(world.phase("k").await, Phase::Stored(State::Open), "{fault:?}");
    }
}

/// C79: a completion that cannot be stored within its bound is told as "not stored: use the same
/// key", and a later retry meets the truth: here, that nobody can say.
#[tokio::test]
async fn a_completion_that_cannot_be_stored_leaves_it_unknown() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    holder.start().await.unwrap();
    world.store.always(Verb::Complete, Fault::LoseCall);
    let end = tokio::spawn(holder.complete(created()));
    world.clock.run(STORE_FOR - INSTANT).await;
    assert!(!end.is_finished(), "given up too early");
    world.clock.run(Duration::from_secs(2)).await;
    let error = ended(end).await.unwrap_err();
    assert!(matches!(error, Error::NotStored(_)) && error.is_retryable());
    assert_eq!((world.engine.holding(), world.engine.stats().not_stored), (0, 1));
    // While the end was tried the lease was kept; now it ends.
    world.clock.run(LEASE + INSTANT).await;
    let begun = world.engine.begin(call("k", policy(OnLost::Hold))).await.unwrap();
    assert_eq!(refused(begun).code(), "unknown");
}

/// C79: all answers of the store were lost, but the completion was stored: the retry gets it.
#[tokio::test]
async fn a_completion_that_was_stored_and_not_acknowledged_is_replayed() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    world.store.always(Verb::Complete, Fault::LoseAnswer);
    let end = tokio::spawn(holder.complete(created()));
    world.clock.run(STORE_FOR + Duration::from_secs(2)).await;
    assert!(matches!(ended(end).await, Err(Error::NotStored(_))));
    let begun = world.engine.begin(call("k", policy(OnLost::Hold))).await.unwrap();
    assert_eq!(replayed(begun), created());
}

/// A store that says for certain that it cannot is not asked again.
#[tokio::test]
async fn a_completion_that_is_refused_for_certain_is_not_asked_again() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    world.store.always(Verb::Complete, Fault::Fail(StoreErrorKind::Full));
    assert!(matches!(holder.complete(created()).await, Err(Error::NotStored(_))));
    assert_eq!(world.store.calls(Verb::Complete), 1);
}

/// A store that panics takes nobody along: what it was asked is asked again.
#[tokio::test]
async fn a_store_that_panics_takes_nobody_along() {
    let world = World::new();
    for verb in [Verb::Read, Verb::Claim, Verb::Complete, Verb::Release] {
        world.store.next(verb, Fault::Panic);
    }
    let begun = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.begin(call("k", policy(OnLost::Hold))).await }
    });
    world.clock.run(Duration::from_secs(1)).await;
    let end = tokio::spawn(running(ended(begun).await.unwrap()).complete(created()));
    world.clock.run(Duration::from_secs(1)).await;
    assert_eq!(ended(end).await.unwrap(), Ended::Stored);
}

/// A store that panics while a holder is dropped by a panic does not end the process.
#[tokio::test]
async fn a_store_that_panics_while_work_panics_ends_no_process() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    holder.start().await.unwrap();
    world.store.next(Verb::Complete, Fault::Panic);
    let work = tokio::spawn(async move {
        let _holder = holder;
        panic!("the work panics");
    });
    assert!(work.await.unwrap_err().is_panic());
    world.clock.run(Duration::from_secs(1)).await;
    assert_eq!(world.phase("k").await, Phase::Stored(State::Unknown));
}

/// A holder that went away before its effect gives back even through a store that is away for long.
#[tokio::test]
async fn a_holder_that_went_away_gives_back_when_the_store_is_back() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    for fault in [Fault::LoseCall, Fault::HangCall, Fault::Fail(StoreErrorKind::Busy)] {
        world.store.next(Verb::Release, fault);
    }
    drop(holder);
    world.clock.run(Duration::from_secs(12)).await;
    assert_eq!(world.phase("k").await, Phase::Stored(State::Open));
}

/// While the end of a run is tried, its lease is kept: nobody runs it meanwhile.
#[tokio::test]
async fn the_lease_is_kept_while_the_end_is_tried() {
    let world = World::new();
    let short = semel::Policy {
        lease: Duration::from_secs(3),
        store_for: Duration::from_secs(60),
        ..policy(OnLost::Rerun)
    };
    let holder = world.hold("k", short).await;
    world.store.always(Verb::Complete, Fault::LoseCall);
    let end = tokio::spawn(holder.complete(created()));
    for _ in 0..10 {
        world.clock.run(Duration::from_secs(3)).await;
        let begun = world.other().begin(call("k", policy(OnLost::Rerun))).await.unwrap();
        assert_eq!(refused(begun).code(), "in-progress");
    }
    world.store.heal();
    world.clock.run(Duration::from_secs(2)).await;
    assert_eq!(ended(end).await.unwrap(), Ended::Stored);
}

/// A run that may have acted, whose claim was answered only when it was asked again, and whose end could
/// not be stored in time: what is given back later for the copies of its claim forgets nothing of that.
#[tokio::test]
async fn what_is_given_back_late_is_not_said_to_have_had_no_effect() {
    let world = World::new();
    world.store.next(Verb::Claim, Fault::LoseAnswer);
    let begin = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.begin(call("k", policy(OnLost::Rerun))).await }
    });
    world.clock.run(Duration::from_secs(1)).await;
    let holder = running(ended(begin).await.unwrap());
    holder.start().await.unwrap();
    world.store.always(Verb::Release, Fault::LoseCall);
    let end = tokio::spawn(holder.may_have_acted("upstream-reset"));
    world.clock.run(STORE_FOR + Duration::from_secs(1)).await;
    assert!(matches!(ended(end).await, Err(Error::NotStored(_))));
    world.store.heal();
    world.clock.run(Duration::from_secs(2)).await;
    let policy = policy(OnLost::Rerun);
    let other = world.engine.begin(other_content("k", policy.clone())).await.unwrap();
    assert_eq!(refused(other).code(), "mismatch");
    let next = running(world.engine.begin(call("k", policy)).await.unwrap());
    assert_eq!(next.permit().incarnation, 0);
}

/// A claim that is refused for a reason until its time is over says the reason, though the last try was silent.
#[tokio::test]
async fn a_claim_that_ends_in_silence_says_what_was_said_before() {
    for kind in [StoreErrorKind::Busy, StoreErrorKind::Unavailable] {
        let world = World::new();
        world.store.next(Verb::Claim, Fault::Fail(kind));
        world.store.always(Verb::Claim, Fault::HangCall);
        let begin = tokio::spawn({
            let engine = world.engine.clone();
            async move { engine.begin(call("k", policy(OnLost::Hold))).await }
        });
        world.clock.run(policy(OnLost::Hold).claim_timeout * 2).await;
        let error = ended(begin).await.unwrap_err();
        let Error::Store(error) = error else { panic!("{error:?}") };
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "nobody knows what became of it");
        let said = std::error::Error::source(&error).unwrap().to_string();
        assert!(error.to_string().ends_with(&said), "{error} does not tell {said}");
        assert!(error.to_string().starts_with("the store did not answer in time"), "{error}");
    }
}
