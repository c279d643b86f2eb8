//! An event as a row, and back. Nothing else knows the columns.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{CachedStatement, Connection, Row, Statement, types::ValueRef};
use semel::{
    Fingerprint, IntentId, StoreError, Timestamp,
    outbox::{Cause, Event, EventError, EventId, Lane, Placed, Pos},
};

use crate::{
    error::{Fault, damaged},
    queries, row,
};

/// How many columns an event has in reads.
pub(super) const COLUMNS: usize = 15;

/// What stands for a text that is missing.
const UNREADABLE: &str = Placed::UNREADABLE;

/// Binds the columns of an event, from the first parameter on.
pub(super) fn bind(
    statement: &mut Statement<'_>,
    event: &Event,
    at: Timestamp,
) -> rusqlite::Result<()> {
    let intent = event.intent.as_ref();
    statement.raw_bind_parameter(1, event.id.to_string())?;
    statement.raw_bind_parameter(2, event.lane.kind())?;
    statement.raw_bind_parameter(3, event.lane.id())?;
    statement.raw_bind_parameter(4, &event.kind)?;
    statement.raw_bind_parameter(5, json(&event.headers))?;
    statement.raw_bind_parameter(6, row::micros(at))?;
    statement.raw_bind_parameter(7, event.version)?;
    statement.raw_bind_parameter(8, &event.trace)?;
    statement.raw_bind_parameter(9, intent.map(|id| id.scope.tenant.as_str()))?;
    statement.raw_bind_parameter(10, intent.map(|id| id.scope.operation.as_str()))?;
    statement.raw_bind_parameter(11, intent.map(|id| id.key.as_str()))?;
    statement.raw_bind_parameter(12, intent.map(row::facet))?;
    statement.raw_bind_parameter(13, event.cause.as_ref().map(Cause::as_str))?;
    statement.raw_bind_parameter(14, event.payload.as_deref())
}

/// Writes headers as a JSON object. No name or value holds a control character, so two characters are
/// all that must be escaped.
fn json(headers: &[(Box<str>, Box<str>)]) -> String {
    let mut json = String::from("{");
    for (at, (name, value)) in headers.iter().enumerate() {
        let before = if at == 0 { "" } else { "," };
        for (before, text) in [(before, name), (":", value)] {
            json.push_str(before);
            json.push('"');
            for c in text.chars() {
                if matches!(c, '"' | '\\') {
                    json.push('\\');
                }
                json.push(c);
            }
            json.push('"');
        }
    }
    json.push('}');
    json
}

type Headers = Vec<(Box<str>, Box<str>)>;

/// Makes events of rows.
pub(super) struct Reader<'c> {
    conn: &'c Connection,
    statement: Option<CachedStatement<'c>>,
    /// The last headers that were taken apart: mostly the next row has the same.
    last: (Box<str>, Headers),
}

/// Why a row is no event, or why it could not be looked at.
enum Unread {
    Fault(Fault),
    Unreadable(Box<str>),
}

impl<E: Into<Fault>> From<E> for Unread {
    fn from(fault: E) -> Self {
        Self::Fault(fault.into())
    }
}

fn unreadable<E: std::fmt::Display>(why: E) -> Unread {
    Unread::Unreadable(why.to_string().into())
}

impl<'c> Reader<'c> {
    pub(super) fn new(conn: &'c Connection) -> Self {
        Self { conn, statement: None, last: ("{}".into(), Vec::new()) }
    }

    /// Makes the event of a row whose columns are the first.
    pub(super) fn placed(&mut self, row: &Row<'_>) -> Result<Placed, Fault> {
        let pos = Pos(u64::try_from(row.get::<_, i64>(0)?).unwrap_or_default());
        let at = row::instant(row, 1).unwrap_or_default();
        let (event, unreadable) = match self.event(row) {
            Ok(event) => (event, None),
            Err(Unread::Fault(fault)) => return Err(fault),
            Err(Unread::Unreadable(why)) => (stand_in(row, pos)?, Some(why)),
        };
        Ok(Placed { pos, at, event: Arc::new(event), unreadable })
    }

    fn event(&mut self, row: &Row<'_>) -> Result<Event, Unread> {
        let id = text(row, 2, "id")?.parse().map_err(unreadable)?;
        let lane = Lane::new(text(row, 3, "aggregatetype")?, text(row, 4, "aggregateid")?);
        let payload = payload(row)?;
        let lane = lane.map_err(unreadable)?;
        let mut event = Event::new(id, lane, text(row, 5, "type")?, payload).map_err(unreadable)?;
        event.headers = self.headers(text(row, 6, "headers")?)?;
        event.version = row.get_ref(7)?.as_i64_or_null().map_err(unreadable)?;
        event.trace = optional(row, 8, "trace")?.map(Into::into);
        event.intent = intent(row)?;
        event.cause =
            optional(row, 13, "cause")?.map(Cause::new).transpose().map_err(unreadable)?;
        event.check().map_err(unreadable)?;
        Ok(event)
    }

