//! What was done and what was acknowledged, and whether the promises held.
//!
//! Effects are counted where they happen, such as rows or charges, never by the answers. An answer
//! counts as acknowledged when the caller has all of it. [`History::check`] says which promise was
//! broken; a history that nobody could break proves nothing, so the tests break each one.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use semel::{IntentId, Outcome, outcome::Body};

/// What a caller was told, as far as it can be compared.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Told {
    /// The status.
    pub status: u16,
    /// The exact bytes of the body.
    pub body: Bytes,
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
    /// An acknowledged success has no effect behind it.
    Lost(IntentId),
    /// An acknowledged intent is not replayed afterwards, or not as it was told.
    NotReplayed {
        /// The intent.
        id: IntentId,
        /// What the store replays, if anything.
        replayed: Option<Told>,
    },
    /// An intent that had to be done was not.
    Undone(IntentId),
    /// An intent had more than one effect.
    Twice {
        /// The intent.
        id: IntentId,
        /// How many.
        effects: usize,
    },
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Differs { id, first, later } => {
                write!(f, "{id}: told {first:?} first and {later:?} later")
            }
            Self::Lost(id) => write!(f, "{id}: acknowledged, and no effect is there"),
            Self::NotReplayed { id, replayed } => {
                write!(f, "{id}: acknowledged, and {replayed:?} is replayed")
            }
            Self::Undone(id) => write!(f, "{id}: asked for, and never done"),
            Self::Twice { id, effects } => write!(f, "{id}: {effects} effects"),
        }
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
        self.lock().keys().cloned().collect()
    }

    /// Says which promises were broken. `replay` tells what an intent replays now, if anything.
    #[must_use]
    pub fn check(
        &self,
        promise: Promise,
        mut replay: impl FnMut(&IntentId) -> Option<Told>,
    ) -> Vec<Broken> {
        let intents = self.lock();
        let mut broken = Vec::new();
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

    fn lock(&self) -> MutexGuard<'_, BTreeMap<IntentId, Intent>> {
        self.intents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use semel::{Key, Operation, Scope, Tenant};

    use super::*;

    fn id(key: &str) -> IntentId {
        let scope = Scope::new(Tenant::new("acme").unwrap(), Operation::new("pay").unwrap());
        scope.intent(Key::new(key).unwrap())
    }

    fn told(status: u16, body: &'static str) -> Told {
        Told { status, body: body.into() }
    }

    /// One intent done and told twice, one refused for good, one that nobody can say of.
    fn sound() -> History {
        let history = History::default();
        history.effect(&id("done"));
        history.acknowledged(&id("done"), told(201, "x"));
        history.acknowledged(&id("done"), told(201, "x"));
        history.acknowledged(&id("refused"), told(402, "no"));
        history.in_doubt(&id("refused"));
        history.in_doubt(&id("doubt"));
        history
    }

    fn replay(id: &IntentId) -> Option<Told> {
        match id.key.as_str() {
            "done" => Some(told(201, "x")),
            "refused" => Some(told(402, "no")),
            _ => None,
        }
    }

    #[test]
    fn a_sound_history_breaks_nothing() {
        for promise in [Promise::AtMostOnce, Promise::ExactlyOnce] {
            assert_eq!(sound().check(promise, replay), []);
        }
    }

    /// The canary: every promise can be seen broken.
    #[test]
    fn every_broken_promise_is_seen() {
        let check = |history: &History| history.check(Promise::ExactlyOnce, replay);
        let history = sound();
        history.effect(&id("done"));
        assert_eq!(check(&history), [Broken::Twice { id: id("done"), effects: 2 }]);
        assert_eq!(
            (history.count(&id("done")), history.check(Promise::Keyed, replay)),
            (2, vec![])
        );

        let history = sound();
        history.asked(&id("asked"));
        assert_eq!(check(&history), [Broken::Undone(id("asked"))]);
        assert_eq!(history.check(Promise::AtMostOnce, replay), []);

        let history = sound();
        history.effects(&id("done"), 0);
        assert_eq!(history.check(Promise::AtMostOnce, replay), [Broken::Lost(id("done"))]);

        let history = sound();
        history.acknowledged(&id("done"), told(201, "y"));
        let (first, later) = (told(201, "x"), told(201, "y"));
        assert_eq!(check(&history), [Broken::Differs { id: id("done"), first, later }]);

        let lost = sound().check(Promise::AtMostOnce, |_| None);
        let not_replayed = |key| Broken::NotReplayed { id: id(key), replayed: None };
        assert_eq!(lost, [not_replayed("done"), not_replayed("refused")]);
        assert_eq!(sound().ids(), [id("done"), id("doubt"), id("refused")]);
    }
}
