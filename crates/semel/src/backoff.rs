//! How long to wait before something is tried again.

use std::time::Duration;

use crate::entropy::Entropy;

/// Waits that double up to a bound. Each is drawn by chance, so that whoever failed together does not come
/// again together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    pub(crate) first: Duration,
    pub(crate) max: Duration,
}

impl Backoff {
    /// No wait is shorter, so that nothing spins.
    const LEAST: Duration = Duration::from_millis(1);

    /// The longest wait after so many failures in a row.
    pub(crate) fn longest(&self, failures: u32) -> Duration {
        let doubled = failures.saturating_sub(1).min(31);
        self.first.saturating_mul(1 << doubled).min(self.max)
    }

    /// Draws the wait after so many failures in a row, between nothing and the longest.
    pub(crate) fn wait(&self, failures: u32, entropy: &dyn Entropy) -> Duration {
        share(self.longest(failures), entropy).max(Self::LEAST)
    }
}

/// Draws a part of a span.
pub(crate) fn share(of: Duration, entropy: &dyn Entropy) -> Duration {
    let mut drawn = [0; 4];
    drawn.copy_from_slice(&entropy.bytes()[..4]);
    let micros = (of.as_micros() * u128::from(u32::from_be_bytes(drawn))) >> 32;
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::SystemEntropy;

    /// M46: a wait never leaves its bound, however often something failed.
    #[test]
    fn no_wait_exceeds_its_bound_however_often_something_failed() {
        let backoff = Backoff { first: Duration::from_millis(100), max: Duration::from_secs(30) };
        let longest = |failures| {
            (0..200).map(|_| backoff.wait(failures, &SystemEntropy)).max().unwrap_or_default()
        };
        assert!((1..=200).map(longest).all(|wait| wait <= backoff.max));
        assert!(longest(1) <= backoff.first && longest(2) <= backoff.first * 2);
        assert!(longest(u32::MAX) > backoff.max / 2);
        assert!(backoff.wait(1, &SystemEntropy) >= Backoff::LEAST);
    }
}
