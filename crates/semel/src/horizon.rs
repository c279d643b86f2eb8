//! How long a retry may still come: the largest of what the parts around an operation may do.
//!
//! Retention is computed from horizons, never guessed: an operation declares what may still deliver
//! its intents, and a memory shorter than the longest of them is refused. A broker's deduplication
//! window is never a horizon: it says how long the broker remembers, not how long it redelivers.

use std::time::Duration;

use crate::policy::PolicyError;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The horizons an operation declares. Zero means that there is none.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Horizons {
    /// The longest time over which a client retries, its largest back-off included.
    pub client: Duration,
    /// The longest time for which a queue redelivers.
    pub queue: Duration,
    /// The longest time for which a webhook's sender redelivers.
    pub webhook: Duration,
    /// The longest time after which an operator still replays by hand.
    pub operator: Duration,
    /// The longest time until a payment is settled for good.
    pub settlement: Duration,
    /// The operation moves money, so that a settlement horizon is demanded.
    pub money: bool,
}

impl Horizons {
    /// Returns the longest horizon and its name.
    #[must_use]
    pub fn longest(&self) -> (&'static str, Duration) {
        [
            ("client", self.client),
            ("operator", self.operator),
            ("queue", self.queue),
            ("settlement", self.settlement),
            ("webhook", self.webhook),
        ]
        .into_iter()
        .max_by_key(|(_, span)| *span)
        .unwrap_or(("client", Duration::ZERO))
    }

    /// Checks that a retention outlasts every horizon.
    ///
    /// # Errors
    ///
    /// Returns the horizon that needs more, or that a money operation declares no settlement.
    pub fn check(&self, remember_for: Duration) -> Result<(), PolicyError> {
        if self.money && self.settlement.is_zero() {
            return Err(PolicyError::Settlement);
        }
        let (horizon, needed) = self.longest();
        if remember_for < needed {
            return Err(PolicyError::TooShort { remember_for, horizon, needed });
        }
        Ok(())
    }
}

/// Returns the published redelivery horizon of a well-known sender.
///
/// Amazon SQS keeps messages for at most 14 days, Google Pub/Sub for at most 31; GitHub allows
/// redelivery for 3 days, Stripe retries for up to 3 days; PayPal keeps payment keys for 45 days.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(semel::horizon::named("sqs"), Some(Duration::from_secs(14 * 86_400)));
/// assert_eq!(semel::horizon::named("carrier-pigeon"), None);
/// ```
#[must_use]
pub fn named(sender: &str) -> Option<Duration> {
    let days = match sender {
        "github" | "stripe" => 3,
        "sqs" => 14,
        "pubsub" => 31,
        "paypal" => 45,
        _ => return None,
    };
    Some(days * DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_shorter_than_a_horizon_is_refused_and_names_it() {
        let horizons = Horizons { queue: 14 * DAY, client: DAY, ..Horizons::default() };
        assert_eq!(
            horizons.check(7 * DAY),
            Err(PolicyError::TooShort {
                remember_for: 7 * DAY,
                horizon: "queue",
                needed: 14 * DAY
            })
        );
        assert_eq!(horizons.check(14 * DAY), Ok(()));
    }

    #[test]
    fn an_operation_that_moves_money_declares_its_settlement() {
        let horizons = Horizons { money: true, ..Horizons::default() };
        assert_eq!(horizons.check(365 * DAY), Err(PolicyError::Settlement));
    }
}
