//! What the clients saw: the history that is judged, and how often what came.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use semel_testkit::{History, history::Told};

use super::{
    caller::{Got, Why},
    intent,
};

/// How many faults are told in full.
const FAULTS_MAX: usize = 20;

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Watch {
    pub(super) history: History,
    requests: AtomicU64,
    told: AtomicU64,
    unknown: AtomicU64,
    again: Mutex<BTreeMap<Why, u64>>,
    wrong: Mutex<(u64, Vec<String>)>,
}

impl Watch {
    /// Counts an answer.
    pub(super) fn saw(&self, got: &Got) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        match got {
            Got::Told(_) => drop(self.told.fetch_add(1, Ordering::Relaxed)),
            Got::Unknown => drop(self.unknown.fetch_add(1, Ordering::Relaxed)),
            Got::Again(why) => {
                let mut again = self.again.lock().unwrap_or_else(PoisonError::into_inner);
                *again.entry(*why).or_default() += 1;
            }
            Got::Wrong(_) => {}
        }
    }

    /// Notes a final answer.
    pub(super) fn told(&self, number: u64, told: Told) {
        self.history.acknowledged(&intent::id(number), told);
    }

    /// Notes what must not be; the first few in full.
    pub(super) fn wrong(&self, what: String) {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.0 += 1;
        if wrong.1.len() < FAULTS_MAX {
            wrong.1.push(what);
        }
    }

    /// Returns how many requests were sent.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Returns how many final answers came.
    pub(super) fn answers(&self) -> u64 {
        self.told.load(Ordering::Relaxed)
    }

    /// Returns how often "nobody can say" was answered.
    pub(super) fn unknown(&self) -> u64 {
        self.unknown.load(Ordering::Relaxed)
    }

    /// Returns how often the same key had to be sent again, by why.
    pub(super) fn again(&self) -> BTreeMap<&'static str, u64> {
        let again = self.again.lock().unwrap_or_else(PoisonError::into_inner);
        again.iter().map(|(why, times)| (why.word(), *times)).collect()
    }

    /// Returns how much was wrong, and the first of it.
    pub(super) fn all_wrong(&self) -> (u64, Vec<String>) {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
