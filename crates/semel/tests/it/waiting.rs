//! Waiting for another holder: woken, bounded, fair, and without asking the store again and again.

use std::{sync::Arc, time::Duration};

use semel::{Begun, Engine, Error, Phase, Refusal, State, decide::OnLost};
use semel_testkit::{Fault, Gate, Verb};
use tokio::task::JoinHandle;

use crate::world::{
    INSTANT, LEASE, World, call, created, ended, patient, policy, refused, replayed, running,
};

type Begin = JoinHandle<Result<Begun, Error>>;

fn wait(engine: &Engine, on_lost: OnLost) -> Begin {
    let engine = engine.clone();
    tokio::spawn(async move { engine.begin(call("k", patient(on_lost))).await })
}

async fn all_wait(world: &World, count: usize) {
    world.settle().await;
    assert_eq!(world.engine.waiting(), count);
}

/// C01, C04, C08, S14: duplicates that come while the work runs get its outcome when it ends.
#[tokio::test]
async fn waiters_are_woken_by_the_finish_and_replayed() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    let waiters: Vec<_> = (0..50).map(|_| wait(&world.engine, OnLost::Hold)).collect();
    all_wait(&world, 50).await;
    holder.complete(created()).await.unwrap();
    for waiter in waiters {
        assert_eq!(replayed(ended(waiter).await.unwrap()), created());
    }
    let stats = world.engine.stats();
    assert_eq!((stats.fresh, stats.waits, stats.replays, world.engine.waiting()), (1, 50, 50, 0));
}

#[tokio::test]
async fn waiters_of_one_key_are_not_woken_by_another() {
    let world = World::new();
    let _holder = world.hold("k", policy(OnLost::Hold)).await;
    let another = world.hold("another", policy(OnLost::Hold)).await;
    let waiter = wait(&world.engine, OnLost::Hold);
    all_wait(&world, 1).await;
    let claims = world.store.calls(Verb::Claim);
    another.complete(created()).await.unwrap();
    all_wait(&world, 1).await;
    assert_eq!(world.store.calls(Verb::Claim), claims);
    waiter.abort();
}

#[tokio::test]
async fn the_1001st_waiter_is_told_at_once() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    let waiters: Vec<_> = (0..1_000).map(|_| wait(&world.engine, OnLost::Hold)).collect();
    all_wait(&world, 1_000).await;
    let told = ended(wait(&world.engine, OnLost::Hold)).await.unwrap();
    assert_eq!(refused(told).code(), "in-progress");
    holder.complete(created()).await.unwrap();
    for waiter in waiters {
        replayed(ended(waiter).await.unwrap());
    }
    assert_eq!(world.engine.waiting(), 0);
}

#[tokio::test]
async fn a_caller_that_does_not_wait_is_told_at_once() {
    let world = World::new();
    let _holder = world.hold("k", policy(OnLost::Hold)).await;
    let begun = world.engine.begin(call("k", policy(OnLost::Hold))).await.unwrap();
    assert_eq!(refused(begun).code(), "in-progress");
    assert_eq!((world.engine.waiting(), world.engine.stats().waits), (0, 0));
}

#[tokio::test]
async fn a_wait_ends_after_its_time() {
    let world = World::new();
    let _holder = world.hold("k", policy(OnLost::Hold)).await;
    let waiter = wait(&world.engine, OnLost::Hold);
    all_wait(&world, 1).await;
    world.clock.run(patient(OnLost::Hold).wait - INSTANT).await;
    assert!(!waiter.is_finished());
    world.clock.run(INSTANT).await;
    assert_eq!(refused(ended(waiter).await.unwrap()).code(), "in-progress");
}

/// A release wakes one: the others need not ask only to be refused.
#[tokio::test]
async fn a_release_wakes_one() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    let waiters: Vec<_> = (0..3).map(|_| wait(&world.engine, OnLost::Hold)).collect();
    all_wait(&world, 3).await;
    let claims = world.store.calls(Verb::Claim);
    holder.release("no-effect").await.unwrap();
    all_wait(&world, 2).await;
    assert_eq!(world.store.calls(Verb::Claim), claims + 1);
    let mut next = None;
    for waiter in waiters {
        if waiter.is_finished() {
            next = Some(running(ended(waiter).await.unwrap()));
        }
    }
    next.unwrap().complete(created()).await.unwrap();
    all_wait(&world, 0).await;
    assert_eq!((world.engine.stats().fresh, world.engine.stats().replays), (2, 2));
}

