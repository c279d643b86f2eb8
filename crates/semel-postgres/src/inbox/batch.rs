//! Several messages in one transaction: one statement receives them all.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    ops::Deref,
};

use bytes::Bytes;
use semel::{
    StoreError,
    inbox::{
        Delivery, Handled, MessageId, Recorded,
        receive::{Incoming, IncomingBatch, Judged, Kept, Span, Verdict},
    },
    outbox::{Cause, Event, EventId},
};
use tokio_postgres::{Client, Transaction};

use super::{
    Inbox,
    form::{Form, Met},
    known,
    receive::{forgotten, offset},
};
use crate::{
    error::{Fault, damaged},
    outbox::{Append, Columns},
    row,
    transact::{
        Lent, Prepared, Started, Transact, Tx,
        source::First,
        tx::{Statement, Text},
    },
    value::{Cells, Value},
};

/// What a batch of messages meets inside a transaction.
#[must_use]
pub enum ReceiveAll<T: Tx> {
    /// None of the messages is new; the transaction comes back.
    None(T, Vec<Verdict>),
    /// Another transaction won, and this one is rolled back. Begin a new one and receive again.
    Retry(StoreError),
    /// Some are new.
    Some(Box<Batch<T>>),
}

impl<T: Tx> fmt::Debug for ReceiveAll<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None(_, verdicts) => f.debug_tuple("None").field(verdicts).finish(),
            Self::Retry(error) => f.debug_tuple("Retry").field(error).finish(),
            Self::Some(batch) => f.debug_tuple("Some").field(batch).finish(),
        }
    }
}

/// A transaction in which several messages are handled. It is committed only once it is given back.
#[must_use = "dropping the guard rolls the transaction back"]
pub struct Batch<T: Tx> {
    tx: T,
    inbox: Inbox,
    judged: Judged,
    append: Append,
    kept: Kept,
}

impl<T: Tx> Batch<T> {
    /// Says what is to be done about each message, in the order given.
    #[must_use]
    pub fn verdicts(&self) -> &[Verdict] {
        &self.judged.verdicts
    }

    /// Returns the places of the messages that are new, in the order given.
    pub fn new_ones(&self) -> impl Iterator<Item = usize> + use<T> {
        // Of its own, so that the guard can be used meanwhile.
        self.judged.new_ones().collect::<Vec<_>>().into_iter()
    }

    /// Records what copies of the message at a place are answered with.
    ///
    /// # Errors
    ///
    /// Refuses a place at which the batch has no new message, and an answer that breaks its bound or can
    /// not be recorded; the guard can be used on.
    pub fn answer(&mut self, at: usize, answer: Bytes) -> Result<(), StoreError> {
        self.judged.new_one(at)?.check_answer(Some(&answer))?;
        self.kept.answers.insert(at, answer);
        Ok(())
    }

    /// Has an event of the message at a place leave if and only if this transaction commits, as
    /// [`Handling::publish`](super::Handling::publish) does.
    ///
    /// # Errors
    ///
    /// Refuses a place at which the batch has no new message, an event that breaks a bound, and one too
    /// many; the guard can be used on.
    pub fn publish(&mut self, at: usize, mut event: Event) -> Result<EventId, StoreError> {
        let one = self.judged.new_one(at)?;
        event.cause.get_or_insert_with(|| Cause::message(&one.message));
        let id = event.id;
        self.append.push(event)?;
        self.kept.events.entry(at).or_default().push(id);
        Ok(id)
    }

    /// Writes what is recorded, and gives the transaction back, to be committed.
    ///
    /// # Errors
    ///
    /// As [`Handling::done`](super::Handling::done).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, everything is rolled back.
    pub async fn done(self) -> Result<T, StoreError> {
        let (mut tx, last) = self.finish().parts();
        let columns = last.append.columns();
        let made = columns.made();
        for statement in last.statements(&columns, &made) {
            tx.ask(statement.text, &statement.values).await.map_err(StoreError::from)?;
        }
        Ok(tx)
    }

    /// Gives the guard back to the [run](Inbox::run_all_on) that lent it.
    pub fn finish(self) -> FinishedAll<T> {
        FinishedAll(self)
    }
}

