//! What a runner is made of, and its bounds.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use super::{Inner, Runner, Settings};
use crate::{
    clock::{Clock, SystemClock},
    entropy::{Entropy, SystemEntropy},
    inbox::{
        handler::Handler,
        policy::{InboxError, InboxPolicy},
        source::Source,
        store::{InboxStore, InboxSweep},
    },
    telemetry::InboxCounters,
};

/// Makes a [`Runner`].
#[derive(Clone)]
#[must_use]
pub struct RunnerBuilder {
    policy: Arc<InboxPolicy>,
    source: Arc<dyn Source>,
    store: Arc<dyn InboxStore>,
    handler: Arc<dyn Handler>,
    sweep: Option<Arc<dyn InboxSweep>>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    settings: Settings,
}

impl std::fmt::Debug for RunnerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let settings = &self.settings;
        f.debug_struct("RunnerBuilder").field("settings", settings).finish_non_exhaustive()
    }
}

impl Runner {
    /// Begins to make a runner. The handler receives by the same policy.
    pub fn builder(
        policy: Arc<InboxPolicy>,
        source: Arc<dyn Source>,
        store: Arc<dyn InboxStore>,
        handler: Arc<dyn Handler>,
    ) -> RunnerBuilder {
        RunnerBuilder {
            policy,
            source,
            store,
            handler,
            sweep: None,
            clock: Arc::new(SystemClock::new()),
            entropy: Arc::new(SystemEntropy),
            settings: Settings {
                lanes: 16,
                batch_max: 100,
                in_flight_max: 5_000,
                drain: Duration::from_secs(10),
                parked_every: Duration::from_secs(5),
                sweep_every: Duration::from_secs(60),
            },
        }
    }
}

impl RunnerBuilder {
    /// Sets how many lanes are at work at once; the default is 16, the least 1.
    pub fn lanes(mut self, lanes: usize) -> Self {
        self.settings.lanes = lanes.max(1);
        self
    }

    /// Sets how many messages a handler gets at once that takes several; the default is 100, the least 1.
    pub fn batch_max(mut self, messages: usize) -> Self {
        self.settings.batch_max = messages.clamp(1, crate::inbox::store::READ_MAX);
        self
    }

    /// Sets how many deliveries are held at once; the default is 5,000, the least 1.
    pub fn in_flight_max(mut self, deliveries: usize) -> Self {
        self.settings.in_flight_max = deliveries.max(1);
        self
    }

    /// Sets for how long a shutdown waits for what is at work; the default is 10 s.
    pub const fn drain(mut self, drain: Duration) -> Self {
        self.settings.drain = drain;
        self
    }

    /// Sets how often parked messages are looked for that an operator wants to be run again; the default
    /// is 5 s.
    pub fn parked_every(mut self, every: Duration) -> Self {
        self.settings.parked_every = every.max(Duration::from_millis(10));
        self
    }

    /// Has what is no longer remembered forgotten, in bounded steps, as often as is said. Every process may
    /// do so; one that does is enough.
    pub fn sweep(mut self, sweep: Arc<dyn InboxSweep>, every: Duration) -> Self {
        self.sweep = Some(sweep);
        self.settings.sweep_every = every.max(Duration::from_millis(10));
        self
    }

    /// Sets the clock; the default is the system's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the source of chance; the default is the system's.
    pub fn entropy(mut self, entropy: Arc<dyn Entropy>) -> Self {
        self.entropy = entropy;
        self
    }

    /// Makes the runner.
    ///
    /// # Errors
    ///
    /// Refuses a policy that breaks its bounds or does not fit the source, such as a memory that is
    /// shorter than the time for which the source may deliver a message again.
    pub fn build(self) -> Result<Runner, InboxError> {
        let Self { policy, source, store, handler, sweep, clock, entropy, settings } = self;
        policy.check_source(&source.capabilities())?;
        let inner = Inner {
            policy,
            source,
            store,
            handler,
            sweep,
            clock,
            entropy,
            settings,
            counters: InboxCounters::default(),
            ready: AtomicBool::new(false),
            singly: AtomicBool::new(false),
        };
        Ok(Runner { inner: Arc::new(inner) })
    }
}