/// A waiter that was woken alone and goes away before it holds passes the turn on.
#[tokio::test]
async fn a_woken_waiter_that_goes_away_passes_the_turn_on() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    let waiters = [wait(&world.engine, OnLost::Hold), wait(&world.engine, OnLost::Hold)];
    all_wait(&world, 2).await;
    let gate = Gate::shut();
    world.store.next(Verb::Claim, Fault::Delay(gate.clone()));
    holder.release("no-effect").await.unwrap();
    gate.arrived(1).await;
    // The first in line stands before the gate: it was woken, and its claim is on its way.
    waiters[0].abort();
    world.settle().await;
    let [_, second] = waiters;
    running(ended(second).await.unwrap()).complete(created()).await.unwrap();
    gate.open();
    world.clock.run(LEASE).await;
    assert_eq!(world.phase("k").await, Phase::Stored(State::Done));
}

/// A waiter that was woken alone and meets an error passes the turn on.
#[tokio::test]
async fn a_woken_waiter_that_fails_passes_the_turn_on() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    let waiters = [wait(&world.engine, OnLost::Hold), wait(&world.engine, OnLost::Hold)];
    all_wait(&world, 2).await;
    world.store.next(Verb::Claim, Fault::Fail(semel::StoreErrorKind::Damaged));
    holder.release("no-effect").await.unwrap();
    let [first, second] = waiters;
    assert_eq!(ended(first).await.unwrap_err().code(), "store-damaged");
    running(ended(second).await.unwrap());
}

/// A waiter that goes away while it waits takes no turn and no place.
#[tokio::test]
async fn a_waiter_that_goes_away_takes_no_turn() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    let waiters = [wait(&world.engine, OnLost::Hold), wait(&world.engine, OnLost::Hold)];
    all_wait(&world, 2).await;
    waiters[0].abort();
    all_wait(&world, 1).await;
    holder.release("no-effect").await.unwrap();
    let [_, second] = waiters;
    running(ended(second).await.unwrap());
}

/// A private store is not asked while its waiters wait: whoever ends the intent wakes them.
#[tokio::test]
async fn waiters_do_not_poll_a_private_store() {
    let world = World::new();
    let holder = world.hold("k", policy(OnLost::Hold)).await;
    let waiter = wait(&world.engine, OnLost::Hold);
    all_wait(&world, 1).await;
    let asked = (world.store.calls(Verb::Read), world.store.calls(Verb::Claim));
    world.clock.run(LEASE - INSTANT).await;
    assert_eq!((world.store.calls(Verb::Read), world.store.calls(Verb::Claim)), asked);
    holder.complete(created()).await.unwrap();
    replayed(ended(waiter).await.unwrap());
}

/// Where other processes share the store, one poll per process finds what they have ended.
#[tokio::test]
async fn waiters_find_the_finish_of_another_process() {
    let world = World::shared();
    let other = world.other();
    let holder = running(other.begin(call("k", policy(OnLost::Hold))).await.unwrap());
    let waiters: Vec<_> = (0..20).map(|_| wait(&world.engine, OnLost::Hold)).collect();
    all_wait(&world, 20).await;
    let reads = world.store.calls(Verb::Read);
    world.clock.run(Duration::from_secs(1)).await;
    let polls = world.store.calls(Verb::Read) - reads;
    assert!((1..=20).contains(&polls), "one poll for all, and slower and slower: {polls}");
    holder.complete(created()).await.unwrap();
    world.clock.run(Duration::from_secs(1)).await;
    for waiter in waiters {
        assert_eq!(replayed(ended(waiter).await.unwrap()), created());
    }
    let reads = world.store.calls(Verb::Read);
    world.clock.run(Duration::from_secs(60)).await;
    assert_eq!(world.store.calls(Verb::Read), reads, "nobody waits and the poll goes on");
}

