//! One outbox, one destination and a clock that stands still.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use semel::{
    engine::{Turn, Turns},
    outbox::{
        Destination, Event, EventId, Lane, OutboxInspect, Parked, Placed,
        memory::{MemoryOutbox, MemoryTransaction},
        relay::{DestinationHealth, Relay, RelayBuilder, RelayDestination, RelayPolicy},
        store::{DestinationState, EventFilter, ParkedFilter},
    },
};
use semel_testkit::ManualClock;

use super::{script::Script, store::Faulty};

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const HOUR: Duration = Duration::from_secs(3_600);

pub(super) struct World {
    pub(super) clock: Arc<ManualClock>,
    pub(super) outbox: MemoryOutbox,
    pub(super) store: Arc<Faulty>,
    pub(super) script: Arc<Script>,
    next: AtomicU64,
}

impl World {
    pub(super) fn new() -> Self {
        let clock = ManualClock::new();
        let outbox = MemoryOutbox::with_clock(clock.clone());
        let store = Faulty::over(outbox.clone(), clock.clone());
        let script = Script::new(clock.clone());
        Self { clock, outbox, store, script, next: AtomicU64::new(1) }
    }

    /// A relay with all defaults.
    pub(super) fn relay(&self) -> Relay {
        self.built(|_| {}, |builder| builder)
    }

    /// A relay under a changed policy.
    pub(super) fn with(&self, change: impl FnOnce(&mut RelayPolicy)) -> Relay {
        self.built(change, |builder| builder)
    }

    pub(super) fn built(
        &self,
        change: impl FnOnce(&mut RelayPolicy),
        with: impl FnOnce(RelayBuilder) -> RelayBuilder,
    ) -> Relay {
        // Hours pass in steps of the clock: fewer of them than by default.
        let mut policy = RelayPolicy::default();
        policy.poll_idle = SECOND;
        change(&mut policy);
        let destination = RelayDestination::new(to(), self.script.clone());
        let builder = Relay::builder(self.store.clone()).clock(self.clock.clone()).policy(policy);
        with(builder.destination(destination)).start().unwrap()
    }

    /// Makes an event that tells its number.
    pub(super) fn event(&self, lane: &str) -> Event {
        let nth = self.next.fetch_add(1, Ordering::Relaxed);
        let mut id = [0; 16];
        id[8..].copy_from_slice(&nth.to_be_bytes());
        let id = EventId::from_bytes(id);
        Event::new(id, self::lane(lane), format!("{nth}"), None).unwrap()
    }

    /// Appends to a transaction, and names the event.
    pub(super) fn add(&self, transaction: &mut MemoryTransaction, lane: &str) -> EventId {
        let event = self.event(lane);
        let id = event.id;
        transaction.append(event).unwrap();
        id
    }

    /// Commits an event of a lane.
    pub(super) fn commit(&self, lane: &str) -> EventId {
        self.commit_all(&[lane])[0]
    }

    /// Commits events of lanes in one transaction.
    pub(super) fn commit_all(&self, lanes: &[&str]) -> Vec<EventId> {
        let mut transaction = self.outbox.begin();
        let ids = lanes.iter().map(|lane| self.add(&mut transaction, lane)).collect();
        transaction.commit().unwrap();
        ids
    }

    /// Commits an event of each of so many lanes in one transaction.
    pub(super) fn commit_lanes(&self, count: usize) {
        let mut transaction = self.outbox.begin();
        for nth in 0..count {
            self.add(&mut transaction, &format!("lane-{nth}"));
        }
        transaction.commit().unwrap();
    }

    pub(super) async fn run(&self, span: Duration) {
        self.clock.run(span).await;
    }

    /// What is parked, as `lane:kind:state`.
    pub(super) async fn parked(&self) -> Vec<String> {
        let named = |row: &Parked| {
            let event = &row.placed.event;
            format!("{}:{}:{}", event.lane.id(), event.kind, row.state.as_str())
        };
        self.parked_rows().await.iter().map(named).collect()
    }

    pub(super) async fn parked_rows(&self) -> Vec<Parked> {
        let filter = ParkedFilter { limit: 10_000, ..ParkedFilter::default() };
        self.outbox.parked(filter).await.unwrap()
    }

    pub(super) async fn kept(&self) -> Vec<Placed> {
        let filter = EventFilter { limit: 10_000, ..EventFilter::default() };
        self.outbox.events(filter).await.unwrap()
    }

    /// How the store sees the destination.
    pub(super) async fn state(&self) -> DestinationState {
        self.outbox.destinations().await.unwrap().remove(0)
    }
}

pub(super) fn to() -> Destination {
    Destination::new("bus").unwrap()
}

pub(super) fn lane(id: &str) -> Lane {
    Lane::new("order", id).unwrap()
}

/// How the only destination of a relay is doing.
pub(super) fn health(relay: &Relay) -> DestinationHealth {
    relay.destinations().remove(0)
}

/// Turns of tasks that stand still while they are frozen, as those of a stopped process do.
#[derive(Debug, Default)]
pub(super) struct Freezer {
    frozen: Mutex<(bool, Vec<Waker>)>,
}

impl Freezer {
    pub(super) fn freeze(&self) {
        self.frozen.lock().unwrap().0 = true;
    }

    pub(super) fn thaw(&self) {
        let wakers = {
            let mut frozen = self.frozen.lock().unwrap();
            frozen.0 = false;
            std::mem::take(&mut frozen.1)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// A handle that the tasks of a relay share.
#[derive(Clone, Debug)]
pub(super) struct Freeze(pub(super) Arc<Freezer>);

impl Turns for Freeze {
    fn task(&self) -> Box<dyn Turn> {
        Box::new(self.clone())
    }
}

impl Turn for Freeze {
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut frozen = self.0.frozen.lock().unwrap();
        if frozen.0 {
            frozen.1.push(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}
