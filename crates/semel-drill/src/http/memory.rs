//! What a drill has seen that must still be true at its end.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use tokio::time::Instant;

use super::exchange::{Answer, Got, Request};
use crate::plan::Names;

/// The most intents whose effects are counted again.
const COUNTS_MAX: usize = 200;

/// A first answer, and what it answered.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) at: Instant,
    pub(crate) names: Names,
    pub(crate) request: Request,
    pub(crate) answer: Answer,
}

/// What the rules that were kept have seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    pub(crate) counts: Vec<(Names, u64)>,
    pub(crate) told: Vec<Told>,
}

/// What is remembered from one rule to the last.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    kept: Mutex<Kept>,
    erred: AtomicBool,
    looked_for_errors: AtomicBool,
    works_later: AtomicBool,
}

impl Memory {
    /// Adds what a rule has seen.
    pub(crate) fn keep(&self, seen: Kept) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let room = COUNTS_MAX.saturating_sub(kept.counts.len());
        kept.counts.extend(seen.counts.into_iter().take(room));
        kept.told.extend(seen.told);
    }

    /// Remembers what a plain request met: a server's error there says nothing about keys elsewhere.
    pub(crate) fn errs(&self, met: &Got) {
        if met.said().is_some_and(|answer| answer.status >= 500) {
            self.erred.store(true, Ordering::Relaxed);
        }
    }

    /// Says whether nobody has looked for errors of plain requests yet; from now on somebody has.
    pub(crate) fn begins_to_look_for_errors(&self) -> bool {
        !self.looked_for_errors.swap(true, Ordering::Relaxed)
    }

    /// Says whether a plain request, which nothing was asked before, has met a server's error.
    pub(crate) fn has_erred(&self) -> bool {
        self.erred.load(Ordering::Relaxed)
    }

    /// Remembers that an effect was not there yet when it was answered.
    pub(crate) fn works_later(&self) {
        self.works_later.store(true, Ordering::Relaxed);
    }

    /// Says whether an effect was not there yet when it was answered.
    pub(crate) fn has_worked_later(&self) -> bool {
        self.works_later.load(Ordering::Relaxed)
    }

    /// Returns all that was added.
    pub(crate) fn kept(&self) -> Kept {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
