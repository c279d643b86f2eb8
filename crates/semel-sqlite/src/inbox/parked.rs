//! Copies of messages that could not be handled.

use std::time::Duration;

use bytes::Bytes;
use rusqlite::{Connection, Rows};
use semel::{
    Timestamp,
    inbox::{
        Consumer, LogId, MessageId, Park, ParkAnswer, ParkedFilter, ParkedMessage, ParkedState,
        Position,
    },
};

use super::{
    known::{self, bad_name},
    receive::number,
    store::LOCK_WAIT,
};
use crate::{
    error::{Fault, damaged},
    queries, row,
    step::Step,
    verb::Verb,
};

/// How many bytes of payloads one answer carries at most, beside one message.
const PAGE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Parks a message.
#[derive(Debug)]
pub(super) struct Parking(pub(super) Park);

impl Verb for Parking {
    type Answer = ParkAnswer;
    const LOCK_WAIT: Duration = LOCK_WAIT;

    fn run(&self, step: &mut Step<'_>) -> Result<ParkAnswer, Fault> {
        let Park { consumer, delivery, fingerprint, moves, .. } = &self.0;
        let name = (consumer.as_str(), delivery.message.source.as_str(), delivery.message.id());
        let now = step.now();
        if let Some(recorded) = known::of(step.conn(), name.0, &delivery.message)?
            && recorded.standing != semel::inbox::Standing::Parked
        {
            return Ok(ParkAnswer::Ended);
        }
        if let Some(Position { log, offset }) = delivery.position.as_ref().filter(|_| *moves)
            && !step.moves(name.0, log, (*offset, offset.saturating_add(1)), now)?
        {
            return Ok(ParkAnswer::Ended);
        }
        step.wrote();
        let (conn, now) = (step.conn(), row::micros(now));
        conn.prepare_cached(queries::INBOX_REMEMBER)?.execute((
            name.0,
            name.1,
            name.2,
            fingerprint.to_bytes(),
            now,
        ))?;
        self.copy(conn, now)?;
        let mut statement = conn.prepare_cached(queries::INBOX_UNCOUNTED)?;
        statement.execute((name.0, name.1, name.2, u32::MAX))?;
        Ok(ParkAnswer::Parked)
    }
}

impl Parking {
    fn copy(&self, conn: &Connection, now: i64) -> Result<(), Fault> {
        let Park { consumer, delivery, attempts, why, .. } = &self.0;
        let position = delivery.position.as_ref();
        let mut statement = conn.prepare_cached(queries::INBOX_PARK)?;
        let copy: i64 = statement.query_row(
            rusqlite::params![
                consumer.as_str(),
                delivery.message.source.as_str(),
                delivery.message.id(),
                attempts,
                why,
                now,
                position.map(|position| position.log.as_str()),
                position.map(|position| number(position.offset)),
                delivery.sent_at.map(row::micros),
                delivery.key.as_deref(),
                delivery.payload.as_deref(),
            ],
            |row| row.get(0),
        )?;
        let mut statement = conn.prepare_cached(queries::INBOX_HEADER)?;
        for (place, (name, value)) in (0_u32..).zip(&delivery.headers) {
            statement.execute((copy, place, name, &**value))?;
        }
        Ok(())
    }
}

/// Lists what is to be run again.
pub(super) fn due(
    conn: &Connection,
    consumer: &Consumer,
    limit: i64,
) -> Result<Vec<ParkedMessage>, Fault> {
    let mut statement = conn.prepare_cached(queries::INBOX_DUE)?;
    page(conn, statement.query((consumer.as_str(), limit))?)
}

/// Lists what a filter names.
pub(super) fn list(
    conn: &Connection,
    filter: &ParkedFilter,
    limit: i64,
) -> Result<Vec<ParkedMessage>, Fault> {
    let after = filter.after.as_ref();
    let mut statement = conn.prepare_cached(queries::INBOX_PARKED)?;
    let rows = statement.query((
        after.map_or("", |(consumer, _)| consumer.as_str()),
        after.map_or("", |(_, message)| message.source.as_str()),
        after.map_or("", |(_, message)| message.id()),
        filter.consumer.as_ref().map(Consumer::as_str),
        filter.state.map(ParkedState::as_str),
        limit,
    ))?;
    page(conn, rows)
}

/// Reads one copy.
pub(super) fn one(
    conn: &Connection,
    consumer: &Consumer,
    message: &MessageId,
) -> Result<Option<ParkedMessage>, Fault> {
    let mut statement = conn.prepare_cached(queries::INBOX_PARKED_ONE)?;
    let rows = statement.query((consumer.as_str(), message.source.as_str(), message.id()))?;
    Ok(page(conn, rows)?.pop())
}

fn page(conn: &Connection, mut rows: Rows<'_>) -> Result<Vec<ParkedMessage>, Fault> {
    let (mut parked, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let log: Option<Box<str>> = row.get(8)?;
        let log = log.map(LogId::new).transpose().map_err(bad_name)?;
        let number = |at: usize| -> Result<Option<u64>, Fault> {
            row.get::<_, Option<i64>>(at)?.map(|_| row::count(row, at)).transpose()
        };
        let blob = |at: usize| -> Result<Option<Bytes>, Fault> {
            Ok(row.get::<_, Option<Vec<u8>>>(at)?.map(Bytes::from))
        };
        let state = row.get_ref(4)?.as_str().ok().and_then(ParkedState::from_word);
        let payload = blob(12)?;
        bytes += payload.as_ref().map_or(0, Bytes::len);
        parked.push(ParkedMessage {
            consumer: known::consumer(row, 1)?,
            message: known::message(row, 2)?,
            payload,
            headers: headers(conn, row.get(0)?)?,
            key: blob(11)?,
            position: log.zip(number(9)?).map(|(log, offset)| Position { log, offset }),
            sent_at: number(10)?.map(Timestamp::from_micros),
            state: state.ok_or_else(|| {
                damaged("a parked message has a state that this version does not know; upgrade")
            })?,
            attempts: row.get(5)?,
            why: row.get(6)?,
            parked_at: row::instant(row, 7)?,
        });
        if bytes > PAGE_BYTES_MAX {
            break;
        }
    }
    Ok(parked)
}

fn headers(conn: &Connection, copy: i64) -> Result<Vec<(Box<str>, Bytes)>, Fault> {
    let mut statement = conn.prepare_cached(queries::INBOX_HEADERS)?;
    let mut rows = statement.query([copy])?;
    let mut headers = Vec::new();
    while let Some(row) = rows.next()? {
        headers.push((row.get(0)?, Bytes::from(row.get::<_, Vec<u8>>(1)?)));
    }
    Ok(headers)
}