impl<T: Tx> fmt::Debug for Batch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("verdicts", &self.judged.verdicts).finish_non_exhaustive()
    }
}

/// What the work of a run gives back: made by [`Batch::finish`].
#[derive(Debug)]
#[must_use = "dropping it rolls the transaction back"]
pub struct FinishedAll<T: Tx>(Batch<T>);

impl<T: Tx> FinishedAll<T> {
    pub(super) fn parts(self) -> (T, LastAll) {
        let Batch { tx, inbox, judged, append, kept } = self.0;
        let (messages, handled) = judged.handled(kept);
        let rows = Rows::of(&messages, &handled);
        (tx, LastAll { inbox, append, handled, rows })
    }
}

/// What is written at the end of a batch.
pub(super) struct LastAll {
    inbox: Inbox,
    pub(super) append: Append,
    /// What became of each message, once this is committed.
    pub(super) handled: Vec<Handled>,
    rows: Rows,
}

/// The columns of what is recorded.
#[derive(Default)]
struct Rows {
    sources: Vec<String>,
    ids: Vec<String>,
    bodies: Vec<Option<Vec<u8>>>,
    events: Vec<String>,
}

impl Rows {
    fn of(messages: &[Incoming], handled: &[Handled]) -> Self {
        let mut rows = Self::default();
        for (one, handled) in messages.iter().zip(handled) {
            if let Handled::First(recorded) = handled
                && one.records()
                && recorded.is_sent_again()
            {
                rows.sources.push(one.message.source.as_str().to_owned());
                rows.ids.push(one.message.id().to_owned());
                rows.bodies.push(recorded.answer.as_ref().map(|answer| answer.to_vec()));
                rows.events.push(known::array(&recorded.events));
            }
        }
        rows
    }
}

impl LastAll {
    pub(super) fn statements<'a>(
        &'a self,
        columns: &'a Columns<'a>,
        made: &'a [Vec<Option<&'a str>>; 2],
    ) -> Vec<Statement<'a>> {
        let mut last = Vec::new();
        if !self.append.is_empty() {
            last.push(self.inbox.appends(columns, made));
        }
        if !self.rows.ids.is_empty() {
            let values = vec![
                Value::Text(Some(self.inbox.consumer())),
                Value::Names(&self.rows.sources),
                Value::Names(&self.rows.ids),
                Value::Bodies(&self.rows.bodies),
                Value::Names(&self.rows.events),
            ];
            let text = self.inbox.text(&self.inbox.transact.inner.statements.inbox_record_all);
            last.push(Statement { text, values });
        }
        last
    }
}

/// What a receipt of several messages asks.
#[derive(Debug)]
pub(super) struct AskedAll {
    came: IncomingBatch,
    consumer: Box<str>,
    remember_us: i64,
    idle_ms: Value<'static>,
    /// The places of what is asked for by name, sorted, each name once.
    order: Vec<usize>,
    sources: Vec<String>,
    ids: Vec<String>,
    digests: Vec<Option<Vec<u8>>>,
}

/// What came of messages of which none was new.
#[derive(Debug)]
pub(super) struct Told(pub(super) Vec<Verdict>);

impl Inbox {
    /// Receives several messages inside `tx`, in one statement: sorted, so that no two batches wait for
    /// each other. If another transaction has one of them, it waits until that one ends. A consumer that
    /// knows messages by positions receives messages of one log, in their order.
    ///
    /// # Errors
    ///
    /// As [`Inbox::receive`]; also if there are none, more than
    /// [`READ_MAX`](semel::inbox::store::READ_MAX), or parked ones.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, `tx` is rolled back.
    pub async fn receive_all<T: Tx>(
        &self,
        mut tx: T,
        deliveries: &[Delivery],
    ) -> Result<ReceiveAll<T>, StoreError> {
        tx.admit()?;
        let asked = self.asked_all(deliveries)?;
        let answer = tx.ask(asked.text(&self.transact, None), &asked.values()).await;
        match asked.met(self, tx, answer).await {
            Ok(Met::Run(batch)) => Ok(ReceiveAll::Some(Box::new(batch))),
            Ok(Met::Told(tx, Told(verdicts))) => Ok(ReceiveAll::None(tx, verdicts)),
            Ok(Met::Retry(error)) => Ok(ReceiveAll::Retry(error)),
            Err(fault) if fault.lost_race() => Ok(ReceiveAll::Retry(fault.into())),
            Err(fault) => Err(fault.into()),
        }
    }

