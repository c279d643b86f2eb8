//! What holds for one consumer: what it is remembered by, for how long, and when a message is parked.
//!
//! The defaults, all in one place:
//!
//! | setting | default |
//! |---|---|
//! | `by` | ids |
//! | `remember_for` | 30 d |
//! | `attempts_max` | 8 |
//! | `park_after` | 60 s |
//! | `backoff`, doubled up to `backoff_max` | 1 s, 60 s |

use std::time::Duration;

use thiserror::Error;

use super::{message::Consumer, source::SourceCapabilities};
use crate::backoff::Backoff;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What a consumer knows a copy by.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum By {
    /// The ids of messages: each is remembered, with its content and what its run recorded. Knows copies
    /// that the producer made, and those of any source.
    #[default]
    Ids,
    /// The position of an ordered log: one number per consumer and log, whatever its length. Knows only
    /// what the log itself repeats; a producer's second copy is another message. Nothing is recorded.
    Positions,
}

/// What holds for one consumer.
///
/// ```
/// use std::time::Duration;
/// use semel::inbox::{Consumer, InboxPolicy};
/// let policy = InboxPolicy {
///     attempts_max: 3,
///     ..InboxPolicy::new(Consumer::new("billing.on-order-placed")?)
/// };
/// assert!(policy.check().is_ok());
/// # Ok::<(), semel::NameError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct InboxPolicy {
    /// Whose messages they are.
    pub consumer: Consumer,
    /// What it knows a copy by.
    pub by: By,
    /// How long a message is remembered after it was handled: at least as long as its source may
    /// deliver it again. 1 s to 100 years.
    pub remember_for: Duration,
    /// How often a message is run, at least, before it is parked. At least 1.
    pub attempts_max: u32,
    /// How long after its first counted attempt a message is parked, at the earliest.
    pub park_after: Duration,
    /// How long after its first failure a message is run again; doubled for each further one. 1 ms to
    /// 1 h.
    pub backoff: Duration,
    /// The longest pause before a message is run again. `backoff` to 12 h.
    pub backoff_max: Duration,
}

impl InboxPolicy {
    /// Makes the policy of a consumer with the defaults.
    #[must_use]
    pub const fn new(consumer: Consumer) -> Self {
        Self {
            consumer,
            by: By::Ids,
            remember_for: Duration::from_secs(30 * 24 * 60 * 60),
            attempts_max: 8,
            park_after: Duration::from_secs(60),
            backoff: Duration::from_secs(1),
            backoff_max: Duration::from_secs(60),
        }
    }

    /// Checks the bounds.
    ///
    /// # Errors
    ///
    /// Names the setting that lies outside of its bounds.
    pub fn check(&self) -> Result<(), InboxError> {
        let outside = |setting, within: bool| match within {
            true => Ok(()),
            false => Err(InboxError::Bounds { setting }),
        };
        let (second, milli) = (Duration::from_secs(1), Duration::from_millis(1));
        outside("remember_for", (second..=36_525 * DAY).contains(&self.remember_for))?;
        outside("attempts_max", self.attempts_max > 0)?;
        outside("park_after", self.park_after <= 365 * DAY)?;
        outside("backoff", (milli..=Duration::from_secs(3_600)).contains(&self.backoff))?;
        outside("backoff_max", (self.backoff..=DAY / 2).contains(&self.backoff_max))
    }

    /// Checks that the memory outlasts what a source may deliver again, and that the source has what
    /// the consumer knows copies by.
    ///
    /// # Errors
    ///
    /// Says what does not fit; nothing may be consumed then.
    pub fn check_source(&self, source: &SourceCapabilities) -> Result<(), InboxError> {
        self.check()?;
        if self.by == By::Positions {
            // A position is never forgotten, so there is no horizon to outlast.
            return if source.logs {
                Ok(())
            } else {
                Err(InboxError::NoLogs { origin: source.name })
            };
        }
        match source.horizon {
            Some(horizon) if horizon <= self.remember_for => Ok(()),
            horizon => Err(InboxError::Horizon {
                origin: source.name,
                horizon,
                remember_for: self.remember_for,
            }),
        }
    }

