//! What is asked of the store again and again, one call at a time.

use std::time::Duration;

use crate::{backoff::Backoff, clock::Monotonic, entropy::Entropy};

/// The waits while the store fails.
pub(super) const STORE_RETRY: Backoff =
    Backoff { first: Duration::from_millis(50), max: Duration::from_secs(5) };

/// When something is asked next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paced {
    pub(super) at: Monotonic,
    /// A call is on its way.
    pub(super) asking: bool,
    /// How often in a row the store failed.
    pub(super) failures: u32,
}

impl Paced {
    pub(super) const fn new(at: Monotonic) -> Self {
        Self { at, asking: false, failures: 0 }
    }

    pub(super) fn is_due(&self, now: Monotonic) -> bool {
        !self.asking && now >= self.at
    }

    /// When it is to be asked; never while a call is on its way.
    pub(super) fn wakes(&self) -> Option<Monotonic> {
        (!self.asking).then_some(self.at)
    }

    /// The call is back. Where the store failed it is asked again, each time after a longer wait.
    pub(super) fn answered(&mut self, failed: bool, now: Monotonic, entropy: &dyn Entropy) {
        self.asking = false;
        if failed {
            self.failures = self.failures.saturating_add(1);
            self.at = now.after(STORE_RETRY.wait(self.failures, entropy));
        } else {
            self.failures = 0;
        }
    }
}
