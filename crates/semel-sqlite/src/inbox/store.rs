//! What happens beside the transactions of the effects: attempts, parking, positions.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use semel::{
    StoreError, Timestamp,
    inbox::{
        Attempts, Consumer, InboxAuditKind, InboxStore, LogId, MessageId, Mismatch, Park,
        ParkAnswer, ParkedMessage, Uncount,
        store::{READ_MAX, each_once, within_read},
    },
};

use super::{
    batch::position,
    parked::{self, Parking},
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

/// How long a transaction of another connection is waited for.
pub(super) const LOCK_WAIT: Duration = Duration::from_secs(1);

#[async_trait]
impl InboxStore for SqliteStore {
    async fn check(&self) -> Result<(), StoreError> {
        self.readers.ask(check).await
    }

    async fn attempts(
        &self,
        consumer: Consumer,
        messages: Vec<MessageId>,
    ) -> Result<Vec<Attempts>, StoreError> {
        within_read(messages.len())?;
        let time = self.readers.time();
        let read = move |conn: &Connection| {
            reader::observe(conn, &time)?;
            let now = time.now();
            let of = |message: &MessageId| attempts(conn, &consumer, message, now);
            Ok(messages.iter().map(of).collect::<Result<_, Fault>>()?)
        };
        self.readers.ask(read).await
    }

    async fn count(
        &self,
        consumer: Consumer,
        messages: Vec<MessageId>,
    ) -> Result<Vec<Attempts>, StoreError> {
        within_read(messages.len())?;
        self.write(Lane::First, Count { consumer, messages }).await
    }

    async fn uncount(
        &self,
        consumer: Consumer,
        messages: Vec<MessageId>,
        why: Uncount,
    ) -> Result<(), StoreError> {
        within_read(messages.len())?;
        self.write(Lane::First, Forget { consumer, messages, why }).await
    }

    async fn park(&self, park: Park) -> Result<ParkAnswer, StoreError> {
        park.check()?;
        self.write(Lane::First, Parking(park)).await
    }

    /// Lists parked messages that are to be run again. A list also ends after the message with which its
    /// payloads pass 32 MiB.
    async fn due(
        &self,
        consumer: Consumer,
        limit: usize,
    ) -> Result<Vec<ParkedMessage>, StoreError> {
        let limit = i64::try_from(limit.min(READ_MAX)).unwrap_or(i64::MAX);
        self.readers.ask(move |conn| Ok(parked::due(conn, &consumer, limit)?)).await
    }

    async fn positions(
        &self,
        consumer: Consumer,
        logs: Vec<LogId>,
    ) -> Result<Vec<Option<u64>>, StoreError> {
        within_read(logs.len())?;
        let read = move |conn: &Connection| {
            let of = |log: &LogId| position(conn, consumer.as_str(), log);
            Ok(logs.iter().map(of).collect::<Result<_, Fault>>()?)
        };
        self.readers.ask(read).await
    }

    async fn report(&self, mismatch: Mismatch) -> Result<(), StoreError> {
        self.write(Lane::Later, Report(mismatch)).await
    }
}

fn check(conn: &Connection) -> Result<(), StoreError> {
    let kept = || -> Result<u32, Fault> {
        Ok(conn.prepare_cached(queries::INBOX_CHECK)?.query_row([], |row| row.get(0))?)
    };
    if kept()? == 2 {
        return Ok(());
    }
    Err(damaged(
        "the file does not keep the names of messages unique; restore the tables semel_inbox and \
         semel_inbox_position as they were made, and consume nothing before",
    ))
}

/// Reads how often a message was run.
pub(super) fn attempts(
    conn: &Connection,
    consumer: &Consumer,
    message: &MessageId,
    now: Timestamp,
) -> Result<Attempts, Fault> {
    let mut statement = conn.prepare_cached(queries::INBOX_ATTEMPTS)?;
    let mut rows = statement.query((consumer.as_str(), message.source.as_str(), message.id()))?;
    let Some(row) = rows.next()? else {
        return Ok(Attempts { count: 0, first_at: now, now });
    };
    Ok(Attempts { count: row.get(0)?, first_at: row::instant(row, 1)?, now })
}

#[derive(Debug)]
struct Count {
    consumer: Consumer,
    messages: Vec<MessageId>,
}

impl Verb for Count {
    type Answer = Vec<Attempts>;
    const LOCK_WAIT: Duration = LOCK_WAIT;

    fn run(&self, step: &mut Step<'_>) -> Result<Vec<Attempts>, Fault> {
        let Self { consumer, messages } = self;
        let now = step.now();
        step.wrote();
        let conn = step.conn();
        let mut statement = conn.prepare_cached(queries::INBOX_COUNT)?;
        for message in each_once(messages) {
            let (source, id) = (message.source.as_str(), message.id());
            statement.execute((consumer.as_str(), source, id, row::micros(now)))?;
        }
        messages.iter().map(|message| attempts(conn, consumer, message, now)).collect()
    }
}

#[derive(Debug)]
struct Forget {
    consumer: Consumer,
    messages: Vec<MessageId>,
    why: Uncount,
}

impl Verb for Forget {
    type Answer = ();
    const LOCK_WAIT: Duration = LOCK_WAIT;

    fn run(&self, step: &mut Step<'_>) -> Result<(), Fault> {
        step.wrote();
        let conn = step.conn();
        for message in each_once(&self.messages) {
            let name = (self.consumer.as_str(), message.source.as_str(), message.id());
            let (name_0, name_1, name_2) = name;
            let forget = |at_most: u32| -> Result<(), Fault> {
                let mut statement = conn.prepare_cached(queries::INBOX_UNCOUNTED)?;
                statement.execute((name_0, name_1, name_2, at_most))?;
                Ok(())
            };
            match self.why {
                Uncount::Ended => {
                    forget(u32::MAX)?;
                    conn.prepare_cached(queries::INBOX_UNPARK)?.execute(name)?;
                }
                Uncount::GivenBack => {
                    conn.prepare_cached(queries::INBOX_UNCOUNT)?.execute(name)?;
                    forget(0)?;
                }
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Report(Mismatch);

impl Verb for Report {
    type Answer = ();
    const LOCK_WAIT: Duration = LOCK_WAIT;

    fn run(&self, step: &mut Step<'_>) -> Result<(), Fault> {
        let Mismatch { consumer, message, .. } = &self.0;
        step.said_of(consumer, message, InboxAuditKind::Mismatch, ("", &self.0.note()))
    }
}

impl Step<'_> {
    /// Adds a row to the audit of inboxes, whose oldest rows go: who said it, and what.
    pub(super) fn said_of(
        &mut self,
        consumer: &Consumer,
        message: &MessageId,
        kind: InboxAuditKind,
        (actor, note): (&str, &str),
    ) -> Result<(), Fault> {
        let at = row::micros(self.now());
        self.wrote();
        let conn = self.conn();
        conn.prepare_cached(queries::INBOX_NOTE)?.execute((
            at,
            kind.as_str(),
            consumer.as_str(),
            message.source.as_str(),
            message.id(),
            actor,
            note,
        ))?;
        conn.prepare_cached(queries::INBOX_NOTE_TRIM)?.execute([self.audit_max()])?;
        Ok(())
    }
}
