//! What holds for one operation: how long things last, and what to do when something is lost.
//!
//! The defaults, all in one place:
//!
//! | setting | default |
//! |---|---|
//! | `lease` | 30 s |
//! | `on_lost` | hold |
//! | `compare` | strict |
//! | `wait` | 10 s |
//! | `replay_for` | 24 h |
//! | `remember_for` | 30 d |
//! | `settle_for` | 60 s |
//! | `claim_timeout` | 5 s |
//! | `store_for` (how long a finish is tried) | 30 s |
//! | `durable` | yes |

use std::time::Duration;

use thiserror::Error;

use crate::{
    decide::{Compare, OnLost},
    horizon::Horizons,
    store::capability::{Capabilities, Durability},
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What holds for one operation.
///
/// ```
/// use std::time::Duration;
/// use semel::{Policy, decide::OnLost};
/// let policy = Policy { lease: Duration::from_secs(5), on_lost: OnLost::Rerun, ..Policy::default() };
/// assert!(policy.check().is_ok());
/// assert!(Policy { lease: Duration::ZERO, ..Policy::default() }.check().is_err());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// How long a holder may be believed alive without a renewal. 100 ms to 24 h.
    pub lease: Duration,
    /// What the next caller does about a lost holder.
    pub on_lost: OnLost,
    /// When fingerprints are compared.
    pub compare: Compare,
    /// How long a caller waits for another holder; zero answers at once. At most 10 min.
    pub wait: Duration,
    /// How long an outcome is replayed.
    pub replay_for: Duration,
    /// How long it is remembered that the intent was finished. Never shorter than `replay_for`.
    pub remember_for: Duration,
    /// How long after a lease's end "not done" may first be said without force.
    pub settle_for: Duration,
    /// How long a claim may take until the store is taken to be away. 10 ms to 5 min.
    pub claim_timeout: Duration,
    /// How long the end of a run is tried to be stored. At most 10 min.
    pub store_for: Duration,
    /// Whether only a durable store may serve this operation.
    pub durable: bool,
    /// What the retention must outlast.
    pub horizons: Horizons,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            on_lost: OnLost::Hold,
            compare: Compare::Strict,
            wait: Duration::from_secs(10),
            replay_for: DAY,
            remember_for: 30 * DAY,
            settle_for: Duration::from_secs(60),
            claim_timeout: Duration::from_secs(5),
            store_for: Duration::from_secs(30),
            durable: true,
            horizons: Horizons::default(),
        }
    }
}

/// Says why a policy cannot be used.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum PolicyError {
    /// A span lies outside its bounds.
    #[error("{name} is {value:?}, it must lie between {min:?} and {max:?}")]
    Bounds {
        /// The setting.
        name: &'static str,
        /// What it was set to.
        value: Duration,
        /// The smallest value.
        min: Duration,
        /// The largest value.
        max: Duration,
    },
    /// A business reference was named where none is kept.
    #[error(
        "a business reference is kept only by claims inside a transaction of PostgreSQL; claim so, or \
         name none"
    )]
    Reference,
    /// A money operation declares no settlement horizon.
    #[error("an operation that moves money must declare a settlement horizon")]
    Settlement,
    /// The retention is shorter than a declared horizon.
    #[error("remember_for is {remember_for:?}, shorter than the {horizon} horizon of {needed:?}")]
    TooShort {
        /// The retention.
        remember_for: Duration,
        /// The horizon that needs more.
        horizon: &'static str,
        /// How much it needs.
        needed: Duration,
    },
    /// The store loses what it acknowledged.
    #[error("the {store} store is volatile, and the operation is marked durable")]
    Volatile {
        /// The store's name.
        store: &'static str,
    },
}

impl PolicyError {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Bounds { .. } => "policy-bounds",
            Self::Reference => "policy-reference",
            Self::Settlement => "policy-settlement",
            Self::TooShort { .. } => "policy-retention",
            Self::Volatile { .. } => "policy-volatile",
        }
    }
}

impl Policy {
    /// Checks the bounds of every span, and the retention against the horizons.
    ///
    /// # Errors
    ///
    /// Returns the first setting that cannot be used, and why.
    pub fn check(&self) -> Result<(), PolicyError> {
        let ms = Duration::from_millis;
        let year = 366 * DAY;
        bounds("lease", self.lease, ms(100), DAY)?;
        bounds("wait", self.wait, Duration::ZERO, ms(600_000))?;
        bounds("claim_timeout", self.claim_timeout, ms(10), ms(300_000))?;
        bounds("store_for", self.store_for, ms(10), ms(600_000))?;
        bounds("settle_for", self.settle_for, Duration::ZERO, 31 * DAY)?;
        bounds("replay_for", self.replay_for, ms(100), 10 * year)?;
        bounds("remember_for", self.remember_for, self.replay_for, 100 * year)?;
        self.horizons.check(self.remember_for)
    }

    /// Checks that a store may serve this operation.
    ///
    /// # Errors
    ///
    /// Returns [`PolicyError::Volatile`] if the operation is durable and the store is not.
    pub fn check_store(&self, store: &Capabilities) -> Result<(), PolicyError> {
        if self.durable && store.durability == Durability::Volatile {
            return Err(PolicyError::Volatile { store: store.name });
        }
        Ok(())
    }
}

fn bounds(
    name: &'static str,
    value: Duration,
    min: Duration,
    max: Duration,
) -> Result<(), PolicyError> {
    if value < min || value > max {
        return Err(PolicyError::Bounds { name, value, min, max });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_can_be_used() {
        assert_eq!(Policy::default().check(), Ok(()));
    }

    #[test]
    fn a_lease_of_nothing_is_refused() {
        let policy = Policy { lease: Duration::ZERO, ..Policy::default() };
        assert_eq!(policy.check().map_err(|e| e.code()), Err("policy-bounds"));
    }

    #[test]
    fn a_durable_operation_refuses_a_volatile_store() {
        let store = Capabilities::new("memory");
        assert!(Policy::default().check_store(&store).is_err());
        assert!(Policy { durable: false, ..Policy::default() }.check_store(&store).is_ok());
    }
}
