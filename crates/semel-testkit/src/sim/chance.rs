//! Everything that is drawn in a world.

use std::{sync::Arc, time::Duration};

use semel::entropy::Entropy;

use crate::SeededEntropy;

/// One seed's draws. Cheap to clone; clones draw from the same series.
#[derive(Clone, Debug)]
pub(super) struct Chance(Arc<SeededEntropy>);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(Arc::new(SeededEntropy::new(seed)))
    }

    /// Draws a number below `end`.
    pub(super) fn below(&self, end: u64) -> u64 {
        self.0.below(end)
    }

    /// Draws a place among `len`.
    pub(super) fn index(&self, len: usize) -> usize {
        let end = u64::try_from(len).unwrap_or(u64::MAX);
        usize::try_from(self.below(end)).unwrap_or_default()
    }

    pub(super) fn one_in(&self, many: u64) -> bool {
        self.below(many) == 0
    }

    /// Says yes so many times in a thousand.
    pub(super) fn permille(&self, times: u64) -> bool {
        self.below(1_000) < times
    }

    pub(super) fn pick<T: Copy>(&self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    /// Draws a span up to `most`, short ones more often.
    pub(super) fn span(&self, most: Duration) -> Duration {
        let micros = u64::try_from(most.as_micros()).unwrap_or(u64::MAX).saturating_add(1);
        let within = self.pick(&[1, 1, 10, 1_000]);
        Duration::from_micros(self.below((micros / within).max(1)))
    }

    pub(super) fn bytes(&self) -> [u8; 16] {
        self.0.bytes()
    }

    /// Returns a source of tokens.
    pub(super) fn entropy(&self) -> Arc<dyn Entropy> {
        Arc::<SeededEntropy>::clone(&self.0)
    }
}
