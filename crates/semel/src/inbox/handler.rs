//! What handles messages, and what it says became of one.

use std::fmt;

use async_trait::async_trait;

use super::{message::Delivery, store::Recorded};
use crate::{
    error::{Source as Cause, StoreError, StoreErrorKind},
    fingerprint::Fingerprint,
};

/// What became of a message that was handled.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Handled {
    /// The consumer had it before; what its run recorded, unless it is known by its position.
    Duplicate(Option<Recorded>),
    /// Its effect is committed now, with what was recorded.
    First(Recorded),
    /// The consumer had another message under this id. Nothing ran.
    Mismatch(Recorded),
}

/// Why a message was not handled: nothing of it is committed, or nobody knows and a copy finds out.
#[derive(Debug)]
pub enum Failed {
    /// Something else failed that any message needs, such as the database. No attempt is spent; it is
    /// run again when that may be back.
    Away(Cause),
    /// This message failed. It is run again, and parked after several attempts.
    Message(Cause),
    /// This message will never be handled, such as one that nobody can read. It is parked at once.
    Refused(Box<str>),
}

impl Failed {
    /// Says that this message failed.
    #[must_use]
    pub fn message(cause: impl Into<Cause>) -> Self {
        Self::Message(cause.into())
    }

    /// Says that something failed that any message needs.
    #[must_use]
    pub fn away(cause: impl Into<Cause>) -> Self {
        Self::Away(cause.into())
    }
}

/// What a store could not do is no fault of the message, unless it refused a value.
impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        match error.kind() {
            StoreErrorKind::Invalid => Self::message(error),
            _ => Self::away(error),
        }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cause: &dyn std::error::Error = match self {
            Self::Away(cause) | Self::Message(cause) => &**cause,
            Self::Refused(why) => return f.write_str(why),
        };
        write!(f, "{cause}")?;
        while let Some(next) = cause.source() {
            write!(f, ": {next}")?;
            cause = next;
        }
        Ok(())
    }
}

/// Handles messages of one consumer.
///
/// Each run commits the effect of a message in one transaction with the fact that the consumer had it,
/// by the module `inbox` of the store that its data is in. It is dropped in the middle when its log
/// goes to another owner and at the end of a shutdown's patience: what is not committed is rolled back
/// then.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Handles one message.
    ///
    /// # Errors
    ///
    /// Says whose fault it is.
    async fn run(&self, delivery: &Delivery) -> Result<Handled, Failed>;

    /// Handles several messages in one transaction, and says in their order what became of each; `None`
    /// if this handler takes one at a time. After a failure they are run one by one.
    ///
    /// # Errors
    ///
    /// Says whose fault it is.
    async fn run_all(&self, deliveries: &[Delivery]) -> Result<Option<Vec<Handled>>, Failed> {
        let _ = deliveries;
        Ok(None)
    }

    /// The digest by which other content under one id is found out: the same that the handler's own inbox
    /// makes.
    fn fingerprint(&self, delivery: &Delivery) -> Fingerprint {
        delivery.fingerprint()
    }

    /// Sends what a run recorded: called after the commit, and for each further copy of the message
    /// before that is acknowledged, since nobody knows whether the first run came to it. What is sent
    /// must bear to be sent again.
    ///
    /// # Errors
    ///
    /// Says whose fault it is; the message is then delivered again.
    async fn emit(&self, delivery: &Delivery, recorded: &Recorded) -> Result<(), Failed> {
        let _ = (delivery, recorded);
        Ok(())
    }
}
