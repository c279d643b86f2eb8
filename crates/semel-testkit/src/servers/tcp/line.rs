//! One direction of the way between client and server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::watch;

use super::sleeper::sleep_until;

/// How long everything takes this way, and whether anything passes at all.
#[derive(Debug, Clone)]
pub(super) struct Line {
    nanos: Arc<AtomicU64>,
    open: Arc<watch::Sender<bool>>,
}

impl Line {
    pub(super) fn new() -> Self {
        Self { nanos: Arc::default(), open: Arc::new(watch::Sender::new(true)) }
    }

    pub(super) fn set_delay(&self, delay: Duration) {
        let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.store(nanos, Ordering::Relaxed);
    }

    pub(super) fn set_open(&self, open: bool) {
        self.open.send_replace(open);
    }

    /// Returns when what is sent now arrives.
    pub(super) fn arrival(&self) -> Instant {
        Instant::now() + Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }

    /// Waits until what was due at an instant may pass.
    pub(super) async fn pass(&self, due: Instant) {
        sleep_until(due).await;
        if !*self.open.borrow() {
            // The line's own sender lives as long as this.
            drop(self.open.subscribe().wait_for(|open| *open).await);
        }
    }
}
