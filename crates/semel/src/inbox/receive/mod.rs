//! What every store's inbox decides alike when messages come, whatever its driver: by what a message is
//! known, which of a batch are new, and of which something may be recorded. There is no I/O in it.
//!
//! What is left to a store is what it remembers of a message, and the transaction of the effect: its own
//! module `inbox`.

mod batch;

use bytes::Bytes;

pub use self::batch::{IncomingBatch, Judged, Kept, Span};
use super::{
    handler::Handled,
    message::{Delivery, MessageId, Position},
    policy::By,
    store::{Recorded, Standing},
};
use crate::{
    clock::Timestamp,
    error::{StoreError, StoreErrorKind},
    fingerprint::Fingerprint,
    outbox::EventId,
};

/// How a run in a transaction of its own ended.
#[derive(Debug)]
#[must_use]
pub enum Ran<T> {
    /// The consumer had the message before; what its run recorded, unless it is known by its position.
    Duplicate(Option<Recorded>),
    /// The effect is committed now, with what was recorded.
    First(T, Recorded),
    /// The consumer had another message under this id. Nothing ran.
    Mismatch(Recorded),
}

impl<T> From<Ran<T>> for Handled {
    fn from(ran: Ran<T>) -> Self {
        match ran {
            Ran::Duplicate(recorded) => Self::Duplicate(recorded),
            Ran::First(_, recorded) => Self::First(recorded),
            Ran::Mismatch(recorded) => Self::Mismatch(recorded),
        }
    }
}

/// What is to be done about one message.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Nothing: the consumer had it before, or it stands further ahead in its batch.
    Duplicate(Option<Recorded>),
    /// Its effect.
    First,
    /// Nothing: the consumer had another message under this id.
    Mismatch(Recorded),
}

impl Verdict {
    /// What became of a message that needed nothing.
    #[must_use]
    pub fn handled(self) -> Handled {
        match self {
            Self::Duplicate(recorded) => Handled::Duplicate(recorded),
            Self::First => Handled::Duplicate(None),
            Self::Mismatch(recorded) => Handled::Mismatch(recorded),
        }
    }
}

/// By what a consumer knows a message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum How {
    /// Its position.
    At(Position),
    /// Its id.
    New,
    /// Its id; it was parked, and is taken back.
    Parked,
}

/// A message that came.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Incoming {
    /// Its name.
    pub message: MessageId,
    /// The digest of what it tells.
    pub fingerprint: Fingerprint,
    /// By what it is known.
    pub how: How,
}

impl Incoming {
    /// Takes a delivery. A parked message is known by its id, whatever the consumer knows others by.
    ///
    /// # Errors
    ///
    /// Refuses a delivery without a position whose consumer knows messages by positions.
    pub fn new(delivery: &Delivery, by: By, fingerprint: Fingerprint) -> Result<Self, StoreError> {
        let how = match (by, &delivery.position) {
            _ if delivery.parked => How::Parked,
            (By::Ids, _) => How::New,
            (By::Positions, Some(position)) => How::At(position.clone()),
            (By::Positions, None) => return Err(no_position()),
        };
        Ok(Self { message: delivery.message.clone(), fingerprint, how })
    }

    /// Whether something can be recorded of the message.
    #[must_use]
    pub const fn records(&self) -> bool {
        self.position().is_none()
    }

    /// Its position, if it is known by that.
    #[must_use]
    pub const fn position(&self) -> Option<&Position> {
        match &self.how {
            How::At(position) => Some(position),
            How::New | How::Parked => None,
        }
    }

    /// Judges it by what is remembered under its name.
    #[must_use]
    pub fn known(&self, recorded: Recorded) -> Verdict {
        match recorded.is_of_another(&self.fingerprint) {
            true => Verdict::Mismatch(recorded),
            false => Verdict::Duplicate(Some(recorded)),
        }
    }

    /// Refuses an answer that breaks its bound, or of which nothing would be recorded.
    ///
    /// # Errors
    ///
    /// Returns an error of kind `Invalid` that says what to do instead.
    pub fn check_answer(&self, answer: Option<&Bytes>) -> Result<(), StoreError> {
        let Some(answer) = answer else { return Ok(()) };
        if answer.len() > Recorded::ANSWER_MAX {
            return Err(invalid("an answer has more than 1 MiB; keep a pointer to it instead"));
        }
        if !self.records() {
            return Err(invalid(
                "a consumer that knows messages by positions records no answers; publish an event",
            ));
        }
        Ok(())
    }

    /// What is remembered of it once its effect is committed.
    #[must_use]
    pub const fn done(
        &self,
        answer: Option<Bytes>,
        events: Vec<EventId>,
        at: Timestamp,
    ) -> Recorded {
        let fingerprint = self.fingerprint;
        Recorded { fingerprint, standing: Standing::Done, answer, events, at }
    }
}

pub(super) fn no_position() -> StoreError {
    invalid("the message has no position, and its consumer knows messages by positions")
}

pub(super) fn invalid(what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::{message::SourceName, source::Receipt};

    fn delivery() -> Delivery {
        let message = MessageId::new(SourceName::new("orders").unwrap(), "a").unwrap();
        Delivery::new(message, Receipt(1), Some("one".into()))
    }

    #[test]
    fn digests_of_different_plans_are_not_compared() {
        let one = Incoming::new(&delivery(), By::Ids, delivery().fingerprint());
        let (one, plan) = (one.unwrap(), crate::fingerprint::PlanId::new([1; 8]));
        let mut recorded = one.done(None, Vec::new(), Timestamp::default());
        recorded.fingerprint = Fingerprint::new(plan, [2; 32]);
        assert!(matches!(one.known(recorded), Verdict::Duplicate(Some(_))));
    }
}
