//! The time this store decides by: the host's, carried over restarts by what was persisted.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use semel::clock::{Clock, HostTime, Timestamp};

/// How far the wall clock must move against the store's time to be told of.
const JUMP: Duration = Duration::from_secs(1);

/// The store's time.
#[derive(Debug)]
pub(crate) struct Time {
    clock: Arc<dyn Clock>,
    host: HostTime,
    /// By how much the wall was ahead or behind when it was last told of, in microseconds.
    told: Mutex<i64>,
}

impl Time {
    pub(crate) fn new(clock: Arc<dyn Clock>, persisted: Timestamp) -> Self {
        let host = HostTime::new(&*clock, persisted);
        let time = Self { clock, host, told: Mutex::new(0) };
        *time.told.lock().unwrap_or_else(PoisonError::into_inner) = time.ahead();
        time
    }

    /// Returns the time now.
    pub(crate) fn now(&self) -> Timestamp {
        self.host.now(&*self.clock)
    }

    /// Moves forward to what another process persisted.
    pub(crate) fn observe(&self, persisted: Timestamp) {
        self.host.observe(&*self.clock, persisted);
    }

    /// Logs when the wall clock has jumped. Nothing is decided by it.
    pub(crate) fn watch(&self) {
        let ahead = self.ahead();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if u128::from(ahead.abs_diff(*told)) > JUMP.as_micros() {
            let by_us = ahead.saturating_sub(*told);
            tracing::warn!(by_us, "the wall clock jumped; the store's time goes on as before");
            *told = ahead;
        }
    }

    fn ahead(&self) -> i64 {
        let (wall, now) = (self.clock.wall().as_micros(), self.now().as_micros());
        let by = i64::try_from(wall.abs_diff(now)).unwrap_or(i64::MAX);
        if wall < now { -by } else { by }
    }
}
