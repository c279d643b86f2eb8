//! What a relay does within which bounds.

use std::time::Duration;

use super::RelayError;

/// The bounds and waits of a relay; they hold for each destination by itself.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct RelayPolicy {
    /// How long a leadership lasts unless it is renewed, which is done three times in this time. A
    /// destination whose publisher may take long gets a longer one: at least three times
    /// [`publish_wait`](crate::outbox::PublisherCapabilities::publish_wait). Default 30 s.
    pub lease: Duration,
    /// The longest pause between two reads while nothing comes: 1 ms to 10 s. Default 100 ms.
    pub poll_idle: Duration,
    /// How many events are in hand at most. Default 10,000.
    pub events_max: usize,
    /// About how many bytes of events are in hand at most. Default 32 MiB.
    pub bytes_max: usize,
    /// How many events are read at once at most. Default 2,000.
    pub window_max: usize,
    /// How often what was confirmed is settled while a pass goes on: a crash sends at most about this
    /// much again. Default 200 ms.
    pub settle_every: Duration,
    /// How long a lane may be stuck and hold up what is behind it in the table, before it is parked
    /// aside, from where it is sent on. Default 1 s.
    pub blocked_for: Duration,
    /// How often the destination must have refused a message for the message's own sake before its
    /// lane waits for an operator. Default 8.
    pub attempts_max: u32,
    /// How long it must have been refused besides. Default 60 s.
    pub failing_for: Duration,
    /// The first wait before something is sent again; it doubles with each failure, and each wait is
    /// drawn between nothing and all of it. Default 100 ms.
    pub retry_first: Duration,
    /// What the wait before something is sent again never exceeds, and what an open circuit waits at
    /// most by itself. Default 30 s.
    pub retry_max: Duration,
    /// What a destination may ask for at most when it says when to come again. Default 5 min.
    pub retry_after_max: Duration,
    /// How long the store may take to answer. Default 10 s.
    pub store_wait: Duration,
    /// How many parked lanes a relay keeps in mind. Past it nothing more is read for the destination,
    /// since nobody could say which lanes are shut; parked rows are still worked on. Default 100,000.
    pub parked_lanes_max: usize,
    /// Of how many lanes the last version of the aggregate is kept in mind. Default 100,000.
    pub versions_max: usize,
    /// How old the oldest event that a destination lacks may be, in hand or parked and waiting for no
    /// operator, and for how long nothing can be read, while the relay still calls itself ready. Default
    /// 30 s.
    pub oldest_max: Duration,
    /// How long the store may give no answer while the relay still calls itself ready. Default 30 s.
    pub silent_max: Duration,
    /// How long events are kept that every destination has. Default 7 days.
    pub keep_for: Duration,
    /// How often old events are looked for. Default 60 s.
    pub retain_every: Duration,
}

impl Default for RelayPolicy {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            poll_idle: Duration::from_millis(100),
            events_max: 10_000,
            bytes_max: 32 * 1024 * 1024,
            window_max: 2_000,
            settle_every: Duration::from_millis(200),
            blocked_for: Duration::from_secs(1),
            attempts_max: 8,
            failing_for: Duration::from_secs(60),
            retry_first: Duration::from_millis(100),
            retry_max: Duration::from_secs(30),
            retry_after_max: Duration::from_secs(300),
            store_wait: Duration::from_secs(10),
            parked_lanes_max: 100_000,
            versions_max: 100_000,
            oldest_max: Duration::from_secs(30),
            silent_max: Duration::from_secs(30),
            keep_for: Duration::from_secs(7 * 24 * 3_600),
            retain_every: Duration::from_secs(60),
        }
    }
}

impl RelayPolicy {
    /// Refuses what cannot be meant.
    ///
    /// # Errors
    ///
    /// Names the first bound that cannot be kept.
    pub fn check(&self) -> Result<(), RelayError> {
        let ms = Duration::from_millis;
        let bounds = [
            ("lease must be 1 s to 1 h", within(self.lease, ms(1_000), ms(3_600_000))),
            ("poll_idle must be 1 ms to 10 s", within(self.poll_idle, ms(1), ms(10_000))),
            ("events_max must be 1 to 1,000,000", within(self.events_max, 1, 1_000_000)),
            ("bytes_max must be 1 to 2^31", within(self.bytes_max, 1, 1 << 31)),
            ("window_max must be 1 to 10,000", within(self.window_max, 1, 10_000)),
            ("settle_every must be at most 10 s", self.settle_every <= ms(10_000)),
            ("blocked_for must be 10 ms to 1 h", within(self.blocked_for, ms(10), ms(3_600_000))),
            ("attempts_max must be at least 1", self.attempts_max > 0),
            (
                "retry_first must be 1 ms to retry_max",
                within(self.retry_first, ms(1), self.retry_max),
            ),
            ("retry_max must be at most 1 h", self.retry_max <= ms(3_600_000)),
            ("store_wait must be 100 ms to 5 min", within(self.store_wait, ms(100), ms(300_000))),
            ("parked_lanes_max must be at least 1", self.parked_lanes_max > 0),
            ("retain_every must be at least 10 ms", self.retain_every >= ms(10)),
        ];
        let broken = bounds.into_iter().find(|(_, holds)| !holds);
        broken.map_or(Ok(()), |(says, _)| Err(RelayError::Policy(says)))
    }

    /// The lease for a publisher that may take `publish_wait`.
    pub(super) fn lease_for(&self, publish_wait: Duration) -> Duration {
        self.lease.max(publish_wait * 3)
    }
}

fn within<T: Copy + PartialOrd>(value: T, least: T, most: T) -> bool {
    least <= value && value <= most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_cannot_be_kept_is_refused() {
        assert_eq!(RelayPolicy::default().check(), Ok(()));
        let lease = RelayPolicy { lease: Duration::ZERO, ..RelayPolicy::default() };
        assert!(lease.check().unwrap_err().to_string().contains("lease"));
        let retry = RelayPolicy { retry_first: Duration::from_secs(31), ..RelayPolicy::default() };
        assert!(retry.check().unwrap_err().to_string().contains("retry_first"));
    }

    #[test]
    fn a_lease_is_longer_than_what_is_sent_under_it() {
        let policy = RelayPolicy::default();
        assert_eq!(policy.lease_for(Duration::from_secs(5)), Duration::from_secs(30));
        assert_eq!(policy.lease_for(Duration::from_secs(30)), Duration::from_secs(90));
    }
}
