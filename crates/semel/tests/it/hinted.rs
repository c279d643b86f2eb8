//! Waiting for a run of another process whose store hints at its end: at once, and by polling where no hint comes.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use semel::{
    Begun, Engine, Error, Holder, IntentId, Store, StoreError, StoreErrorKind,
    decide::OnLost,
    store::{
        Reading,
        capability::{Hint, Notify},
        memory::MemoryStore,
    },
};
use semel_testkit::Verb;
use tokio::{sync::broadcast, task::JoinHandle};

use crate::world::{World, call, created, ended, patient, policy, replayed, running};

/// A way to hints which a test makes and counts; it tells of nothing by itself.
#[derive(Debug)]
struct Told {
    memory: Arc<MemoryStore>,
    hints: broadcast::Sender<Hint>,
    watches: AtomicUsize,
    fails: AtomicBool,
    /// Ended before the next watch reads.
    end: Mutex<Option<Holder>>,
}

#[async_trait]
impl Notify for Told {
    fn hints(&self) -> broadcast::Receiver<Hint> {
        self.hints.subscribe()
    }

    async fn watch(&self, ids: Vec<IntentId>) -> Result<Reading, StoreError> {
        self.watches.fetch_add(1, Ordering::Relaxed);
        let end = self.end.lock().unwrap().take();
        if let Some(holder) = end {
            holder.complete(created()).await.unwrap();
        }
        if self.fails.load(Ordering::Relaxed) {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "no hints today"));
        }
        self.memory.read(ids).await
    }
}

fn told() -> (World, Arc<Told>) {
    let mut made = None;
    let world = World::hinting(|memory| {
        let told = Arc::new(Told {
            memory,
            hints: broadcast::Sender::new(4),
            watches: AtomicUsize::new(0),
            fails: AtomicBool::new(false),
            end: Mutex::new(None),
        });
        made = Some(told.clone());
        told
    });
    (world, made.unwrap())
}

type Begin = JoinHandle<Result<Begun, Error>>;

fn wait(engine: &Engine, key: &'static str) -> Begin {
    let engine = engine.clone();
    tokio::spawn(async move { engine.begin(call(key, patient(OnLost::Hold))).await })
}

async fn held_elsewhere(world: &World, key: &str) -> Holder {
    running(world.other().begin(call(key, policy(OnLost::Hold))).await.unwrap())
}

/// A run in another process, and somebody here who waits for its end.
async fn awaited(world: &World) -> (Holder, Begin) {
    let holder = held_elsewhere(world, "k").await;
    let waiter = wait(&world.engine, "k");
    world.settle().await;
    (holder, waiter)
}

/// No time passes between the end and the answer, and no claim is asked but by those who were woken.
#[tokio::test]
async fn the_end_in_another_process_wakes_all_who_wait_at_once() {
    let world = World::hinting(|memory| memory);
    let holder = held_elsewhere(&world, "k").await;
    let waiters: Vec<_> = (0..20).map(|_| wait(&world.engine, "k")).collect();
    world.settle().await;
    assert_eq!(world.engine.waiting(), 20);
    let claims = world.store.calls(Verb::Claim);
    holder.complete(created()).await.unwrap();
    for waiter in waiters {
        assert_eq!(replayed(ended(waiter).await.unwrap()), created());
    }
    assert_eq!(world.store.calls(Verb::Claim) - claims, 20);
}

#[tokio::test]
async fn a_release_in_another_process_wakes_one_at_once() {
    let world = World::hinting(|memory| memory);
    let holder = held_elsewhere(&world, "k").await;
    let waiters: Vec<_> = (0..5).map(|_| wait(&world.engine, "k")).collect();
    world.settle().await;
    holder.release("no-effect").await.unwrap();
    world.settle().await;
    assert_eq!((world.engine.holding(), world.engine.waiting()), (1, 4));
    waiters.into_iter().for_each(|waiter| waiter.abort());
}

