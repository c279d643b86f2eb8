//! Several messages in one transaction: one statement receives them all.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fmt,
    ops::Deref,
};

use bytes::Bytes;
use semel::{
    Fingerprint, StoreError, Timestamp,
    inbox::{By, Delivery, Handled, LogId, MessageId, Recorded, Standing, store::READ_MAX},
    outbox::{Event, EventId},
};
use tokio_postgres::{Client, Transaction};

use super::{
    Inbox,
    form::{Form, Met},
    guard::cause,
    known,
    receive::{forgotten, no_position, offset},
};
use crate::{
    error::{Fault, damaged, invalid},
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

/// What is to be done about one message of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Nothing: the consumer had it before, or it stands further ahead in this batch.
    Duplicate(Option<Recorded>),
    /// Its effect.
    First,
    /// Nothing: the consumer had another message under this id.
    Mismatch(Recorded),
}

impl Verdict {
    /// What became of a message that needed nothing.
    pub(super) fn handled(self) -> Handled {
        match self {
            Self::Duplicate(recorded) => Handled::Duplicate(recorded),
            Self::First => Handled::Duplicate(None),
            Self::Mismatch(recorded) => Handled::Mismatch(recorded),
        }
    }
}

/// A transaction in which several messages are handled. It is committed only once it is given back.
#[must_use = "dropping the guard rolls the transaction back"]
pub struct Batch<T: Tx> {
    tx: T,
    inbox: Inbox,
    asked: AskedAll,
    at: Timestamp,
    verdicts: Vec<Verdict>,
    answers: BTreeMap<usize, Bytes>,
    append: Append,
    events: BTreeMap<usize, Vec<EventId>>,
}

impl<T: Tx> Batch<T> {
    /// Says what is to be done about each message, in the order given.
    #[must_use]
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    /// Returns the places of the messages that are new, in the order given.
    pub fn new_ones(&self) -> impl Iterator<Item = usize> + use<T> {
        let first: Vec<_> = self.verdicts.iter().map(|v| *v == Verdict::First).collect();
        first.into_iter().enumerate().filter(|(_, first)| *first).map(|(at, _)| at)
    }

    /// Records what copies of the message at a place are answered with.
    ///
    /// # Errors
    ///
    /// Refuses a place at which the batch has no message; the guard can be used on.
    pub fn answer(&mut self, at: usize, answer: Bytes) -> Result<(), StoreError> {
        if at >= self.asked.messages.len() {
            return Err(invalid("the batch has no message at this place"));
        }
        self.answers.insert(at, answer);
        Ok(())
    }

    /// Has an event of the message at a place leave if and only if this transaction commits, as
    /// [`Handling::publish`](super::Handling::publish) does.
    ///
    /// # Errors
    ///
    /// Refuses an event that breaks a bound, one too many, or one of no message; the guard can be used
    /// on.
    pub fn publish(&mut self, at: usize, mut event: Event) -> Result<EventId, StoreError> {
        let one = self.asked.messages.get(at);
        let one = one.ok_or_else(|| invalid("the batch has no message at this place"))?;
        event.cause = event.cause.or_else(|| cause(&one.message));
        let id = event.id;
        self.append.push(event)?;
        self.events.entry(at).or_default().push(id);
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
        let (mut tx, last) = self.finish().parts()?;
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
        f.debug_struct("Batch").field("verdicts", &self.verdicts).finish_non_exhaustive()
    }
}

/// What the work of a run gives back: made by [`Batch::finish`].
#[derive(Debug)]
#[must_use = "dropping it rolls the transaction back"]
pub struct FinishedAll<T: Tx>(Batch<T>);

impl<T: Tx> FinishedAll<T> {
    pub(super) fn parts(self) -> Result<(T, LastAll), StoreError> {
        let Batch { tx, inbox, asked, at, verdicts, answers, append, events } = self.0;
        if answers.values().any(|answer| answer.len() > Recorded::ANSWER_MAX) {
            return Err(invalid("an answer has more than 1 MiB; keep a pointer to it instead"));
        }
        if !answers.is_empty() && inbox.policy.by == By::Positions {
            return Err(invalid(
                "a consumer that knows messages by positions records no answers; publish an event",
            ));
        }
        let mut last =
            LastAll { inbox, asked, at, verdicts, answers, append, events, rows: Rows::default() };
        last.fill();
        Ok((tx, last))
    }
}

