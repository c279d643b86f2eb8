//! The transaction in which a message is handled.

use std::{fmt, ops::Deref};

use bytes::Bytes;
use semel::{
    StoreError, Timestamp,
    inbox::{MessageId, Recorded},
    outbox::{Cause, Event, EventId},
};
use tokio_postgres::{Client, Error, Transaction};

use super::{Inbox, known, receive::Asked};
use crate::{
    error::Fault,
    outbox::{Append, Columns},
    transact::{
        Lent, Started, Tx,
        tx::{Statement, Text},
    },
    value::Value,
};

/// A transaction in which a message is handled. It is used like the driver's own, and committed only once
/// it is given back by [`done`](Handling::done) or [`finish`](Handling::finish).
#[must_use = "dropping the guard rolls the transaction back"]
pub struct Handling<T: Tx> {
    pub(super) tx: T,
    inbox: Inbox,
    asked: Asked,
    at: Timestamp,
    append: Append,
    events: Vec<EventId>,
}

impl<T: Tx> Handling<T> {
    pub(super) fn new(tx: T, inbox: Inbox, asked: Asked, at: Timestamp) -> Self {
        Self { tx, inbox, asked, at, append: Append::default(), events: Vec::new() }
    }

    /// Returns the name of the message.
    #[must_use]
    pub const fn message(&self) -> &MessageId {
        &self.asked.one.message
    }

    /// Has an event leave if and only if this transaction commits: it is appended at its end, in the order
    /// of the calls, and its id is recorded. Unless it names its own cause, that is the message. Lock or
    /// write the aggregate in this transaction: then the events of an aggregate leave in the order of
    /// their causes.
    ///
    /// # Errors
    ///
    /// Refuses an event that breaks a bound, or one too many; the guard can be used on.
    pub fn publish(&mut self, mut event: Event) -> Result<EventId, StoreError> {
        event.cause.get_or_insert_with(|| Cause::message(self.message()));
        let id = event.id;
        self.append.push(event)?;
        self.events.push(id);
        Ok(id)
    }

    /// Records what a copy is answered with, if anything, and gives the transaction back, to be committed.
    /// Without an answer this asks the server nothing.
    ///
    /// # Errors
    ///
    /// Fails, and rolls everything back, if the answer breaks its bound, the consumer knows messages by
    /// positions, so that nothing is recorded, or the server cannot be asked.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, everything is rolled back.
    pub async fn done(self, answer: Option<Bytes>) -> Result<T, StoreError> {
        let mut ending = self.finish(answer, ()).ending()?;
        ending.write().await?;
        Ok(ending.tx)
    }

    /// Gives the guard back to the [run](Inbox::run) that lent it, with what a copy is answered with.
    pub fn finish<V>(self, answer: Option<Bytes>, value: V) -> Finished<T, V> {
        Finished { guard: self, answer, value }
    }
}

impl<T: Tx> fmt::Debug for Handling<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handling").field("message", self.message()).finish_non_exhaustive()
    }
}

/// What the work of a run gives back: made by [`Handling::finish`].
#[derive(Debug)]
#[must_use = "dropping it rolls the transaction back"]
pub struct Finished<T: Tx, V> {
    guard: Handling<T>,
    answer: Option<Bytes>,
    value: V,
}

impl<T: Tx, V> Finished<T, V> {
    pub(super) fn ending(self) -> Result<Ending<T, V>, StoreError> {
        let Self { guard, answer, value } = self;
        let Handling { tx, inbox, asked, at, append, events } = guard;
        asked.one.check_answer(answer.as_ref())?;
        let recorded = asked.one.done(answer, events, at);
        let events = known::array(&recorded.events);
        Ok(Ending { tx, last: Last { inbox, asked, recorded, events, append }, value })
    }
}

/// A guard of which it is known what is recorded, and not yet written.
pub(super) struct Ending<T: Tx, V> {
    pub(super) tx: T,
    pub(super) last: Last,
    pub(super) value: V,
}

impl<T: Tx, V> Ending<T, V> {
    async fn write(&mut self) -> Result<(), Fault> {
        let columns = self.last.append.columns();
        let made = columns.made();
        for statement in self.last.statements(&columns, &made) {
            self.tx.ask(statement.text, &statement.values).await?;
        }
        Ok(())
    }
}

/// What is written at the end of a transaction.
pub(super) struct Last {
    inbox: Inbox,
    asked: Asked,
    pub(super) recorded: Recorded,
    /// Their ids, as an array in text.
    events: String,
    pub(super) append: Append,
}

impl Last {
    pub(super) fn statements<'a>(
        &'a self,
        columns: &'a Columns<'a>,
        made: &'a [Vec<Option<&'a str>>; 2],
    ) -> Vec<Statement<'a>> {
        let Self { inbox, asked, recorded, events, append } = self;
        let mut last = Vec::new();
        if !append.is_empty() {
            last.push(inbox.appends(columns, made));
        }
        if asked.one.records() && recorded.is_sent_again() {
            let mut values = asked.name().to_vec();
            values.push(Value::Bytes(recorded.answer.as_deref()));
            values.push(Value::Text(Some(&**events).filter(|_| !recorded.events.is_empty())));
            let text = inbox.text(&inbox.transact.inner.statements.inbox_record);
            last.push(Statement { text, values });
        }
        last
    }
}

impl Inbox {
    /// The statement that appends events.
    pub(super) fn appends<'a>(
        &'a self,
        columns: &'a Columns<'a>,
        made: &'a [Vec<Option<&'a str>>; 2],
    ) -> Statement<'a> {
        let text = self.text(&self.transact.inner.statements.outbox_append);
        Statement { text, values: columns.values(made).to_vec() }
    }

    /// A statement that is not prepared under a name.
    pub(super) fn text<'t>(&self, text: &'t str) -> Text<'t> {
        Text { text, prepared: None, keep: self.transact.inner.keep }
    }
}

impl<'c> Deref for Handling<Transaction<'c>> {
    type Target = Transaction<'c>;

    fn deref(&self) -> &Transaction<'c> {
        &self.tx
    }
}

impl Handling<Transaction<'_>> {
    /// Begins a savepoint inside the guarded transaction: what fails in it can be undone alone.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be asked.
    pub async fn savepoint(&mut self) -> Result<Transaction<'_>, Error> {
        self.tx.transaction().await
    }
}

impl<L: Lent> Deref for Handling<Started<L>> {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.tx.client()
    }
}

#[cfg(feature = "sqlx")]
impl Deref for Handling<sqlx::Transaction<'_, sqlx::Postgres>> {
    type Target = sqlx::PgConnection;

    fn deref(&self) -> &sqlx::PgConnection {
        &self.tx
    }
}

/// For queries. Ending the transaction by the driver's manager of transactions is as wrong as by text.
#[cfg(feature = "sqlx")]
impl std::ops::DerefMut for Handling<sqlx::Transaction<'_, sqlx::Postgres>> {
    fn deref_mut(&mut self) -> &mut sqlx::PgConnection {
        &mut self.tx
    }
}
