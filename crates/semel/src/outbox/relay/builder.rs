//! How a relay is put together.

use std::{collections::BTreeSet, sync::Arc};

use thiserror::Error;
use tokio::sync::{Notify, mpsc};
use tokio_util::task::TaskTracker;

use super::{
    Inner, Line, Relay,
    calls::Calls,
    driver::{Driver, Parts},
    health::Board,
    hints,
    policy::RelayPolicy,
    retention::Retention,
    routes::Routes,
    shutdown::Closing,
};
use crate::{
    clock::{Clock, SystemClock},
    engine::{Tasks, Turns},
    entropy::{Entropy, PooledEntropy},
    outbox::{
        publisher::Publisher,
        store::{Destination, Lead, OutboxHints, OutboxRetain, OutboxStore, Start},
    },
    telemetry::RelayCounters,
};

/// A destination of a relay: what goes there, and by which publisher.
#[derive(Clone, Debug)]
#[must_use]
pub struct RelayDestination {
    pub(super) destination: Destination,
    pub(super) publisher: Arc<dyn Publisher>,
    pub(super) routes: Routes,
    pub(super) start: Start,
}

impl RelayDestination {
    /// Sends everything to `destination` by `publisher`, from the oldest event that is kept.
    pub fn new(destination: Destination, publisher: Arc<dyn Publisher>) -> Self {
        Self { destination, publisher, routes: Routes::All, start: Start::Earliest }
    }

    /// Says which events go there; the default are all.
    pub fn routes(mut self, routes: Routes) -> Self {
        self.routes = routes;
        self
    }

    /// Says where the destination begins if nobody ever led it; the default is
    /// [`Start::Earliest`].
    pub const fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }
}

/// A relay cannot be made as it was described.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum RelayError {
    /// A publisher cannot do what every publisher must.
    #[error("the publisher of {0} {1}")]
    Capabilities(Destination, &'static str),
    /// It has no destination.
    #[error("a relay needs a destination")]
    NoDestination,
    /// The name of its process is empty or longer than 255 bytes.
    #[error("the owner of a relay must be 1 to 255 bytes")]
    Owner,
    /// A bound of the policy cannot be kept.
    #[error("{0}")]
    Policy(&'static str),
    /// A destination is named twice.
    #[error("the destination {0} is named twice")]
    Twice(Destination),
}

/// Puts a relay together.
#[must_use]
pub struct RelayBuilder {
    store: Arc<dyn OutboxStore>,
    owner: Box<str>,
    destinations: Vec<RelayDestination>,
    policy: RelayPolicy,
    hints: Option<Arc<dyn OutboxHints>>,
    retain: Option<Arc<dyn OutboxRetain>>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    turns: Option<Arc<dyn Turns>>,
}

impl std::fmt::Debug for RelayBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { store, owner, destinations, policy, .. } = self;
        let mut debug = f.debug_struct("RelayBuilder");
        debug.field("store", store).field("owner", owner).field("destinations", destinations);
        debug.field("policy", policy).finish_non_exhaustive()
    }
}

impl RelayBuilder {
    pub(super) fn new(store: Arc<dyn OutboxStore>) -> Self {
        Self {
            store,
            owner: "relay".into(),
            destinations: Vec::new(),
            policy: RelayPolicy::default(),
            hints: None,
            retain: None,
            clock: Arc::new(SystemClock::new()),
            entropy: Arc::new(PooledEntropy::new()),
            turns: None,
        }
    }

    /// Names the process for people who look at who leads, such as by host and process id; the
    /// default is `relay`.
    pub fn owner(mut self, owner: impl Into<Box<str>>) -> Self {
        self.owner = owner.into();
        self
    }

    /// Adds a destination.
    pub fn destination(mut self, destination: RelayDestination) -> Self {
        self.destinations.push(destination);
        self
    }