/// What is written at the end of a batch.
pub(super) struct LastAll {
    inbox: Inbox,
    asked: AskedAll,
    at: Timestamp,
    verdicts: Vec<Verdict>,
    answers: BTreeMap<usize, Bytes>,
    pub(super) append: Append,
    events: BTreeMap<usize, Vec<EventId>>,
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

impl LastAll {
    fn fill(&mut self) {
        if self.inbox.policy.by == By::Positions {
            return;
        }
        let places: BTreeSet<_> = self.answers.keys().chain(self.events.keys()).collect();
        for at in places {
            let message = &self.asked.messages[*at].message;
            self.rows.sources.push(message.source.as_str().to_owned());
            self.rows.ids.push(message.id().to_owned());
            self.rows.bodies.push(self.answers.get(at).map(|answer| answer.to_vec()));
            let none = Vec::new();
            self.rows.events.push(known::array(self.events.get(at).unwrap_or(&none)));
        }
    }

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

    /// What became of each message, once this is committed.
    pub(super) fn handled(mut self) -> Vec<Handled> {
        let one = |(at, verdict): (usize, Verdict)| match verdict {
            Verdict::First => Handled::First(Recorded {
                fingerprint: self.asked.messages[at].fingerprint,
                standing: Standing::Done,
                answer: self.answers.remove(&at),
                events: self.events.remove(&at).unwrap_or_default(),
                at: self.at,
            }),
            other => other.handled(),
        };
        std::mem::take(&mut self.verdicts).into_iter().enumerate().map(one).collect()
    }
}

/// What a receipt of several messages asks.
#[derive(Debug)]
pub(super) struct AskedAll {
    messages: Vec<One>,
    consumer: Box<str>,
    remember_us: i64,
    idle_ms: Value<'static>,
    /// The places of what is asked for, sorted by name, each name once.
    order: Vec<usize>,
    sources: Vec<String>,
    ids: Vec<String>,
    digests: Vec<Option<Vec<u8>>>,
    /// The log and the range of offsets, if the consumer knows messages by positions.
    range: Option<(LogId, u64, u64)>,
}

#[derive(Debug)]
struct One {
    message: MessageId,
    fingerprint: Fingerprint,
    offset: Option<u64>,
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
    /// As [`Inbox::receive`]; also if there are none, more than [`READ_MAX`], or parked ones.
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
        if deliveries.is_empty() || deliveries.len() > READ_MAX {
            return Err(invalid("a batch has no message, or more than 10,000"));
        }
        if deliveries.iter().any(|delivery| delivery.parked) {
            return Err(invalid("a parked message is run again by itself"));
        }
        let one = |delivery: &Delivery| One {
            message: delivery.message.clone(),
            fingerprint: (self.fingerprint)(delivery),
            offset: delivery.position.as_ref().map(|position| position.offset),
        };
        let messages: Vec<_> = deliveries.iter().map(one).collect();
        let range = match self.policy.by {
            By::Ids => None,
            By::Positions => Some(range(deliveries)?),
        };
        let mut order: Vec<_> = (0..messages.len()).collect();
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
                .map(|at| Some(known::digest(&named(at).fingerprint).to_vec()))
                .collect(),
            order,
            messages,
            range,
        })
    }
}

/// The log of a batch, its first offset and its last.
fn range(deliveries: &[Delivery]) -> Result<(LogId, u64, u64), StoreError> {
    let positions: Option<Vec<_>> = deliveries.iter().map(|d| d.position.as_ref()).collect();
    let positions = positions.ok_or_else(no_position)?;
    let ordered = positions
        .windows(2)
        .all(|pair| pair[0].log == pair[1].log && pair[0].offset < pair[1].offset);
    match (positions.first(), positions.last()) {
        (Some(first), Some(last)) if ordered => Ok((first.log.clone(), first.offset, last.offset)),
        _ => Err(invalid("a batch that is known by positions is of one log, in its order")),
    }
}

impl First for AskedAll {
    fn text<'t>(&self, transact: &'t Transact, _: Option<&'t Prepared>) -> Text<'t> {
        let (statements, keep) = (&transact.inner.statements, transact.inner.keep);
        let text = match self.range {
            None => &statements.inbox_receive_all,
            Some(_) => &statements.inbox_move,
        };
        Text { text, prepared: None, keep }
    }

    fn values(&self) -> Vec<Value<'_>> {
        match &self.range {
            None => vec![
                Value::Text(Some(&self.consumer)),
                Value::Names(&self.sources),
                Value::Names(&self.ids),
                Value::Bodies(&self.digests),
                Value::Bigint(Some(self.remember_us)),
                self.idle_ms,
            ],
            Some((_, first, _)) => self.moves(*first),
        }
    }
}

