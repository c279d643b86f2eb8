//! Retention of what every destination has, in bounded steps.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{policy::RelayPolicy, shutdown::Closing};
use crate::{
    clock::Clock,
    error::{StoreError, StoreErrorKind},
    outbox::store::{OutboxRetain, Retained},
};

/// How long one step may take: one that hangs must not end retention for good.
const STEP: Duration = Duration::from_secs(60);

/// The pause between two steps while more is due, so that live work comes first.
const BETWEEN: Duration = Duration::from_millis(20);

/// What retention has done, and what keeps it from doing more.
#[derive(Debug, Default)]
pub(super) struct Retention {
    pub(super) dropped: AtomicU64,
    held_up: Mutex<Option<Box<str>>>,
}

impl Retention {
    /// Returns what keeps old events from being dropped.
    pub(super) fn held_up(&self) -> Option<Box<str>> {
        self.held_up.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Retains until the relay is closed.
    pub(super) async fn run(
        self: Arc<Self>,
        retain: Arc<dyn OutboxRetain>,
        policy: Arc<RelayPolicy>,
        clock: Arc<dyn Clock>,
        closing: Closing,
    ) {
        let mut pause = Duration::ZERO;
        loop {
            let until = clock.monotonic().after(pause);
            tokio::select! {
                biased;
                () = closing.begins() => return,
                () = clock.sleep_until(until) => {}
            }
            let until = clock.monotonic().after(STEP);
            let step = tokio::select! {
                biased;
                () = closing.begins() => return,
                step = retain.retain(policy.keep_for) => step,
                () = clock.sleep_until(until) => {
                    Err(StoreError::new(StoreErrorKind::Unavailable, "the store did not answer in time"))
                }
            };
            pause = self.stepped(step, policy.retain_every);
        }
    }

    /// Notes what a step did, and says how long to pause.
    fn stepped(&self, step: Result<Retained, StoreError>, every: Duration) -> Duration {
        match step {
            Ok(Retained { dropped, more, held_up }) => {
                self.dropped.fetch_add(dropped, Ordering::Relaxed);
                let mut known = self.held_up.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(why) = held_up.as_ref().filter(|_| *known != held_up) {
                    tracing::warn!(%why, "old events are kept for now");
                }
                *known = held_up;
                if more { BETWEEN } else { every }
            }
            Err(error) => {
                tracing::warn!(%error, "retention of events could not go on");
                every
            }
        }
    }
}