    fn headers(&mut self, json: &str) -> Result<Headers, Unread> {
        if *self.last.0 == *json {
            return Ok(self.last.1.clone());
        }
        let statement = match &mut self.statement {
            Some(statement) => statement,
            none => none.insert(self.conn.prepare_cached(queries::OUTBOX_HEADERS)?),
        };
        let mut headers = Vec::new();
        let mut rows = statement.query([json])?;
        while let Some(row) = rows.next()? {
            let is_text = row.get_ref(2)?.as_str().is_ok_and(|kind| kind == "text");
            match (row.get_ref(0)?.as_str(), row.get_ref(1)?.as_str()) {
                (Ok(name), Ok(value)) if is_text => headers.push((name.into(), value.into())),
                _ => return Err(unreadable("the headers of an event are no object of text")),
            }
            if headers.len() > Event::HEADERS_MAX {
                let (part, len, max) = ("headers", headers.len(), Event::HEADERS_MAX);
                return Err(unreadable(EventError::TooLarge { part, len, max }));
            }
        }
        self.last = (json.into(), headers.clone());
        Ok(headers)
    }
}

fn text<'r>(row: &'r Row<'_>, at: usize, part: &str) -> Result<&'r str, Unread> {
    optional(row, at, part)?.ok_or_else(|| unreadable(format!("the {part} of an event is missing")))
}

fn optional<'r>(row: &'r Row<'_>, at: usize, part: &str) -> Result<Option<&'r str>, Unread> {
    match row.get_ref(at)? {
        ValueRef::Null => Ok(None),
        ValueRef::Text(bytes) => std::str::from_utf8(bytes)
            .map(Some)
            .map_err(|_| unreadable(format!("the {part} of an event is no UTF-8"))),
        _ => Err(unreadable(format!("the {part} of an event is no text"))),
    }
}

fn payload(row: &Row<'_>) -> Result<Option<Bytes>, Unread> {
    match row.get_ref(14)? {
        ValueRef::Null => Ok(None),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(Some(Bytes::copy_from_slice(bytes))),
        _ => Err(unreadable("the payload of an event is neither bytes nor text")),
    }
}

fn intent(row: &Row<'_>) -> Result<Option<IntentId>, Unread> {
    if row.get_ref(11)? == ValueRef::Null {
        return Ok(None);
    }
    match row::name(row, 9) {
        Ok(id) => Ok(Some(id)),
        Err(_) => Err(unreadable("the intent of an event is none that this version allows")),
    }
}

/// What can be told of a row that is no event.
fn stand_in(row: &Row<'_>, pos: Pos) -> Result<Event, Fault> {
    let text = |at| match row.get_ref(at) {
        Ok(ValueRef::Text(bytes)) => tidied(bytes),
        _ => UNREADABLE.to_owned(),
    };
    let id = text(2).parse().unwrap_or_else(|_| id_at(pos));
    let large = |payload: &Bytes| payload.len() <= Event::PAYLOAD_MAX;
    let payload = payload(row).ok().flatten().filter(large);
    // By its type it goes to destinations: one that no event can have is none that any of them names.
    let kind = row.get_ref(3).ok().and_then(|kind| kind.as_str().ok());
    let kind = kind.filter(|kind| Lane::new(*kind, UNREADABLE).is_ok()).unwrap_or(UNREADABLE);
    let event = Lane::new(kind, text(4)).and_then(|lane| Event::new(id, lane, text(5), payload));
    event.map_err(|error| damaged("an event cannot be told of").with_source(error).into())
}

/// Makes text of bytes: 1 to 255 of them, without control characters.
fn tidied(bytes: &[u8]) -> String {
    let mut text = String::new();
    for c in String::from_utf8_lossy(bytes).chars() {
        let c = if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
        if text.len() + c.len_utf8() > Lane::MAX {
            break;
        }
        text.push(c);
    }
    if text.is_empty() { UNREADABLE.to_owned() } else { text }
}

/// A name for a row without one: the same each time that it is read.
fn id_at(pos: Pos) -> EventId {
    let digest = Fingerprint::of_bytes(format!("{UNREADABLE} {}", pos.0).as_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&digest.digest()[..16]);
    EventId::from_bytes(id)
}

/// Says that an event breaks a bound.
pub(crate) fn refused(error: EventError) -> StoreError {
    crate::error::invalid(error.to_string()).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_written_as_json() {
        let headers: Headers =
            vec![("a".into(), "1".into()), ("q\"".into(), "back\\slash ü".into())];
        assert_eq!(json(&headers), r#"{"a":"1","q\"":"back\\slash ü"}"#);
        assert_eq!(json(&[]), "{}");
    }

    #[test]
    fn what_stands_for_damaged_text_keeps_the_bounds_of_a_lane() {
        for (bytes, said) in [
            (&b"order"[..], "order"),
            (b"a\xff\n\0b", "a\u{fffd}\u{fffd}\u{fffd}b"),
            (b"", UNREADABLE),
        ] {
            assert_eq!(tidied(bytes), said);
        }
        let long = tidied("\u{20ac}".repeat(100).as_bytes());
        assert_eq!(long.len(), 255);
        assert!(Lane::new(&long, "x").is_ok());
    }
}
