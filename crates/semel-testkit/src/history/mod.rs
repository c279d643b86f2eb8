//! What was done and what was acknowledged, and whether the promises held.
//!
//! Effects are counted where they happen, such as rows or charges, never by the answers. An answer
//! counts as acknowledged when the caller has all of it. [`History::check`] says which promise was
//! broken; a history that nobody could break proves nothing, so the tests break each one.
//!
//! There are two ways to keep one. Where little is known of what happens inside, as with a system of
//! other processes, asks, effects and answers are noted by intent ([`History::asked`],
//! [`History::effect`], [`History::acknowledged`]) and judged at the end. Where each ask can be
//! followed, as in the simulation, it is noted as one ([`History::ask`]) together with the store's
//! time, and every answer is judged when it is heard: refusals too, and retention.

mod asks;
#[cfg(test)]
mod tests;

pub use asks::{Ask, Said, Terms};

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use semel::{IntentId, Outcome, Timestamp, outcome::Body};

use asks::Asks;

/// What a caller was told, as far as it can be compared.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Told {
    /// The status.
    pub status: u16,
    /// The exact bytes of the body.
    pub body: Bytes,
}

/// The status, and the start of the body on one line.
impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = String::from_utf8_lossy(&self.body);
        let body: String = body.chars().filter(|c| !c.is_control()).take(200).collect();
        write!(f, "{} {body}", self.status)
    }
}

impl From<&Outcome> for Told {
    fn from(outcome: &Outcome) -> Self {
        let body = match &outcome.body {
            Body::Kept(bytes) => bytes.clone(),
            Body::NotKept => Bytes::new(),
        };
        Self { status: outcome.status, body }
    }
}

/// How the intents of a history may end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Promise {
    /// One effect at most; none or one where nobody can say (`hold`).
    AtMostOnce,
    /// One effect exactly for every intent that was asked for (`rerun` over keyed steps).
    ExactlyOnce,
    /// Any number of effects, since each carries a key of its own downstream.
    Keyed,
}

/// A broken promise.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Broken {
    /// Two callers of one intent were told different final answers.
    Differs {
        /// The intent.
        id: IntentId,
        /// What was told first.
        first: Told,
        /// What was told later.
        later: Told,
    },
    /// Somebody was granted an intent whose outcome others had been told of and that is remembered.
    Again(IntentId),
    /// Somebody was told of an outcome that nobody tried to store.
    Invented {
        /// The intent.
        id: IntentId,
        /// What was told.
        told: Told,
    },
    /// An acknowledged success has no effect behind it.
    Lost(IntentId),
    /// An acknowledged intent is not replayed afterwards, or not as it was told.
    NotReplayed {
        /// The intent.
        id: IntentId,
        /// What the store replays, if anything.
        replayed: Option<Told>,
    },
    /// Somebody was granted, or told, what was asked for with other content under the same key.
    OtherContent(IntentId),
    /// An intent never comes to an end.
    Stuck(IntentId),
    /// Somebody was granted an intent while another holder could believe in its lease.
    TwoHolders(IntentId),
    /// An intent that had to be done was not.
    Undone(IntentId),
    /// An intent had more than one effect.
    Twice {
        /// The intent.
        id: IntentId,
        /// How many.
        effects: usize,
    },
    /// A caller was given an answer that was true at no instant of its ask.
    Untrue {
        /// The intent.
        id: IntentId,
        /// What is untrue about it.
        why: Untrue,
    },
}

