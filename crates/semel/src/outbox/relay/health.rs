//! How a relay is doing, for readiness probes and metrics.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    circuit::{Circuit, CircuitState},
    policy::RelayPolicy,
    term::Term,
};
use crate::{
    clock::Monotonic,
    outbox::store::Destination,
    telemetry::{
        RELAY_CIRCUIT, RELAY_IN_HAND, RELAY_LEADING, RELAY_OLDEST, RELAY_PARKED_LANES, RelayStats,
    },
};

/// How much longer than usual nothing may be read before that counts as a lag.
const UNREAD_BORNE: Duration = Duration::from_secs(2);

/// How one destination is doing, as this relay sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct DestinationHealth {
    /// Its name.
    pub destination: Destination,
    /// Whether this relay leads it. If another does, most of the rest says nothing.
    pub leading: bool,
    /// Whether it is worth a send.
    pub circuit: CircuitState,
    /// How many events are in hand.
    pub in_hand: u64,
    /// How many of them are neither confirmed nor to be parked.
    pub waiting: u64,
    /// How long ago the oldest event was appended that the destination lacks and that waits for no
    /// operator, whether it is parked or not.
    pub oldest: Option<Duration>,
    /// For how long nothing could be read of what there is, if longer than usual: of what was appended in
    /// that time nobody knows.
    pub unread: Option<Duration>,
    /// How many lanes are parked.
    pub parked_lanes: u64,
    /// How long ago the store last answered.
    pub store_silent: Duration,
    /// What was counted.
    pub stats: RelayStats,
}

impl DestinationHealth {
    /// Returns how old the oldest event may be that the destination lacks and that waits for no operator:
    /// as old as one is that is known, or as what could not be read. An outage of the store never looks
    /// like no lag.
    #[must_use]
    pub fn lag(&self) -> Duration {
        [self.oldest, self.unread].into_iter().flatten().max().unwrap_or_default()
    }

    /// Returns every gauge with the name it has in metrics.
    #[must_use]
    pub fn gauges(&self) -> Vec<(&'static str, f64)> {
        let number = |of: u64| u32::try_from(of).map_or_else(|_| f64::from(u32::MAX), f64::from);
        vec![
            (RELAY_CIRCUIT, number(self.circuit.number())),
            (RELAY_IN_HAND, number(self.in_hand)),
            (RELAY_LEADING, number(u64::from(self.leading))),
            (RELAY_OLDEST, self.lag().as_secs_f64()),
            (RELAY_PARKED_LANES, number(self.parked_lanes)),
        ]
    }

    /// Says what keeps the destination from being served as it should.
    pub(super) fn unready(&self, policy: &RelayPolicy) -> Vec<Unready> {
        let destination = || self.destination.clone();
        let mut unready = Vec::new();
        if self.store_silent > policy.silent_max {
            let since = self.store_silent;
            unready.push(Unready::StoreSilent { destination: destination(), since });
        }
        if let Some(age) = self.oldest.filter(|age| *age > policy.oldest_max) {
            let circuit = self.circuit;
            unready.push(Unready::Lagging { destination: destination(), age, circuit });
        }
        let max = u64::try_from(policy.parked_lanes_max).unwrap_or(u64::MAX);
        if self.parked_lanes > max {
            let lanes = self.parked_lanes;
            unready.push(Unready::TooManyParked { destination: destination(), lanes, max });
        }
        let unread = self.unread.filter(|since| *since > policy.oldest_max);
        if let Some(since) = unread.filter(|_| unready.is_empty()) {
            unready.push(Unready::Unread { destination: destination(), since });
        }
        unready
    }
}

/// Why a relay is not ready.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Unready {
    /// Events wait longer than [`RelayPolicy::oldest_max`].
    Lagging {
        /// For which destination.
        destination: Destination,
        /// How long the oldest waits.
        age: Duration,
        /// Whether the destination seems to be away.
        circuit: CircuitState,
    },
    /// The store gave no answer for longer than [`RelayPolicy::silent_max`].
    StoreSilent {
        /// For which destination it was asked.
        destination: Destination,
        /// Since when.
        since: Duration,
    },
    /// More lanes are parked than can be kept in mind, and so nothing more is read.
    TooManyParked {
        /// For which destination.
        destination: Destination,
        /// How many, as far as they were counted.
        lanes: u64,
        /// How many may be.
        max: u64,
    },
    /// Nothing could be read for longer than [`RelayPolicy::oldest_max`], though the store answers.
    Unread {
        /// For which destination.
        destination: Destination,
        /// Since when.
        since: Duration,
    },
}

