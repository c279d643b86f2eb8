//! The receipt of one message.

use std::time::Duration;

use rusqlite::Transaction;
use semel::{
    Fingerprint, StoreError, Timestamp,
    inbox::{Delivery, LogId, MessageId, Position, Recorded},
};

use super::{Handling, Inbox, known};
use crate::{
    error::{Fault, damaged, invalid},
    queries, row,
    step::Step,
};

/// What a receipt inside a transaction meets.
#[derive(Debug)]
#[must_use]
pub enum Receive<'c> {
    /// The consumer had the message before: nothing is to be done but to acknowledge it, and to send what
    /// its run recorded once more. The transaction comes back. `None` if it is known by its position.
    Duplicate(Transaction<'c>, Option<Recorded>),
    /// The message is new: the effect is done, as long as the guard lives.
    First(Handling<'c>),
    /// The consumer had another message under this id, and this one is not to be run. The transaction
    /// comes back.
    Mismatch(Transaction<'c>, Recorded),
}

/// By what a message is known.
#[derive(Clone, Debug)]
pub(super) enum How {
    /// Its position.
    At(Position),
    /// Its id.
    New,
    /// Its id; it was parked, and is taken back.
    Parked,
}

/// What one receipt asks.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) message: MessageId,
    pub(super) fingerprint: Fingerprint,
    how: How,
}

/// What a receipt met.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Met {
    Duplicate(Option<Recorded>),
    First(Timestamp),
    Mismatch(Recorded),
}

impl Inbox {
    /// Receives a message inside `tx`. If another transaction writes to the file, it waits until that one
    /// ends, as long as its connection waits.
    ///
    /// # Errors
    ///
    /// Fails, and rolls `tx` back, if it is not what the [module](super) asks for, the delivery has no
    /// position where the consumer knows messages by positions, or the store cannot be asked.
    pub fn receive<'c>(
        &self,
        tx: Transaction<'c>,
        delivery: &Delivery,
    ) -> Result<Receive<'c>, StoreError> {
        let asked = self.asked(delivery)?;
        let (tx, behavior) = self.transact.take(tx)?;
        let met = self.step(&tx, |step| self.met(step, &asked))?;
        let before = |tx| crate::transact::as_before(tx, behavior);
        Ok(match met {
            Met::Duplicate(recorded) => Receive::Duplicate(before(tx), recorded),
            Met::First(at) => Receive::First(Handling::new(tx, behavior, self.clone(), asked, at)),
            Met::Mismatch(recorded) => Receive::Mismatch(before(tx), recorded),
        })
    }

    /// Does a step of an open transaction that holds the write lock.
    pub(super) fn step<T>(
        &self,
        tx: &Transaction<'_>,
        done: impl FnOnce(&mut Step<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let mut step = self.transact.step(tx)?;
        let answer = done(&mut step)?;
        step.end()?;
        Ok(answer)
    }

    pub(super) fn asked(&self, delivery: &Delivery) -> Result<Asked, StoreError> {
        let how = match (&delivery.position, self.by_position(delivery)) {
            (Some(position), true) => How::At(position.clone()),
            (None, true) => return Err(no_position()),
            (_, false) if delivery.parked => How::Parked,
            (_, false) => How::New,
        };
        let fingerprint = (self.fingerprint)(delivery);
        Ok(Asked { message: delivery.message.clone(), fingerprint, how })
    }

    /// Remembers a message unless it is remembered already.
    pub(super) fn met(&self, step: &mut Step<'_>, asked: &Asked) -> Result<Met, Fault> {
        let consumer = self.policy.consumer.as_str();
        let now = step.now();
        let is_first = match &asked.how {
            How::At(position) => {
                let to = position.offset.saturating_add(1);
                step.moves(consumer, &position.log, position.offset, to)?
            }
            How::New => step.receive(consumer, asked, self.policy.remember_for)?,
            How::Parked => step.take_back(consumer, &asked.message)?,
        };
        if is_first {
            return Ok(Met::First(now));
        }
        if !asked.records() {
            return Ok(Met::Duplicate(None));
        }
        let recorded = known::of(step.conn(), consumer, &asked.message)?;
        let recorded = recorded.ok_or_else(|| {
            damaged("a parked message is not remembered; see whether its row was deleted")
        })?;
        Ok(match known::differs(&recorded, &asked.fingerprint) {
            true => Met::Mismatch(recorded),
            false => Met::Duplicate(Some(recorded)),
        })
    }
}

impl Asked {
    /// Whether something can be recorded of the message.
    pub(super) const fn records(&self) -> bool {
        !matches!(self.how, How::At(_))
    }
}

pub(super) fn no_position() -> StoreError {
    invalid("the message has no position, and its consumer knows messages by positions")
}

/// An offset as it is stored.
pub(super) fn number(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

impl Step<'_> {
    fn receive(
        &mut self,
        consumer: &str,
        asked: &Asked,
        remember_for: Duration,
    ) -> Result<bool, Fault> {
        let now = self.now();
        self.wrote();
        let mut statement = self.conn().prepare_cached(queries::INBOX_RECEIVE)?;
        let received = statement.execute((
            consumer,
            asked.message.source.as_str(),
            asked.message.id(),
            known::digest(&asked.fingerprint),
            row::micros(now),
            row::micros(now.after(remember_for)),
        ))?;
        Ok(received == 1)
    }

    fn take_back(&mut self, consumer: &str, message: &MessageId) -> Result<bool, Fault> {
        let now = row::micros(self.now());
        self.wrote();
        let mut statement = self.conn().prepare_cached(queries::INBOX_RECEIVE_PARKED)?;
        Ok(statement.execute((consumer, message.source.as_str(), message.id(), now))? == 1)
    }

    /// Moves a position forward; says whether it stood at or before `from`.
    pub(super) fn moves(
        &mut self,
        consumer: &str,
        log: &LogId,
        from: u64,
        to: u64,
    ) -> Result<bool, Fault> {
        let now = row::micros(self.now());
        self.wrote();
        let mut statement = self.conn().prepare_cached(queries::INBOX_MOVE)?;
        let moved = (consumer, log.as_str(), number(from), number(to), now);
        Ok(statement.execute(moved)? == 1)
    }
}