    /// Prepares what a receipt of several asks.
    pub(super) fn asked_all(&self, deliveries: &[Delivery]) -> Result<AskedAll, StoreError> {
        let came = IncomingBatch::new(deliveries, self.policy.by, self.fingerprint)?;
        let messages = &came.messages;
        let mut order: Vec<_> = match came.span {
            None => (0..messages.len()).collect(),
            Some(_) => Vec::new(),
        };
        // Stable, so that of equal names the first stays.
        order.sort_by(|a, b| messages[*a].message.cmp(&messages[*b].message));
        order.dedup_by(|a, b| messages[*a].message == messages[*b].message);
        let named = |at: &usize| &messages[*at];
        Ok(AskedAll {
            consumer: self.consumer().into(),
            remember_us: self.remember_us(),
            idle_ms: self.idle_ms(),
            sources: order.iter().map(|at| named(at).message.source.as_str().into()).collect(),
            ids: order.iter().map(|at| named(at).message.id().into()).collect(),
            digests: order
                .iter()
                .map(|at| Some(named(at).fingerprint.to_bytes().to_vec()))
                .collect(),
            order,
            came,
        })
    }
}

impl First for AskedAll {
    fn text<'t>(&self, transact: &'t Transact, prepared: Option<&'t Prepared>) -> Text<'t> {
        let (statements, keep) = (&transact.inner.statements, transact.inner.keep);
        let (text, prepared) = match self.came.span {
            None => (&statements.inbox_receive_all, prepared.map(|prepared| &prepared.receive_all)),
            Some(_) => (&statements.inbox_advance, prepared.map(|prepared| &prepared.advance)),
        };
        Text { text, prepared, keep }
    }

    fn values(&self) -> Vec<Value<'_>> {
        match &self.came.span {
            None => vec![
                Value::Text(Some(&self.consumer)),
                Value::Names(&self.sources),
                Value::Names(&self.ids),
                Value::Bodies(&self.digests),
                Value::Bigint(Some(self.remember_us)),
                self.idle_ms,
            ],
            Some(span) => self.moves(span, span.first),
        }
    }
}

impl AskedAll {
    /// The parameters of a move from an offset behind the batch.
    fn moves<'a>(&'a self, span: &'a Span, from: u64) -> Vec<Value<'a>> {
        vec![
            Value::Text(Some(&self.consumer)),
            Value::Text(Some(span.log.as_str())),
            Value::Bigint(Some(offset(from))),
            Value::Bigint(Some(offset(span.end))),
            self.idle_ms,
        ]
    }

    /// Reads what is remembered of the messages that are not new; `None` if one was forgotten since.
    async fn old<T: Tx>(
        &self,
        inbox: &Inbox,
        tx: &mut T,
        new: &str,
    ) -> Result<Option<HashMap<MessageId, Recorded>>, Fault> {
        let new: HashSet<_> = new.split('\n').filter_map(|line| line.split_once('\t')).collect();
        let is_old = |at: &&usize| {
            let message = &self.came.messages[**at].message;
            !new.contains(&(message.source.as_str(), message.id()))
        };
        let old: Vec<_> = self.order.iter().filter(is_old).collect();
        let of = |at: &&usize| self.came.messages[**at].message.source.as_str().to_owned();
        let (sources, ids): (Vec<_>, Vec<_>) =
            old.iter().map(|at| (of(at), self.came.messages[**at].message.id().to_owned())).unzip();
        let values =
            [Value::Text(Some(&self.consumer)), Value::Names(&sources), Value::Names(&ids)];
        let text = (*inbox.transact.inner.statements.inbox_recorded_all).into();
        let rows = tx.ask_all(text, &values).await?;
        if rows.len() < old.len() {
            return Ok(None);
        }
        let read =
            |row: &T::Row| Ok((known::message(row, known::COLUMNS)?, known::recorded(row, 0)?));
        rows.iter().map(read).collect::<Result<_, Fault>>().map(Some)
    }