    /// How long a message rests after its failed attempt of this number, without chance in it.
    #[must_use]
    pub fn backoff_after(&self, attempts: u32) -> Duration {
        Backoff { first: self.backoff, max: self.backoff_max }.longest(attempts)
    }

    /// Whether a message is to be parked that was run this often, the first time this long ago.
    #[must_use]
    pub fn parks(&self, attempts: u32, since_first: Duration) -> bool {
        attempts >= self.attempts_max && since_first >= self.park_after
    }
}

/// A consumer cannot be started; nothing was consumed.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum InboxError {
    /// A setting lies outside of its bounds.
    #[error("the setting {setting} of an inbox lies outside of its bounds")]
    Bounds {
        /// Which.
        setting: &'static str,
    },
    /// The source may deliver a message again after it was forgotten.
    #[error("messages are remembered for {remember_for:?}, and {origin} may deliver one again {}", lasting(.horizon))]
    Horizon {
        /// The name of the source.
        origin: &'static str,
        /// How long it may deliver a message again; `None`: for ever.
        horizon: Option<Duration>,
        /// How long the consumer remembers.
        remember_for: Duration,
    },
    /// A consumer that knows copies by positions needs a source with ordered logs.
    #[error("{origin} has no ordered logs: let the consumer know copies by their ids")]
    NoLogs {
        /// The name of the source.
        origin: &'static str,
    },
}

impl InboxError {
    /// Returns the stable code of this error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Bounds { .. } => "inbox-bounds",
            Self::Horizon { .. } => "inbox-horizon",
            Self::NoLogs { .. } => "inbox-no-logs",
        }
    }
}

fn lasting(horizon: &Option<Duration>) -> String {
    horizon.map_or_else(
        || "for ever: say after which time it does not, or know copies by positions".to_owned(),
        |horizon| format!("for {horizon:?}: raise remember_for"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> InboxPolicy {
        InboxPolicy::new(Consumer::new("billing").unwrap())
    }

    /// A memory of days, asked to outlast a source's horizon of days.
    fn code(remembered: u32, horizon: Option<u32>) -> Option<&'static str> {
        let policy = InboxPolicy { remember_for: remembered * DAY, ..policy() };
        let mut source = SourceCapabilities::new("sqs");
        source.horizon = horizon.map(|days| days * DAY);
        policy.check_source(&source).err().map(|error| error.code())
    }

    #[test]
    fn a_memory_shorter_than_the_source_redelivers_is_refused() {
        assert_eq!(code(13, Some(14)), Some("inbox-horizon"));
        assert_eq!(code(30, None), Some("inbox-horizon"));
        assert_eq!(code(14, Some(14)), None);
    }

    #[test]
    fn positions_need_an_ordered_log_and_no_horizon() {
        let policy = InboxPolicy { by: By::Positions, ..policy() };
        let mut source = SourceCapabilities::new("kafka");
        assert_eq!(policy.check_source(&source).unwrap_err().code(), "inbox-no-logs");
        source.logs = true;
        assert_eq!(policy.check_source(&source), Ok(()));
    }

    #[test]
    fn a_message_rests_twice_as_long_after_each_failure_up_to_the_longest() {
        let seconds = |attempts| policy().backoff_after(attempts).as_secs();
        assert_eq!([1, 2, 3, 6, 7, 100].map(seconds), [1, 2, 4, 32, 60, 60]);
    }

    #[test]
    fn parking_needs_attempts_and_elapsed_time() {
        let parks = |attempts, seconds| policy().parks(attempts, Duration::from_secs(seconds));
        assert_eq!([parks(7, 600), parks(100, 59), parks(8, 60)], [false, false, true]);
    }

    #[test]
    fn a_setting_outside_of_its_bounds_is_named() {
        for (setting, policy) in [
            ("attempts_max", InboxPolicy { attempts_max: 0, ..policy() }),
            ("backoff", InboxPolicy { backoff: Duration::ZERO, ..policy() }),
            ("backoff_max", InboxPolicy { backoff_max: Duration::ZERO, ..policy() }),
            ("remember_for", InboxPolicy { remember_for: Duration::ZERO, ..policy() }),
        ] {
            assert_eq!(policy.check(), Err(InboxError::Bounds { setting }));
        }
    }
}
