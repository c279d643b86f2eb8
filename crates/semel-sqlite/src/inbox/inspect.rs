//! Reads of operators, and their words.

use async_trait::async_trait;
use rusqlite::{Connection, Row};
use semel::{
    StoreError, Timestamp,
    inbox::{
        Consumer, ConsumerState, Had, InboxAudit, InboxAuditKind, InboxInspect, LogId, Mark,
        MessageId, MessageState, ParkedFilter, ParkedMessage, ParkedState, Standing,
        inspect::{COUNT_MAX, LIST_MAX},
    },
    store::{Actor, actor_within_bounds},
};

use super::{
    known::{self, bad_name},
    parked,
    store::attempts,
};
use crate::{
    SqliteStore,
    error::{Fault, damaged},
    queries,
    queue::Lane,
    reader, row,
    step::Step,
    verb::Verb,
};

/// A page of parked messages also ends after the one with which its payloads pass 32 MiB: only an empty
/// page is the end.
#[async_trait]
impl InboxInspect for SqliteStore {
    async fn consumers(&self) -> Result<Vec<ConsumerState>, StoreError> {
        let time = self.readers.time();
        let read = move |conn: &Connection| {
            let snapshot = conn.unchecked_transaction().map_err(Fault::from)?;
            reader::observe(&snapshot, &time)?;
            Ok(consumers(&snapshot, time.now())?)
        };
        self.readers.ask(read).await
    }

    async fn had(
        &self,
        consumer: Consumer,
        after: Option<MessageId>,
        limit: u32,
    ) -> Result<Vec<Had>, StoreError> {
        let read = move |conn: &Connection| {
            let after = after.as_ref();
            let name = (
                consumer.as_str(),
                after.map_or("", |after| after.source.as_str()),
                after.map_or("", MessageId::id),
                bounded(limit),
            );
            Ok(all(conn, queries::INBOX_HAD, name, had)?)
        };
        self.readers.ask(read).await
    }

    async fn message(
        &self,
        consumer: Consumer,
        message: MessageId,
    ) -> Result<MessageState, StoreError> {
        let time = self.readers.time();
        let read = move |conn: &Connection| {
            let snapshot = conn.unchecked_transaction().map_err(Fault::from)?;
            reader::observe(&snapshot, &time)?;
            let attempts = attempts(&snapshot, &consumer, &message, time.now())?;
            Ok(MessageState {
                recorded: known::of(&snapshot, consumer.as_str(), &message)?,
                parked: parked::one(&snapshot, &consumer, &message)?,
                attempts: Some(attempts).filter(|attempts| attempts.count > 0),
            })
        };
        self.readers.ask(read).await
    }

    async fn chain(&self, id: Box<str>) -> Result<Vec<Had>, StoreError> {
        let read =
            move |conn: &Connection| Ok(all(conn, queries::INBOX_CHAIN, (id, LIST_MAX), had)?);
        self.readers.ask(read).await
    }

    async fn parked(&self, filter: ParkedFilter) -> Result<Vec<ParkedMessage>, StoreError> {
        let limit = bounded(filter.limit);
        self.readers.ask(move |conn| Ok(parked::list(conn, &filter, limit)?)).await
    }

    async fn mark(
        &self,
        consumer: Consumer,
        message: MessageId,
        mark: Mark,
        actor: Actor,
    ) -> Result<bool, StoreError> {
        actor_within_bounds(&actor)?;
        self.write(Lane::Later, Marking { consumer, message, mark, actor }).await
    }

    async fn inbox_audit(
        &self,
        consumer: Option<Consumer>,
        limit: u32,
    ) -> Result<Vec<InboxAudit>, StoreError> {
        let read = move |conn: &Connection| {
            let name = (bounded(limit), consumer.as_ref().map(Consumer::as_str));
            Ok(all(conn, queries::INBOX_AUDIT, name, entry)?)
        };
        self.readers.ask(read).await
    }
}

fn bounded(limit: u32) -> i64 {
    i64::from(limit.min(LIST_MAX))
}

/// Reads all rows of a statement.
fn all<T>(
    conn: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    read: impl Fn(&Row<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(read(row)?);
    }
    Ok(all)
}

fn had(row: &Row<'_>) -> Result<Had, Fault> {
    Ok(Had {
        consumer: known::consumer(row, known::COLUMNS)?,
        message: known::message(row, known::COLUMNS + 1)?,
        recorded: known::recorded(row)?,
    })
}

fn consumers(conn: &Connection, now: Timestamp) -> Result<Vec<ConsumerState>, Fault> {
    let state = |row: &Row<'_>| {
        let consumer = known::consumer(row, 0)?;
        let oldest: Option<i64> = row.get(4)?;
        let log = |row: &Row<'_>| {
            let log = LogId::new(row.get_ref(0)?.as_str().unwrap_or_default()).map_err(bad_name)?;
            Ok((log, row::count(row, 1)?))
        };
        let name = (consumer.as_str(), COUNT_MAX);
        Ok(ConsumerState {
            remembered: row::count(row, 1)?,
            positions: all(conn, queries::INBOX_POSITIONS, name, log)?,
            failed: row::count(row, 2)?,
            retry: row::count(row, 3)?,
            oldest_failed: oldest.map(|_| row::instant(row, 4)).transpose()?,
            attempted: row::count(row, 5)?,
            now,
            consumer,
        })
    };
    all(conn, queries::INBOX_CONSUMERS, (LIST_MAX, COUNT_MAX), state)
}

fn entry(row: &Row<'_>) -> Result<InboxAudit, Fault> {
    let kind = row.get_ref(1)?.as_str().ok().and_then(InboxAuditKind::from_word);
    Ok(InboxAudit {
        consumer: known::consumer(row, 2)?,
        message: known::message(row, 3)?,
        at: row::instant(row, 0)?,
        kind: kind.ok_or_else(|| damaged("an audit row has an unknown kind; upgrade semel"))?,
        actor: row.get(5)?,
        note: row.get(6)?,
    })
}

#[derive(Debug)]
struct Marking {
    consumer: Consumer,
    message: MessageId,
    mark: Mark,
    actor: Actor,
}

impl Verb for Marking {
    type Answer = bool;

    fn run(&self, step: &mut Step<'_>) -> Result<bool, Fault> {
        let Self { consumer, message, mark, actor } = self;
        let (consumer_name, source, id) =
            (consumer.as_str(), message.source.as_str(), message.id());
        let (standing, state) = match mark {
            Mark::Drop => (Standing::LeftOut, None),
            Mark::Retry => (Standing::Parked, Some(ParkedState::Retry)),
            Mark::Skip => (Standing::LeftOut, Some(ParkedState::Skipped)),
        };
        let conn = step.conn();
        let mut statement = conn.prepare_cached(queries::INBOX_STAND)?;
        if statement.execute((consumer_name, source, id, standing.as_str()))? == 0 {
            return Ok(false);
        }
        step.wrote();
        match state {
            Some(state) => conn.prepare_cached(queries::INBOX_MARK)?.execute((
                consumer_name,
                source,
                id,
                state.as_str(),
            ))?,
            None => {
                conn.prepare_cached(queries::INBOX_DROP)?.execute((consumer_name, source, id))?
            }
        };
        let kind = InboxAuditKind::Marked(*mark);
        step.said_of(consumer, message, kind, (&actor.name, &actor.note))?;
        Ok(true)
    }
}
