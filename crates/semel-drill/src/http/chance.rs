//! Chance that can be had again: everything drawn follows from one seed.

use std::time::Duration;

use semel_testkit::entropy::split_mix;

/// A sequence of numbers that follows from its seed.
#[derive(Clone, Debug)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// Starts the sequence of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Draws a seed that nobody knows.
    ///
    /// # Errors
    ///
    /// Fails if the system gives no chance.
    pub fn fresh_seed() -> Result<u64, getrandom::Error> {
        getrandom::u64()
    }

    /// Draws the next number.
    pub const fn next(&mut self) -> u64 {
        split_mix(&mut self.state)
    }

    /// Draws a number below `bound`, which is at least 1.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.next() % if bound == 0 { 1 } else { bound }
    }

    /// Draws a time up to `longest`.
    pub fn up_to(&mut self, longest: Duration) -> Duration {
        let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX - 1);
        Duration::from_micros(self.below(micros + 1))
    }
}

/// Waits that grow, and that no two clients share: full jitter, from a few milliseconds to two seconds.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    chance: Chance,
    longest: Duration,
}

impl Backoff {
    const LONGEST: Duration = Duration::from_secs(2);

    pub(crate) const fn new(chance: Chance) -> Self {
        Self { chance, longest: Duration::from_millis(20) }
    }

    /// Returns how long to wait now; never less than the server asked for.
    pub(crate) fn next(&mut self, asked: Option<Duration>) -> Duration {
        let wait = self.chance.up_to(self.longest);
        self.longest = (self.longest * 2).min(Self::LONGEST);
        wait.max(asked.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same() {
        let drawn = |seed| {
            let mut chance = Chance::new(seed);
            [chance.next(), chance.next(), chance.next()]
        };
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }

    #[test]
    fn a_wait_is_never_shorter_than_was_asked_for() {
        let mut backoff = Backoff::new(Chance::new(1));
        let asked = Duration::from_secs(3);
        assert!((0..9).all(|_| backoff.next(Some(asked)) == asked));
        assert!((0..99).all(|_| backoff.next(None) <= Backoff::LONGEST));
    }
}