/// What is untrue about an answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Untrue {
    /// Forgotten, and nothing was finished long enough ago.
    Forgotten,
    /// In progress, and nobody can have held it.
    InProgress,
    /// A mismatch, and nobody asked for other content.
    Mismatch,
    /// A replay past the time for which outcomes are replayed.
    Outlived,
    /// Unknown, and no holder can have been lost.
    Unknown,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Differs { id, first, later } => {
                write!(f, "{id}: told {first} first and {later} later")
            }
            Self::Lost(id) => write!(f, "{id}: acknowledged, and no effect is there"),
            Self::NotReplayed { id, replayed } => {
                write!(f, "{id}: acknowledged, and ")?;
                match replayed {
                    Some(told) => write!(f, "{told} is replayed"),
                    None => f.write_str("nothing is replayed"),
                }
            }
            Self::Again(id) => {
                write!(f, "{id}: granted though its outcome was told and is remembered")
            }
            Self::Invented { id, told } => write!(f, "{id}: told {told}, which nobody stored"),
            Self::OtherContent(id) => write!(f, "{id}: granted or told what has other content"),
            Self::Stuck(id) => write!(f, "{id}: never comes to an end"),
            Self::TwoHolders(id) => write!(f, "{id}: granted while another believed in its lease"),
            Self::Untrue { id, why } => write!(f, "{id}: an untrue answer: {why:?}"),
            Self::Undone(id) => write!(f, "{id}: asked for, and never done"),
            Self::Twice { id, effects } => write!(f, "{id}: {effects} effects"),
        }
    }
}

impl Broken {
    /// Returns the intent of which it was promised.
    #[must_use]
    pub const fn id(&self) -> &IntentId {
        match self {
            Self::Again(id)
            | Self::Differs { id, .. }
            | Self::Invented { id, .. }
            | Self::Lost(id)
            | Self::NotReplayed { id, .. }
            | Self::OtherContent(id)
            | Self::Stuck(id)
            | Self::Twice { id, .. }
            | Self::TwoHolders(id)
            | Self::Undone(id)
            | Self::Untrue { id, .. } => id,
        }
    }

    fn untrue(id: &IntentId, why: Untrue) -> Self {
        Self::Untrue { id: id.clone(), why }
    }
}

#[derive(Debug, Default)]
struct Intent {
    effects: usize,
    told: Vec<Told>,
    in_doubt: bool,
}

/// A record of what many callers asked, did and were told. Cheap to share by reference.
#[derive(Debug, Default)]
pub struct History {
    intents: Mutex<BTreeMap<IntentId, Intent>>,
    asks: Mutex<Asks>,
}

impl History {
    /// Notes that an intent was asked for, whatever came of it.
    pub fn asked(&self, id: &IntentId) {
        self.lock().entry(id.clone()).or_default();
    }

    /// Notes an effect, where it happens.
    pub fn effect(&self, id: &IntentId) {
        self.lock().entry(id.clone()).or_default().effects += 1;
    }

    /// Sets how many effects are there, counted where they are kept, as rows are after a restart.
    pub fn effects(&self, id: &IntentId, count: usize) {
        self.lock().entry(id.clone()).or_default().effects = count;
    }

    /// Returns how many effects were noted.
    #[must_use]
    pub fn count(&self, id: &IntentId) -> usize {
        self.lock().get(id).map_or(0, |intent| intent.effects)
    }

    /// Notes a final answer that a caller has whole.
    pub fn acknowledged(&self, id: &IntentId, told: Told) {
        self.lock().entry(id.clone()).or_default().told.push(told);
    }

    /// Notes that the last word on an intent is "nobody can say": it need not be done.
    pub fn in_doubt(&self, id: &IntentId) {
        self.lock().entry(id.clone()).or_default().in_doubt = true;
    }

    /// Returns every intent that was asked for.
    #[must_use]
    pub fn ids(&self) -> Vec<IntentId> {
        let mut ids = self.asks().ids();
        ids.extend(self.lock().keys().cloned());
        ids.sort();
        ids.dedup();
        ids
    }