    /// Moves the position behind the batch from wherever it stands inside of it. Returns the first offset
    /// that is new, and when; `None` if another owner has handled all of it.
    async fn moved<T: Tx>(
        &self,
        span: &Span,
        inbox: &Inbox,
        tx: &mut T,
        answer: Option<T::Row>,
    ) -> Result<Option<(u64, T::Row)>, Fault> {
        let statements = &inbox.transact.inner.statements;
        let answer = match answer {
            Some(answer) => Some(answer),
            // The log is new, or the position stands behind the first.
            None => tx.ask((*statements.inbox_move).into(), &self.moves(span, span.first)).await?,
        };
        if let Some(answer) = answer {
            return Ok(Some((span.first, answer)));
        }
        let logs = [span.log.as_str().to_owned()];
        let values = [Value::Text(Some(&self.consumer)), Value::Names(&logs)];
        let row = tx.ask((*statements.inbox_position).into(), &values).await?;
        let next = match &row {
            Some(row) => row::count(row, 1)?.unwrap_or_default(),
            None => return Err(damaged("a position went backwards; restore a backup").into()),
        };
        if next >= span.end {
            return Ok(None);
        }
        let moved = tx.ask((*statements.inbox_move).into(), &self.moves(span, next)).await?;
        Ok(moved.map(|row| (next, row)))
    }
}

impl<T: Tx> Form<T> for AskedAll {
    type Guard = Batch<T>;
    type Told = Told;

    async fn met(
        self,
        inbox: &Inbox,
        mut tx: T,
        answer: Result<Option<T::Row>, Fault>,
    ) -> Result<Met<T, Batch<T>, Told>, Fault> {
        let answer = answer?;
        let (verdicts, row) = match &self.came.span {
            None => {
                let row = answer.ok_or_else(|| damaged("the schema did not answer a receipt"))?;
                let old = match row.text(2)? {
                    None => HashMap::new(),
                    Some(new) => match self.old(inbox, &mut tx, new).await? {
                        None => return Ok(Met::Retry(forgotten())),
                        Some(old) => old,
                    },
                };
                let judge = |one: &Incoming| match old.get(&one.message) {
                    None => Ok::<_, Fault>(Verdict::First),
                    Some(recorded) => Ok(one.known(recorded.clone())),
                };
                (self.came.by_names(row::instant(&row, 0)?, judge)?, row)
            }
            Some(span) => match self.moved(span, inbox, &mut tx, answer).await? {
                None => return Ok(Met::Told(tx, Told(self.came.by_positions(span.end)))),
                Some((next, row)) => (self.came.by_positions(next), row),
            },
        };
        if !verdicts.contains(&Verdict::First) {
            return Ok(Met::Told(tx, Told(verdicts)));
        }
        inbox.durably(&mut tx, row.truth(1)?).await?;
        let judged = Judged { messages: self.came.messages, verdicts, at: row::instant(&row, 0)? };
        let (inbox, append, kept) = (inbox.clone(), Append::default(), Kept::default());
        Ok(Met::Run(Batch { tx, inbox, judged, append, kept }))
    }
}

impl<'c> Deref for Batch<Transaction<'c>> {
    type Target = Transaction<'c>;

    fn deref(&self) -> &Transaction<'c> {
        &self.tx
    }
}

impl<L: Lent> Deref for Batch<Started<L>> {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.tx.client()
    }
}

#[cfg(feature = "sqlx")]
impl Deref for Batch<sqlx::Transaction<'_, sqlx::Postgres>> {
    type Target = sqlx::PgConnection;

    fn deref(&self) -> &sqlx::PgConnection {
        &self.tx
    }
}

/// For queries.
#[cfg(feature = "sqlx")]
impl std::ops::DerefMut for Batch<sqlx::Transaction<'_, sqlx::Postgres>> {
    fn deref_mut(&mut self) -> &mut sqlx::PgConnection {
        &mut self.tx
    }
}