    /// Sets bounds and waits.
    pub fn policy(mut self, policy: RelayPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Says how the store tells that something was appended; without it everything works by polling.
    pub fn hints(mut self, hints: Arc<dyn OutboxHints>) -> Self {
        self.hints = Some(hints);
        self
    }

    /// Has old events dropped that every destination has; without it nothing is dropped.
    pub fn retain(mut self, retain: Arc<dyn OutboxRetain>) -> Self {
        self.retain = Some(retain);
        self
    }

    /// Sets the clocks; the default are the system's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the source of chance; the default is the system's.
    pub fn entropy(mut self, entropy: Arc<dyn Entropy>) -> Self {
        self.entropy = entropy;
        self
    }

    /// Lets `turns` say when the relay's tasks go on, for a simulation that plays every order; the
    /// default is the runtime's order.
    pub fn turns(mut self, turns: Arc<dyn Turns>) -> Self {
        self.turns = Some(turns);
        self
    }

    /// Makes the relay and starts it.
    ///
    /// # Errors
    ///
    /// Says what of it cannot be meant.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    pub fn start(self) -> Result<Relay, RelayError> {
        self.check()?;
        let tasks = Tasks::new(TaskTracker::new(), self.turns.clone());
        let (policy, closing) = (Arc::new(self.policy.clone()), Closing::default());
        let retention = Arc::new(Retention::default());
        let lines: Vec<Line> = self
            .destinations
            .iter()
            .map(|plan| self.start_line(plan.clone(), &policy, &tasks, &closing))
            .collect();
        if let Some(hints) = self.hints {
            let to = lines.iter().map(|line| Arc::clone(&line.hint)).collect();
            let (clock, entropy) = (Arc::clone(&self.clock), Arc::clone(&self.entropy));
            tasks.spawn(hints::pass_on(hints, to, clock, entropy, closing.clone()));
        }
        if let Some(retain) = self.retain {
            let (clock, policy) = (Arc::clone(&self.clock), Arc::clone(&policy));
            tasks.spawn(Arc::clone(&retention).run(retain, policy, clock, closing.clone()));
        }
        let inner = Inner { lines, retention, policy, clock: self.clock, tasks, closing };
        Ok(Relay { inner: Arc::new(inner) })
    }

    fn start_line(
        &self,
        plan: RelayDestination,
        policy: &Arc<RelayPolicy>,
        tasks: &Tasks,
        closing: &Closing,
    ) -> Line {
        let (tell, told) = mpsc::unbounded_channel();
        let board = Board::new(plan.destination.clone(), policy, self.clock.monotonic());
        let (board, hint) = (Arc::new(board), Arc::new(Notify::new()));
        let counters = Arc::new(RelayCounters::default());
        let calls = Calls {
            store: Arc::clone(&self.store),
            publisher: Arc::clone(&plan.publisher),
            clock: Arc::clone(&self.clock),
            tasks: tasks.clone(),
            told: tell,
        };
        let driver = Driver::new(Parts {
            calls,
            plan,
            owner: self.owner.clone(),
            policy: Arc::clone(policy),
            entropy: Arc::clone(&self.entropy),
            counters: Arc::clone(&counters),
            board: Arc::clone(&board),
            hint: Arc::clone(&hint),
            told,
            closing: closing.clone(),
        });
        tasks.spawn(driver.run());
        Line { board, counters, hint }
    }

    fn check(&self) -> Result<(), RelayError> {
        self.policy.check()?;
        if self.owner.is_empty() || self.owner.len() > Lead::OWNER_MAX {
            return Err(RelayError::Owner);
        }
        if self.destinations.is_empty() {
            return Err(RelayError::NoDestination);
        }
        let mut names = BTreeSet::new();
        for plan in &self.destinations {
            let can = plan.publisher.capabilities();
            let broken = [
                (can.batch_max == 0, "takes no message in a batch"),
                (can.batches_max == 0, "takes no batch"),
                (can.publish_wait.is_zero(), "gives the destination no time to answer"),
            ];
            if let Some((_, says)) = broken.into_iter().find(|(broken, _)| *broken) {
                return Err(RelayError::Capabilities(plan.destination.clone(), says));
            }
            if !names.insert(&plan.destination) {
                return Err(RelayError::Twice(plan.destination.clone()));
            }
        }
        Ok(())
    }
}