    /// Says which promises were broken, by asks too. `replay` tells what an intent replays now, if anything.
    #[must_use]
    pub fn check(
        &self,
        promise: Promise,
        mut replay: impl FnMut(&IntentId) -> Option<Told>,
    ) -> Vec<Broken> {
        let intents = self.lock();
        let mut broken = self.broken();
        for (id, intent) in &*intents {
            let Intent { effects, told, in_doubt } = intent;
            if *effects > 1 && promise != Promise::Keyed {
                broken.push(Broken::Twice { id: id.clone(), effects: *effects });
            }
            if promise == Promise::ExactlyOnce && *effects == 0 && !in_doubt {
                broken.push(Broken::Undone(id.clone()));
            }
            let Some(first) = told.first() else { continue };
            // A final refusal of the operation itself is an outcome without an effect.
            if *effects == 0 && (200..400).contains(&first.status) {
                broken.push(Broken::Lost(id.clone()));
            }
            if let Some(later) = told.iter().find(|later| *later != first) {
                let (first, later) = (first.clone(), later.clone());
                broken.push(Broken::Differs { id: id.clone(), first, later });
            }
            let replayed = replay(id);
            if replayed.as_ref() != Some(first) {
                broken.push(Broken::NotReplayed { id: id.clone(), replayed });
            }
        }
        broken
    }

    /// Says which promise the asks of this history are judged by; [`Promise::AtMostOnce`] unless said.
    pub fn promise(&self, promise: Promise) {
        self.asks().promise(promise);
    }

    /// Notes that somebody asks from now on.
    pub fn ask(&self, id: &IntentId, terms: Terms, now: Timestamp) -> Ask {
        self.asks().ask(id, terms, now)
    }

    /// Notes that an ask runs: it was granted at `by` at the latest, and its holder believes in its lease
    /// until an instant; the store's first instant says that nothing is known of that.
    pub fn runs(&self, ask: Ask, by: Timestamp, believes_until: Timestamp) {
        self.asks().runs(ask, by, believes_until);
    }

    /// Notes an effect of a run, where it happens. Under [`Promise::Keyed`] effects with equal keys are
    /// one: their provider tells them from others.
    pub fn acts(&self, ask: Ask, key: u64) {
        self.asks().acts(ask, key);
    }

    /// Notes that a run ends, before it says so.
    pub fn ends(&self, ask: Ask, said: Said, now: Timestamp) {
        self.asks().ends(ask, said, now);
    }

    /// Notes that the end of a run was acknowledged, or that it holds nothing any more.
    pub fn over(&self, ask: Ask, now: Timestamp) {
        self.asks().over(ask, now);
    }

    /// Notes that whoever asked or ran went away without a definite word.
    pub fn left(&self, ask: Ask, now: Timestamp) {
        self.asks().left(ask, now);
    }

    /// Notes that an ask was told a final outcome.
    pub fn told(&self, ask: Ask, told: &Told, now: Timestamp) {
        self.asks().told(ask, told, now);
    }

    /// Notes that an ask was refused with a code of [`Refusal::code`](semel::Refusal::code).
    pub fn refused(&self, ask: Ask, code: &str, now: Timestamp) {
        self.asks().refused(ask, code, now);
    }

    /// Notes that somebody's open transaction has the lock of a name.
    pub fn locked(&self, id: &IntentId) {
        self.asks().locked(id);
    }

    /// Notes, before it is said, that a doubt about a run is resolved: with an outcome, or as not done.
    pub fn resolves(
        &self,
        id: &IntentId,
        run: Option<Ask>,
        told: Option<Told>,
        terms: Terms,
        now: Timestamp,
    ) {
        self.asks().resolves(id, run, told, terms, now);
    }

    /// Notes that an intent does not come to an end though everything works.
    pub fn stuck(&self, id: &IntentId) {
        self.asks().stuck(id);
    }

    /// Notes that the store's time went back, as by a restart.
    pub fn turned_back(&self, from: Timestamp, to: Timestamp) {
        self.asks().turned_back(from, to);
    }

    /// Returns what the asks have broken so far.
    #[must_use]
    pub fn broken(&self) -> Vec<Broken> {
        self.asks().broken().to_vec()
    }

    /// Returns what the asks have broken after the first `seen` times.
    #[must_use]
    pub fn broken_since(&self, seen: usize) -> Vec<Broken> {
        self.asks().broken().get(seen..).unwrap_or_default().to_vec()
    }

    fn asks(&self) -> MutexGuard<'_, Asks> {
        self.asks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<IntentId, Intent>> {
        self.intents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