impl AskedAll {
    /// The parameters of a move from an offset behind the batch.
    fn moves(&self, from: u64) -> Vec<Value<'_>> {
        let Some((log, _, last)) = &self.range else { return Vec::new() };
        vec![
            Value::Text(Some(&self.consumer)),
            Value::Text(Some(log.as_str())),
            Value::Bigint(Some(offset(from))),
            Value::Bigint(Some(offset(*last).saturating_add(1))),
            self.idle_ms,
        ]
    }

    /// Judges each message by what is remembered of those that are not new.
    fn verdicts(&self, old: &HashMap<MessageId, Recorded>, at: Timestamp) -> Vec<Verdict> {
        let mut seen: HashMap<&MessageId, &Fingerprint> = HashMap::new();
        let mut verdicts = Vec::with_capacity(self.messages.len());
        for one in &self.messages {
            verdicts.push(match seen.get(&one.message) {
                None => {
                    seen.insert(&one.message, &one.fingerprint);
                    judge(one, old)
                }
                Some(first) if **first == one.fingerprint => Verdict::Duplicate(None),
                Some(first) => Verdict::Mismatch(Recorded {
                    fingerprint: **first,
                    standing: Standing::Done,
                    answer: None,
                    events: Vec::new(),
                    at,
                }),
            });
        }
        verdicts
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
            let message = &self.messages[**at].message;
            !new.contains(&(message.source.as_str(), message.id()))
        };
        let old: Vec<_> = self.order.iter().filter(is_old).collect();
        let of = |at: &&usize| self.messages[**at].message.source.as_str().to_owned();
        let (sources, ids): (Vec<_>, Vec<_>) =
            old.iter().map(|at| (of(at), self.messages[**at].message.id().to_owned())).unzip();
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
        inbox: &Inbox,
        tx: &mut T,
        answer: Option<T::Row>,
    ) -> Result<Option<(u64, T::Row)>, Fault> {
        let Some((log, first, last)) = &self.range else { return Ok(None) };
        if let Some(answer) = answer {
            return Ok(Some((*first, answer)));
        }
        let statements = &inbox.transact.inner.statements;
        let logs = [log.as_str().to_owned()];
        let values = [Value::Text(Some(&self.consumer)), Value::Names(&logs)];
        let row = tx.ask((*statements.inbox_position).into(), &values).await?;
        let next = match &row {
            Some(row) => row::count(row, 1)?.unwrap_or_default(),
            None => return Err(damaged("a position went backwards; restore a backup").into()),
        };
        if next > *last {
            return Ok(None);
        }
        let moved = tx.ask((*statements.inbox_move).into(), &self.moves(next)).await?;
        Ok(moved.map(|row| (next, row)))
    }
}

/// Judges a message by what is remembered of those that are not new.
fn judge(one: &One, old: &HashMap<MessageId, Recorded>) -> Verdict {
    match old.get(&one.message) {
        None => Verdict::First,
        Some(recorded) if known::differs(recorded, &one.fingerprint) => {
            Verdict::Mismatch(recorded.clone())
        }
        Some(recorded) => Verdict::Duplicate(Some(recorded.clone())),
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
        let (verdicts, at, is_volatile) = if self.range.is_some() {
            match self.moved(inbox, &mut tx, answer).await? {
                None => (vec![Verdict::Duplicate(None); self.messages.len()], None, None),
                Some((from, row)) => {
                    let is_new = |one: &One| one.offset >= Some(from);
                    let verdict = |one| match is_new(one) {
                        true => Verdict::First,
                        false => Verdict::Duplicate(None),
                    };
                    let verdicts = self.messages.iter().map(verdict).collect();
                    (verdicts, Some(row::instant(&row, 0)?), row.truth(1)?)
                }
            }
        } else {
            let row = answer.ok_or_else(|| damaged("the schema did not answer a receipt"))?;
            let at = row::instant(&row, 0)?;
            let old = match row.text(2)? {
                None => HashMap::new(),
                Some(new) => match self.old(inbox, &mut tx, new).await? {
                    None => return Ok(Met::Retry(forgotten())),
                    Some(old) => old,
                },
            };
            (self.verdicts(&old, at), Some(at), row.truth(1)?)
        };
        let Some(at) = at.filter(|_| verdicts.contains(&Verdict::First)) else {
            return Ok(Met::Told(tx, Told(verdicts)));
        };
        inbox.durably(&mut tx, is_volatile).await?;
        Ok(Met::Run(Batch {
            tx,
            inbox: inbox.clone(),
            asked: self,
            at,
            verdicts,
            answers: BTreeMap::new(),
            append: Append::default(),
            events: BTreeMap::new(),
        }))
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