impl fmt::Display for Unready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lagging { destination, age, circuit } => write!(
                f,
                "events for {destination} wait for {} s; its circuit is {}",
                age.as_secs(),
                circuit.as_str()
            ),
            Self::StoreSilent { destination, since } => {
                write!(f, "the store gave no answer about {destination} for {} s", since.as_secs())
            }
            Self::TooManyParked { destination, lanes, max } => {
                write!(f, "{lanes} lanes of {destination} are parked, more than {max}; free some")
            }
            Self::Unread { destination, since } => {
                write!(f, "no events could be read for {destination} for {} s", since.as_secs())
            }
        }
    }
}

/// What the loop of a destination shows of itself.
#[derive(Debug)]
pub(super) struct Board {
    shown: Mutex<Shown>,
}

#[derive(Debug)]
struct Shown {
    health: DestinationHealth,
    /// When `oldest` was so old.
    at: Monotonic,
    heard: Monotonic,
    /// When it was last known what waits.
    known: Monotonic,
    /// For how long it is usual that nobody looks.
    unread_borne: Duration,
}

impl Board {
    pub(super) fn new(destination: Destination, policy: &RelayPolicy, now: Monotonic) -> Self {
        let health = DestinationHealth {
            destination,
            leading: false,
            circuit: CircuitState::Closed,
            in_hand: 0,
            waiting: 0,
            oldest: None,
            unread: None,
            parked_lanes: 0,
            store_silent: Duration::ZERO,
            stats: RelayStats::default(),
        };
        let unread_borne = policy.poll_idle + UNREAD_BORNE;
        let shown = Shown { health, at: now, heard: now, known: now, unread_borne };
        Self { shown: Mutex::new(shown) }
    }

    /// The store has answered.
    pub(super) fn heard(&self, now: Monotonic) {
        self.lock().heard = now;
    }

    /// What waits was read, or is with somebody else.
    pub(super) fn knows(&self, now: Monotonic) {
        self.lock().known = now;
    }

    /// What is in hand is void. What waited goes on waiting, until it is known anew.
    pub(super) fn leads(&self, leading: bool) {
        let mut shown = self.lock();
        shown.health.leading = leading;
        (shown.health.in_hand, shown.health.waiting) = (0, 0);
        shown.health.parked_lanes = 0;
    }

    /// Another leads, and tells what waits.
    pub(super) fn follows(&self, now: Monotonic) {
        let mut shown = self.lock();
        shown.health.oldest = None;
        shown.known = now;
    }

    pub(super) fn show(&self, term: &Term, circuit: &Circuit, now: Monotonic) {
        let time = term.store_time_at(now);
        let age = term.oldest().and_then(|at| time.map(|time| time.since(at)));
        let count = |of: usize| u64::try_from(of).unwrap_or(u64::MAX);
        let mut shown = self.lock();
        // A leadership that has read nothing yet knows less than the one before.
        if term.store_time.is_some() {
            (shown.at, shown.health.oldest) = (now, age);
        }
        let health = &mut shown.health;
        health.circuit = circuit.state();
        health.in_hand = count(term.ledger.len());
        health.waiting = count(term.ledger.waiting());
        health.parked_lanes = count(term.parked.len());
    }

    /// Returns what is shown, as of now.
    pub(super) fn look(&self, stats: RelayStats, now: Monotonic) -> DestinationHealth {
        let shown = self.lock();
        let mut health = shown.health.clone();
        health.oldest = health.oldest.map(|oldest| oldest + now.since(shown.at));
        let unread = now.since(shown.known);
        health.unread = (unread > shown.unread_borne).then_some(unread);
        health.store_silent = now.since(shown.heard);
        health.stats = stats;
        health
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
