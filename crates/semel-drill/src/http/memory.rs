//! What a drill has seen that must still be true at its end.

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use super::exchange::{Answer, Request};
use crate::plan::Names;

/// The most intents whose effects are counted again.
const COUNTS_MAX: usize = 200;

/// A first answer, and what it answered.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) at: Instant,
    pub(super) names: Names,
    pub(super) request: Request,
    pub(super) answer: Answer,
}

/// What the rules that were kept have seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    pub(super) counts: Vec<(Names, u64)>,
    pub(super) told: Vec<Told>,
}

/// What is remembered from one rule to the last.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<Kept>);

impl Memory {
    /// Adds what a rule has seen.
    pub(super) fn keep(&self, seen: Kept) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = COUNTS_MAX.saturating_sub(kept.counts.len());
        kept.counts.extend(seen.counts.into_iter().take(room));
        kept.told.extend(seen.told);
    }

    /// Returns all that was added.
    pub(super) fn kept(&self) -> Kept {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
