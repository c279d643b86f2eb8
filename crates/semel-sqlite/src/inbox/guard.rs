//! The transaction in which a message is handled.

use std::{cell::RefCell, fmt, ops::Deref};

use bytes::Bytes;
use rusqlite::{Connection, DropBehavior, Transaction};
use semel::{
    StoreError, Timestamp,
    inbox::{MessageId, Recorded, Standing, receive::Incoming},
    outbox::{Cause, Event, EventId},
};

use super::{Inbox, known};
use crate::{
    error::{Fault, invalid},
    outbox::{refused, within_bounds},
    queries,
    step::Step,
    transact::as_before,
};

/// A transaction in which a message is handled. It is used like the connection, and committed only once it
/// is given back by [`done`](Handling::done).
#[must_use = "dropping the guard rolls the transaction back"]
pub struct Handling<'c> {
    tx: Transaction<'c>,
    behavior: DropBehavior,
    inbox: Inbox,
    one: Incoming,
    at: Timestamp,
    events: RefCell<Vec<Event>>,
}

impl<'c> Handling<'c> {
    pub(super) fn new(
        tx: Transaction<'c>,
        behavior: DropBehavior,
        inbox: Inbox,
        one: Incoming,
        at: Timestamp,
    ) -> Self {
        Self { tx, behavior, inbox, one, at, events: RefCell::default() }
    }

    /// Returns the name of the message.
    #[must_use]
    pub const fn message(&self) -> &MessageId {
        &self.one.message
    }

    /// Has an event leave if and only if this transaction commits: it is appended at its end, in the order
    /// of the calls, and its id is recorded. Unless it names its own cause, that is the message.
    ///
    /// # Errors
    ///
    /// Refuses an event that breaks a bound; the guard can be used on.
    pub fn publish(&self, event: Event) -> Result<EventId, StoreError> {
        let event = caused(event, self.message())?;
        let id = event.id;
        self.events.borrow_mut().push(event);
        Ok(id)
    }

    /// Records what a copy is answered with, if anything, and gives the transaction back, to be committed.
    ///
    /// # Errors
    ///
    /// Fails, and rolls everything back, if the answer breaks its bound, the consumer knows messages by
    /// positions, so that nothing is recorded, the transaction was ended or the receipt undone by a
    /// statement inside it, or the store cannot be asked.
    pub fn done(self, answer: Option<Bytes>) -> Result<Transaction<'c>, StoreError> {
        self.end(answer).map(|(tx, _)| tx)
    }

    pub(super) fn end(
        self,
        answer: Option<Bytes>,
    ) -> Result<(Transaction<'c>, Recorded), StoreError> {
        let Self { tx, behavior, inbox, one, at, events } = self;
        let events = events.into_inner();
        within_bounds(&events)?;
        one.check_answer(answer.as_ref())?;
        if tx.is_autocommit() {
            return Err(ended());
        }
        let recorded = one.done(answer, events.iter().map(|event| event.id).collect(), at);
        inbox.step(&tx, |step| {
            if one.records() {
                step.record(inbox.policy.consumer.as_str(), [(&one.message, &recorded)])?;
            }
            step.append(&events)
        })?;
        inbox.transact.appended(&events);
        Ok((as_before(tx, behavior), recorded))
    }
}

/// Checks an event, and names the message as its cause unless it has one.
pub(super) fn caused(mut event: Event, message: &MessageId) -> Result<Event, StoreError> {
    event.check().map_err(refused)?;
    event.cause.get_or_insert_with(|| Cause::message(message));
    Ok(event)
}

pub(super) fn ended() -> StoreError {
    invalid(
        "a statement inside the guard ended the transaction or undid the receipt; run none that does",
    )
}

impl Step<'_> {
    /// Keeps what the runs of messages recorded that were received together.
    ///
    /// Their rows are there unless the receipt was undone, and then it was undone as a whole: of those that
    /// recorded nothing one is looked at.
    pub(super) fn record<'r>(
        &mut self,
        consumer: &str,
        ran: impl IntoIterator<Item = (&'r MessageId, &'r Recorded)>,
    ) -> Result<(), Fault> {
        let mut is_there = false;
        for (message, recorded) in ran {
            if recorded.is_sent_again() {
                self.record_one(consumer, message, recorded)?;
            } else if !is_there {
                known::of(self.conn(), consumer, message)?
                    .filter(|seen| seen.standing == Standing::Done)
                    .ok_or_else(ended)?;
            }
            is_there = true;
        }
        Ok(())
    }

    fn record_one(
        &mut self,
        consumer: &str,
        message: &MessageId,
        recorded: &Recorded,
    ) -> Result<(), Fault> {
        self.wrote();
        let mut statement = self.conn().prepare_cached(queries::INBOX_RECORD)?;
        let written = statement.execute((
            consumer,
            message.source.as_str(),
            message.id(),
            known::written(&recorded.events),
            recorded.answer.as_deref(),
        ))?;
        if written == 1 { Ok(()) } else { Err(ended().into()) }
    }
}

impl Deref for Handling<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.tx
    }
}

impl fmt::Debug for Handling<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handling").field("message", self.message()).finish_non_exhaustive()
    }
}
