//! The only door to time.
//!
//! A [`Clock`] is what the machine offers: a wall that may jump, and a monotonic count that may not.
//! [`HostTime`] makes of it the time an embedded store decides by. A store on a server never uses
//! this file: its server's clock decides.

use std::{
    fmt,
    sync::Mutex,
    time::{Duration, Instant, SystemTime},
};

use async_trait::async_trait;

/// An instant of a store's time, in microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The latest instant.
    pub const MAX: Self = Self(i64::MAX as u64);

    /// Makes an instant of microseconds since the Unix epoch, at most [`Timestamp::MAX`].
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        if micros > Self::MAX.0 { Self::MAX } else { Self(micros) }
    }

    /// Returns the microseconds since the Unix epoch.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Returns the instant `span` later, at most [`Timestamp::MAX`].
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        Self::from_micros(self.0.saturating_add(micros))
    }

    /// Returns how long after `earlier` this instant lies; zero if it does not.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// A reading of a monotonic clock: the time since an arbitrary start. Only differences mean
/// anything, and only inside one process.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Monotonic(Duration);

impl Monotonic {
    /// Makes a reading of the time since the clock's start.
    #[must_use]
    pub const fn from_start(since: Duration) -> Self {
        Self(since)
    }

    /// Returns the reading `span` later.
    #[must_use]
    pub const fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }

    /// Returns how long after `earlier` this reading was taken; zero if it was not.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// The clocks of one machine.
#[async_trait]
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Returns the wall clock's time, which may jump both ways.
    fn wall(&self) -> Timestamp;

    /// Reads the monotonic clock.
    fn monotonic(&self) -> Monotonic;

    /// Waits until the monotonic clock has reached `instant`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the wait and nothing else.
    async fn sleep_until(&self, instant: Monotonic);
}

/// The clocks of the operating system.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Starts the monotonic count.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn wall(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp::default().after(since)
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
    fn monotonic(&self) -> Monotonic {
        Monotonic(self.start.elapsed())
    }

    async fn sleep_until(&self, instant: Monotonic) {
        tokio::time::sleep_until((self.start + instant.0).into()).await;
    }
}

/// The time an embedded store decides by: the larger of the last persisted time and the wall clock
/// when the store was opened, carried on by the monotonic clock.
///
/// A wall clock set back or forward while the store is open changes nothing; one set back before it
/// is opened lengthens a lease by at most one lease and revives nothing, since time never falls
/// below what was persisted.
#[derive(Debug)]
pub struct HostTime {
    base: Mutex<(Timestamp, Monotonic)>,
}

impl HostTime {
    /// Takes the base: the larger of `persisted` and the wall.
    #[must_use]
    pub fn new(clock: &dyn Clock, persisted: Timestamp) -> Self {
        let wall = clock.wall();
        if wall < persisted {
            tracing::warn!(
                behind_us = persisted.as_micros() - wall.as_micros(),
                "wall clock is behind the last persisted time; the persisted time is kept"
            );
        }
        Self { base: Mutex::new((wall.max(persisted), clock.monotonic())) }
    }

    /// Returns the time now.
    pub fn now(&self, clock: &dyn Clock) -> Timestamp {
        let (base, at) = *self.base.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        base.after(clock.monotonic().since(at))
    }

    /// Moves forward to a time that another process has persisted, if that is later.
    pub fn observe(&self, clock: &dyn Clock, persisted: Timestamp) {
        let mut base = self.base.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mono = clock.monotonic();
        if base.0.after(mono.since(base.1)) < persisted {
            *base = (persisted, mono);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Still(Mutex<(u64, u64)>);

    #[async_trait]
    impl Clock for Still {
        fn wall(&self) -> Timestamp {
            Timestamp::from_micros(self.0.lock().unwrap().0)
        }
        fn monotonic(&self) -> Monotonic {
            Monotonic(Duration::from_micros(self.0.lock().unwrap().1))
        }
        async fn sleep_until(&self, _: Monotonic) {}
    }

    #[test]
    fn a_wall_set_back_revives_nothing() {
        let clock = Still::default();
        *clock.0.lock().unwrap() = (1_000, 0);
        let time = HostTime::new(&clock, Timestamp::from_micros(5_000));
        assert_eq!(time.now(&clock).as_micros(), 5_000);
        *clock.0.lock().unwrap() = (10, 7);
        assert_eq!(time.now(&clock).as_micros(), 5_007);
    }

    #[test]
    fn a_wall_set_forward_while_open_ends_no_lease() {
        let clock = Still::default();
        *clock.0.lock().unwrap() = (1_000, 0);
        let time = HostTime::new(&clock, Timestamp::default());
        *clock.0.lock().unwrap() = (3_600_000_000, 5);
        assert_eq!(time.now(&clock).as_micros(), 1_005);
    }

    #[test]
    fn time_follows_what_another_process_persisted() {
        let clock = Still::default();
        let time = HostTime::new(&clock, Timestamp::from_micros(5));
        time.observe(&clock, Timestamp::from_micros(9));
        assert_eq!(time.now(&clock).as_micros(), 9);
        time.observe(&clock, Timestamp::from_micros(3));
        assert_eq!(time.now(&clock).as_micros(), 9);
    }
}
