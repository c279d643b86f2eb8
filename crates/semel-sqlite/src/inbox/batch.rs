//! Several messages in one transaction.

use std::{cell::RefCell, fmt, ops::Deref};

use bytes::Bytes;
use rusqlite::{Connection, DropBehavior, OptionalExtension, Transaction};
use semel::{
    StoreError, Timestamp,
    inbox::{
        Delivery, Handled, LogId,
        receive::{IncomingBatch, Judged, Kept, Span, Verdict},
    },
    outbox::{Event, EventId},
};

use super::{
    Inbox,
    guard::{caused, ended},
};
use crate::{error::Fault, outbox::within_bounds, queries, row, step::Step, transact::as_before};

/// What a batch of messages meets inside a transaction.
#[derive(Debug)]
#[must_use]
pub enum ReceiveAll<'c> {
    /// None of the messages is new; the transaction comes back.
    None(Transaction<'c>, Vec<Verdict>),
    /// Some are new.
    Some(Box<Batch<'c>>),
}

/// A transaction in which several messages are handled. It is used like the connection, and committed only
/// once it is given back.
#[must_use = "dropping the guard rolls the transaction back"]
pub struct Batch<'c> {
    tx: Transaction<'c>,
    behavior: DropBehavior,
    inbox: Inbox,
    judged: Judged,
    /// What is written at the end: what the runs kept, and their events in the order of the calls.
    kept: RefCell<(Kept, Vec<Event>)>,
}

impl<'c> Batch<'c> {
    /// Says what is to be done about each message, in the order given.
    #[must_use]
    pub fn verdicts(&self) -> &[Verdict] {
        &self.judged.verdicts
    }

    /// Returns the places of the messages that are new, in the order given.
    pub fn new_ones(&self) -> impl Iterator<Item = usize> + use<'_> {
        self.judged.new_ones()
    }

    /// Records what copies of the message at a place are answered with.
    ///
    /// # Errors
    ///
    /// Refuses a place at which the batch has no new message, and an answer that breaks its bound or can
    /// not be recorded; the guard can be used on.
    pub fn answer(&self, at: usize, answer: Bytes) -> Result<(), StoreError> {
        self.judged.new_one(at)?.check_answer(Some(&answer))?;
        self.kept.borrow_mut().0.answers.insert(at, answer);
        Ok(())
    }

    /// Has an event of the message at a place leave if and only if this transaction commits, as
    /// [`Handling::publish`](super::Handling::publish) does.
    ///
    /// # Errors
    ///
    /// Refuses a place at which the batch has no new message, and an event that breaks a bound; the guard
    /// can be used on.
    pub fn publish(&self, at: usize, event: Event) -> Result<EventId, StoreError> {
        let event = caused(event, &self.judged.new_one(at)?.message)?;
        let id = event.id;
        let (kept, events) = &mut *self.kept.borrow_mut();
        kept.events.entry(at).or_default().push(id);
        events.push(event);
        Ok(id)
    }

    /// Writes what is recorded, and gives the transaction back, to be committed.
    ///
    /// # Errors
    ///
    /// As [`Handling::done`](super::Handling::done).
    pub fn done(self) -> Result<Transaction<'c>, StoreError> {
        self.end().map(|(tx, _)| tx)
    }

    pub(super) fn end(self) -> Result<(Transaction<'c>, Vec<Handled>), StoreError> {
        let Self { tx, behavior, inbox, judged, kept } = self;
        let (kept, events) = kept.into_inner();
        within_bounds(&events)?;
        if tx.is_autocommit() {
            return Err(ended());
        }
        let (messages, handled) = judged.handled(kept);
        let ran = messages.iter().zip(&handled).filter_map(|(one, handled)| match handled {
            Handled::First(recorded) if one.records() => Some((&one.message, recorded)),
            _ => None,
        });
        inbox.step(&tx, |step| {
            step.record(inbox.policy.consumer.as_str(), ran)?;
            step.append(&events)
        })?;
        inbox.transact.appended(&events);
        Ok((as_before(tx, behavior), handled))
    }
}

impl Deref for Batch<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.tx
    }
}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("verdicts", &self.judged.verdicts).finish_non_exhaustive()
    }
}

impl Inbox {
    /// Receives several messages inside `tx`. A consumer that knows messages by positions receives
    /// messages of one log, in their order.
    ///
    /// # Errors
    ///
    /// As [`Inbox::receive`]; also if there are none, more than
    /// [`READ_MAX`](semel::inbox::store::READ_MAX), or parked ones.
    pub fn receive_all<'c>(
        &self,
        tx: Transaction<'c>,
        deliveries: &[Delivery],
    ) -> Result<ReceiveAll<'c>, StoreError> {
        let came = IncomingBatch::new(deliveries, self.policy.by, self.fingerprint)?;
        let (tx, behavior) = self.transact.take(tx)?;
        let (verdicts, at) = self.step(&tx, |step| {
            let now = step.now();
            let verdicts = match &came.span {
                None => came.by_names(now, |one| self.judge(step, one, now))?,
                Some(span) => came.by_positions(self.passed(step, span, now)?),
            };
            Ok((verdicts, now))
        })?;
        if !verdicts.contains(&Verdict::First) {
            return Ok(ReceiveAll::None(as_before(tx, behavior), verdicts));
        }
        let judged = Judged { messages: came.messages, verdicts, at };
        let (inbox, kept) = (self.clone(), RefCell::default());
        Ok(ReceiveAll::Some(Box::new(Batch { tx, behavior, inbox, judged, kept })))
    }

    /// Moves behind messages of a log; returns the first offset that the consumer had not had before.
    fn passed(&self, step: &mut Step<'_>, span: &Span, now: Timestamp) -> Result<u64, Fault> {
        let consumer = self.policy.consumer.as_str();
        let next = position(step.conn(), consumer, &span.log)?.unwrap_or_default();
        if next < span.end {
            step.moves(consumer, &span.log, (next, span.end), now)?;
        }
        Ok(next)
    }
}

/// Reads up to where a consumer has a log.
pub(super) fn position(
    conn: &Connection,
    consumer: &str,
    log: &LogId,
) -> Result<Option<u64>, Fault> {
    let mut statement = conn.prepare_cached(queries::INBOX_POSITION)?;
    let next = statement.query_row((consumer, log.as_str()), |row| Ok(row::count(row, 0)));
    next.optional()?.transpose()
}