/// The end falls between the claim that met the run and the wish to be told of its end.
#[tokio::test]
async fn an_end_before_the_watch_is_read_by_the_watch() {
    let (world, told) = told();
    let holder = held_elsewhere(&world, "k").await;
    *told.end.lock().unwrap() = Some(holder);
    let waiter = wait(&world.engine, "k");
    assert_eq!(replayed(ended(waiter).await.unwrap()), created());
}

/// A key that is awaited while the poll rests is watched at once, not at the next poll.
#[tokio::test]
async fn a_key_that_joins_the_awaited_is_watched_at_once() {
    let (world, told) = told();
    let _first = held_elsewhere(&world, "first").await;
    let waiter = wait(&world.engine, "first");
    world.settle().await;
    let watches = told.watches.load(Ordering::Relaxed);
    let holder = held_elsewhere(&world, "second").await;
    *told.end.lock().unwrap() = Some(holder);
    let second = wait(&world.engine, "second");
    replayed(ended(second).await.unwrap());
    assert_eq!(told.watches.load(Ordering::Relaxed), watches + 1);
    waiter.abort();
}

#[tokio::test]
async fn an_end_whose_hint_is_lost_is_found_by_the_poll() {
    let (world, _told) = told();
    let (holder, waiter) = awaited(&world).await;
    holder.complete(created()).await.unwrap();
    world.settle().await;
    assert!(!waiter.is_finished(), "nobody told of it");
    world.clock.run(Duration::from_secs(1)).await;
    replayed(ended(waiter).await.unwrap());
}

/// A hint is believed in nothing: what it says is read.
#[tokio::test]
async fn a_hint_that_is_wrong_wakes_nobody() {
    let (world, told) = told();
    let (_holder, waiter) = awaited(&world).await;
    let asked = (world.store.calls(Verb::Read), world.store.calls(Verb::Claim));
    told.hints.send(Hint::Ended(call("another", policy(OnLost::Hold)).id)).unwrap();
    world.settle().await;
    assert_eq!((world.store.calls(Verb::Read), world.store.calls(Verb::Claim)), asked);
    told.hints.send(Hint::Ended(call("k", policy(OnLost::Hold)).id)).unwrap();
    world.settle().await;
    let (reads, claims) = asked;
    assert_eq!(
        (world.store.calls(Verb::Read), world.store.calls(Verb::Claim)),
        (reads + 1, claims)
    );
    waiter.abort();
}

/// Whoever hears that hints were missed, or that it was too slow to hear them, reads all that is awaited.
#[tokio::test]
async fn after_missed_hints_all_awaited_keys_are_read_at_once() {
    for is_slow in [false, true] {
        let (world, told) = told();
        let (holder, waiter) = awaited(&world).await;
        holder.complete(created()).await.unwrap();
        let another = Hint::Ended(call("another", policy(OnLost::Hold)).id);
        let hints = if is_slow { vec![another; 100] } else { vec![Hint::Missed] };
        for hint in hints {
            told.hints.send(hint).unwrap();
        }
        replayed(ended(waiter).await.unwrap());
    }
}

#[tokio::test]
async fn where_no_hints_can_be_asked_for_the_poll_finds_the_end() {
    let (world, told) = told();
    told.fails.store(true, Ordering::Relaxed);
    let (holder, waiter) = awaited(&world).await;
    holder.complete(created()).await.unwrap();
    world.clock.run(Duration::from_secs(1)).await;
    replayed(ended(waiter).await.unwrap());
}

/// Wishes are renewed before stores forget them, and not at every poll.
#[tokio::test]
async fn a_wish_for_hints_is_renewed_twice_a_minute_at_least() {
    let (world, told) = told();
    let (_holder, waiter) = awaited(&world).await;
    assert_eq!(told.watches.load(Ordering::Relaxed), 1);
    world.clock.run(Duration::from_secs(60)).await;
    let watches = told.watches.load(Ordering::Relaxed);
    assert!((3..=4).contains(&watches), "{watches} wishes in a minute");
    waiter.abort();
}
