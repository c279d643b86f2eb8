//! How an engine is put together.

use std::{sync::Arc, time::Duration};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Engine, Inner,
    heartbeat::Heartbeat,
    sweep,
    tasks::{Tasks, Turns},
    timebase::TimeBase,
    trouble::Trouble,
    waiter::Waiters,
};
use crate::{
    clock::{Clock, SystemClock},
    entropy::{Entropy, PooledEntropy},
    store::{
        Store,
        capability::{Bridge, Notify, Sweep, SweepBudget},
    },
    telemetry::Counters,
};

/// Puts an engine together.
#[derive(Debug)]
#[must_use]
pub struct EngineBuilder {
    store: Arc<dyn Store>,
    bridge: Option<Arc<dyn Bridge>>,
    notify: Option<Arc<dyn Notify>>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    waiters_max: usize,
    poll_every: Duration,
    turns: Option<Arc<dyn Turns>>,
}

impl EngineBuilder {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            bridge: None,
            notify: None,
            clock: Arc::new(SystemClock::new()),
            entropy: Arc::new(PooledEntropy::new()),
            waiters_max: Waiters::MAX,
            poll_every: Waiters::POLL_EVERY,
            turns: None,
        }
    }

    /// Sets the clocks; the default are the system's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Says how the store tells that an application ended a run by itself; it must be the same store.
    /// Without it no run can be bridged.
    pub fn bridge(mut self, bridge: Arc<dyn Bridge>) -> Self {
        self.bridge = Some(bridge);
        self
    }

    /// Says how the store hints at runs that end in other processes; it must be the same store. Without it
    /// whoever waits for them finds out by polling alone.
    pub fn notify(mut self, notify: Arc<dyn Notify>) -> Self {
        self.notify = Some(notify);
        self
    }

    /// Sets the source of tokens; the default is the system's.
    pub fn entropy(mut self, entropy: Arc<dyn Entropy>) -> Self {
        self.entropy = entropy;
        self
    }

    /// Sets how many callers may wait for other holders at once; the default is 1,000. Past it a
    /// caller is told at once that the intent is in progress.
    pub const fn waiters_max(mut self, waiters: usize) -> Self {
        self.waiters_max = waiters;
        self
    }

    /// Sets how often awaited keys are read, in one batch, where other processes share the store;
    /// the default is 50 ms. Between 5 ms and 10 s.
    pub fn poll_every(mut self, every: Duration) -> Self {
        self.poll_every = every.clamp(Duration::from_millis(5), Duration::from_secs(10));
        self
    }

    /// Lets `turns` say when the engine's tasks go on, for a simulation that plays every order; the
    /// default is the runtime's order.
    pub fn turns(mut self, turns: Arc<dyn Turns>) -> Self {
        self.turns = Some(turns);
        self
    }

    /// Makes the engine.
    #[must_use]
    pub fn build(self) -> Engine {
        let tasks = Tasks::new(TaskTracker::new(), self.turns);
        let closing = CancellationToken::new();
        let clock = Arc::clone(&self.clock);
        let (max, every) = (self.waiters_max, self.poll_every);
        let waiters = Waiters::new(max, every, clock, tasks.clone(), closing.clone());
        let inner = Inner {
            store: self.store,
            bridge: self.bridge,
            notify: self.notify,
            clock: self.clock,
            entropy: self.entropy,
            heartbeat: Heartbeat::default(),
            waiters,
            time: TimeBase::default(),
            trouble: Trouble::default(),
            tasks,
            closing,
            counters: Counters::default(),
        };
        Engine { inner: Arc::new(inner) }
    }
}

impl Engine {
    /// Starts a task that sweeps every `every` in steps of `budget`, until the engine is closed.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    pub fn sweep_with(&self, sweep: Arc<dyn Sweep>, every: Duration, budget: SweepBudget) {
        sweep::start(self, sweep, every.max(Duration::from_millis(10)), budget);
    }
}
