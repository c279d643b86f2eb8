//! The receipt of one message.

use std::time::Duration;

use rusqlite::Transaction;
use semel::{
    StoreError, Timestamp,
    inbox::{
        Delivery, LogId, MessageId, Recorded,
        receive::{How, Incoming, Verdict},
    },
};

use super::{Handling, Inbox, known};
use crate::{
    error::{Fault, damaged},
    queries, row,
    step::Step,
    transact::as_before,
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
        let fingerprint = (self.fingerprint)(delivery);
        let one = Incoming::new(delivery, self.policy.by, fingerprint)?;
        let (tx, behavior) = self.transact.take(tx)?;
        let (verdict, at) = self.step(&tx, |step| {
            let now = step.now();
            Ok((self.judge(step, &one, now)?, now))
        })?;
        Ok(match verdict {
            Verdict::Duplicate(recorded) => Receive::Duplicate(as_before(tx, behavior), recorded),
            Verdict::First => Receive::First(Handling::new(tx, behavior, self.clone(), one, at)),
            Verdict::Mismatch(recorded) => Receive::Mismatch(as_before(tx, behavior), recorded),
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

    /// Remembers a message unless it is remembered already.
    pub(super) fn judge(
        &self,
        step: &mut Step<'_>,
        one: &Incoming,
        now: Timestamp,
    ) -> Result<Verdict, Fault> {
        let consumer = self.policy.consumer.as_str();
        let is_first = match &one.how {
            How::At(position) => {
                let to = position.offset.saturating_add(1);
                step.moves(consumer, &position.log, (position.offset, to), now)?
            }
            How::New => step.receive(consumer, one, now, self.policy.remember_for)?,
            How::Parked => step.take_back(consumer, &one.message, now)?,
        };
        if is_first {
            return Ok(Verdict::First);
        }
        if !one.records() {
            return Ok(Verdict::Duplicate(None));
        }
        let recorded = known::of(step.conn(), consumer, &one.message)?;
        let recorded = recorded.ok_or_else(|| {
            damaged("a parked message is not remembered; see whether its row was deleted")
        })?;
        Ok(one.known(recorded))
    }
}

/// An offset as it is stored.
pub(super) fn number(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

impl Step<'_> {
    fn receive(
        &mut self,
        consumer: &str,
        one: &Incoming,
        now: Timestamp,
        remember_for: Duration,
    ) -> Result<bool, Fault> {
        self.wrote();
        let mut statement = self.conn().prepare_cached(queries::INBOX_RECEIVE)?;
        let received = statement.execute((
            consumer,
            one.message.source.as_str(),
            one.message.id(),
            one.fingerprint.to_bytes(),
            row::micros(now),
            row::micros(now.after(remember_for)),
        ))?;
        Ok(received == 1)
    }

    fn take_back(
        &mut self,
        consumer: &str,
        message: &MessageId,
        now: Timestamp,
    ) -> Result<bool, Fault> {
        let now = row::micros(now);
        self.wrote();
        let mut statement = self.conn().prepare_cached(queries::INBOX_RECEIVE_PARKED)?;
        Ok(statement.execute((consumer, message.source.as_str(), message.id(), now))? == 1)
    }

    /// Moves a position forward; says whether it stood at or before `from`.
    pub(super) fn moves(
        &mut self,
        consumer: &str,
        log: &LogId,
        (from, to): (u64, u64),
        now: Timestamp,
    ) -> Result<bool, Fault> {
        self.wrote();
        let mut statement = self.conn().prepare_cached(queries::INBOX_MOVE)?;
        let moved = (consumer, log.as_str(), number(from), number(to), row::micros(now));
        Ok(statement.execute(moved)? == 1)
    }
}
