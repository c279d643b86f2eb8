//! What the store's time is now, as far as this process can tell.

use std::sync::{Mutex, PoisonError};

use crate::clock::{Monotonic, Timestamp};

/// The last store time seen, and when the call that brought it was sent.
///
/// The estimate is never earlier than the store's time by more than the clocks drift apart, and
/// later by at most one round trip. Nothing is decided by it: a claim that is late by the store's own
/// time is refused, and asked again with a fresh estimate.
#[derive(Debug, Default)]
pub(super) struct TimeBase(Mutex<Option<(Timestamp, Monotonic)>>);

impl TimeBase {
    pub(super) fn saw(&self, now: Timestamp, sent: Monotonic) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, sent));
    }

    pub(super) fn estimate(&self, at: Monotonic) -> Option<Timestamp> {
        let seen = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.map(|(now, sent)| now.after(at.since(sent)))
    }
}
