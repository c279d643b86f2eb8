//! Closing an engine: nothing new is granted, holders end, and everything begun is stored.

use std::time::Duration;

use semel::{Error, Phase, State, decide::OnLost};
use semel_testkit::{Fault, Gate, Verb};

use crate::world::{LEASE, World, call, created, ended, patient, policy, running};

#[tokio::test]
async fn a_closed_engine_grants_nothing() {
    let world = World::new();
    assert!(world.engine.close(Duration::ZERO).await);
    let begun = world.engine.begin(call("k", policy(OnLost::Hold))).await;
    let error = begun.unwrap_err();
    assert!(matches!(error, Error::Closed) && error.is_retryable());
    assert_eq!(world.store.calls(Verb::Claim), 0);
}

#[tokio::test]
async fn closing_waits_for_holders_and_no_longer() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    let close = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.close(LEASE * 100).await }
    });
    world.clock.run(LEASE * 3).await;
    assert!(!close.is_finished(), "a holder was not waited for");
    holder.complete(created()).await.unwrap();
    // The clock stands still from here: nothing waits for a time to pass.
    assert!(ended(close).await);
    assert_eq!(world.phase("k").await, Phase::Stored(State::Done));
}

#[tokio::test]
async fn closing_waits_for_what_is_being_stored() {
    let world = World::new();
    let gate = Gate::shut();
    world.store.next(Verb::Complete, Fault::Delay(gate.clone()));
    drop(world.hold("k", policy(OnLost::Hold)).await.complete(created()));
    let close = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.close(LEASE).await }
    });
    gate.arrived(1).await;
    world.settle().await;
    assert!(!close.is_finished());
    gate.open();
    assert!(ended(close).await);
    assert_eq!(world.phase("k").await, Phase::Stored(State::Done));
}

#[tokio::test]
async fn closing_gives_up_after_its_time() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    let close = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.close(LEASE).await }
    });
    world.clock.run(LEASE).await;
    assert!(!ended(close).await);
    // What did not end in time is still held, and may still end.
    holder.complete(created()).await.unwrap();
}

#[tokio::test]
async fn closing_tells_whoever_waits() {
    for world in [World::new(), World::shared()] {
        let holder = world.hold("k", policy(OnLost::Hold)).await;
        let waiter = tokio::spawn({
            let engine = world.engine.clone();
            async move { engine.begin(call("k", patient(OnLost::Hold))).await }
        });
        world.settle().await;
        let close = tokio::spawn({
            let engine = world.engine.clone();
            async move { engine.close(LEASE).await }
        });
        assert!(matches!(ended(waiter).await, Err(Error::Closed)));
        holder.release("shut-down").await.unwrap();
        assert!(ended(close).await);
    }
}

/// A claim that was on its way when its engine closed is given back before the engine is closed.
#[tokio::test]
async fn closing_gives_back_what_was_on_its_way() {
    let world = World::new();
    let gate = Gate::shut();
    world.store.next(Verb::Claim, Fault::DelayAnswer(gate.clone()));
    let begin = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.begin(call("k", policy(OnLost::Hold))).await }
    });
    gate.arrived(1).await;
    begin.abort();
    world.settle().await;
    let close = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.close(LEASE).await }
    });
    world.settle().await;
    gate.open();
    assert!(ended(close).await);
    assert_eq!(world.phase("k").await, Phase::Stored(State::Open));
    running(world.other().begin(call("k", policy(OnLost::Hold))).await.unwrap());
}