/// S04: where another process has given the intent back, one waiter claims it; nobody runs unclaimed.
#[tokio::test]
async fn one_waiter_takes_up_what_another_process_gave_back() {
    let world = World::shared();
    let holder = running(world.other().begin(call("k", policy(OnLost::Hold))).await.unwrap());
    let waiters: Vec<_> = (0..5).map(|_| wait(&world.engine, OnLost::Hold)).collect();
    all_wait(&world, 5).await;
    holder.release("no-effect").await.unwrap();
    world.clock.run(Duration::from_secs(2)).await;
    assert_eq!((world.engine.holding(), world.engine.waiting()), (1, 4));
    for waiter in waiters {
        waiter.abort();
    }
}

/// A poll that fails says nothing; the next one does.
#[tokio::test]
async fn a_poll_that_fails_is_asked_again() {
    let world = World::shared();
    let holder = running(world.other().begin(call("k", policy(OnLost::Hold))).await.unwrap());
    let waiter = wait(&world.engine, OnLost::Hold);
    all_wait(&world, 1).await;
    world.store.next(Verb::Read, Fault::LoseAnswer);
    holder.complete(created()).await.unwrap();
    world.clock.run(Duration::from_secs(1)).await;
    replayed(ended(waiter).await.unwrap());
}

/// C22, M32: a waiter does not need to be told that a lease is over: it takes over at its end.
#[tokio::test]
async fn a_waiter_takes_over_at_the_end_of_the_lease() {
    let world = World::new();
    world.crash("k").await;
    let lapse = world.record("k").await.unwrap().lease.ends_at();
    let waiters = [wait(&world.engine, OnLost::Rerun), wait(&world.engine, OnLost::Rerun)];
    all_wait(&world, 2).await;
    world.clock.advance(LEASE - INSTANT);
    all_wait(&world, 2).await;
    world.clock.advance(INSTANT);
    world.settle().await;
    assert_eq!(semel::Clock::wall(&*world.clock), lapse);
    assert_eq!((world.engine.holding(), world.engine.waiting()), (1, 1));
    assert_eq!(world.engine.stats().takeovers, 1);
    waiters.into_iter().for_each(|waiter| waiter.abort());
}

/// C16, C32: under hold the waiter is told that nobody can say, and so is everybody after it.
#[tokio::test]
async fn under_hold_a_waiter_is_told_unknown_at_the_end_of_the_lease() {
    let world = World::new();
    world.crash("k").await;
    let waiters = [wait(&world.engine, OnLost::Hold), wait(&world.engine, OnLost::Hold)];
    all_wait(&world, 2).await;
    world.clock.advance(LEASE);
    for waiter in waiters {
        let refusal = refused(ended(waiter).await.unwrap());
        assert!(matches!(refusal, Refusal::Unknown { .. }), "{refusal:?}");
    }
    assert_eq!(world.engine.stats().unknown, 2);
    let again = Arc::new(world).engine.begin(call("k", policy(OnLost::Rerun))).await.unwrap();
    assert_eq!(refused(again).code(), "unknown");
}

/// A transaction that holds the key has no lease that a waiter could wait out: one claim per poll asks
/// for all of them, and not each of them again and again.
#[tokio::test]
async fn waiters_for_a_transaction_ask_once_per_poll() {
    let world = World::shared();
    world.store.always(Verb::Claim, Fault::LockTaken);
    let waiters: Vec<_> = (0..200).map(|_| wait(&world.engine, OnLost::Hold)).collect();
    all_wait(&world, 200).await;
    let claims = world.store.calls(Verb::Claim);
    for _ in 0..10 {
        world.clock.run(Duration::from_millis(50)).await;
    }
    let more = world.store.calls(Verb::Claim) - claims;
    assert!((1..=10).contains(&more), "{more} claims in ten polls");
    world.store.heal();
    world.clock.run(Duration::from_millis(50)).await;
    world.settle().await;
    assert_eq!(world.engine.stats().fresh, 1, "the one that is woken becomes the holder");
    waiters.iter().for_each(JoinHandle::abort);
}
