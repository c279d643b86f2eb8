//! Events and parked rows as rows, and back. Nothing else knows the columns of the views.

use std::sync::Arc;

use bytes::Bytes;
use semel::{
    Timestamp,
    outbox::{Cause, Destination, Event, EventId, Lane, Parked, ParkedState, Placed, Pos},
};
use serde_json::Value as Json;

use super::{signed, unsigned};
use crate::{
    error::{Fault, damaged},
    row as stored,
    value::Cells,
};

/// Where the columns of a parked row begin that an event does not have.
const PARKED: usize = 16;

/// Where the columns stand behind those of a parked row.
pub(super) const BEHIND_PARKED: usize = PARKED + 6;

/// Makes an event of a row, or a stand-in for one that was written past the bounds.
pub(super) fn placed(row: &impl Cells) -> Result<Placed, Fault> {
    let pos = Pos(unsigned(row, 0)?);
    let at = Timestamp::from_micros(unsigned(row, 1)?);
    let id = row.bytes(2)?.and_then(|bytes| bytes.try_into().ok()).map(EventId::from_bytes);
    let id = id.ok_or_else(|| damaged("an event has no id; restore a backup"))?;
    let (event, unreadable) = match event(row, id)? {
        Ok(event) => (event, None),
        Err(why) => (stand_in(row, id, pos)?, Some(why.into())),
    };
    Ok(Placed { pos, at, event: Arc::new(event), unreadable })
}

/// Makes an event, or says what is wrong with the row.
fn event(row: &impl Cells, id: EventId) -> Result<Result<Event, String>, Fault> {
    let text = |at| row.text(at).map(Option::unwrap_or_default);
    if let Some(why) = row.text(8)?.and_then(failed_import) {
        return Ok(Err(why));
    }
    let payload = row.bytes(6)?.map(Bytes::copy_from_slice);
    if payload.is_none() && row.bigint(7)?.is_some() {
        return Ok(Err("the payload is larger than an event may have".to_owned()));
    }
    let made = Lane::new(text(3)?, text(4)?)
        .and_then(|lane| Event::new(id, lane, text(5).unwrap_or_default(), payload));
    let mut event = match made {
        Ok(event) => event,
        Err(error) => return Ok(Err(error.to_string())),
    };
    match row.text(8)?.map_or(Some(Vec::new()), headers) {
        Some(headers) => event.headers = headers,
        None => {
            return Ok(Err(
                "the headers are neither an object nor pairs of a name and a value".to_owned()
            ));
        }
    }
    event.version = row.bigint(9)?;
    event.trace = row.text(10)?.map(Into::into);
    if let Err(error) = event.check() {
        return Ok(Err(error.to_string()));
    }
    match row.text(11)?.map(Cause::new).transpose() {
        Ok(cause) => event.cause = cause,
        Err(error) => return Ok(Err(error.to_string())),
    }
    if row.text(14)?.is_some() {
        match stored::name(row, 12) {
            Ok(intent) => event.intent = Some(intent),
            Err(_) => return Ok(Err("the intent has a name that none can have".to_owned())),
        }
    }
    Ok(Ok(event))
}

/// What the trigger of a table that was taken over puts in place of headers, if it could not read the row.
const FAILED_IMPORT: &str = "\"import: ";

/// Says what the trigger of a table that was taken over could not read.
fn failed_import(headers: &str) -> Option<String> {
    headers.strip_prefix(FAILED_IMPORT)?;
    let told: String = serde_json::from_str(headers).ok()?;
    let why = told.strip_prefix("import: ")?;
    Some(format!("the row could not be imported, and is in the payload as a whole: {why}"))
}

/// Tells of a row what can be told: its aggregate, if that can be named, and its payload, if an event may
/// have it.
fn stand_in(row: &impl Cells, id: EventId, pos: Pos) -> Result<Event, Fault> {
    let text = |at| row.text(at).map(Option::unwrap_or_default);
    let lane = match Lane::new(text(3)?, text(4)?) {
        Ok(lane) => lane,
        // Its type alone says which destinations are to have it.
        Err(_) => {
            let id = format!("{} {}", Placed::UNREADABLE, pos.0);
            Lane::new(text(3)?, &*id).unwrap_or_else(|_| lane_of(Placed::UNREADABLE, &id))
        }
    };
    let payload = row.bytes(6)?.filter(|payload| payload.len() <= Event::PAYLOAD_MAX);
    let payload = payload.map(Bytes::copy_from_slice);
    let named = Event::new(id, lane.clone(), text(5)?, payload.clone());
    let made = named.or_else(|_| Event::new(id, lane, Placed::UNREADABLE, payload));
    made.map_err(|error| damaged("an event cannot be told").with_source(error).into())
}

/// The lane of an aggregate, or the one of those that cannot be named.
pub(super) fn lane_of(kind: &str, id: &str) -> Lane {
    Lane::new(kind, id)
        .or_else(|_| Lane::new(Placed::UNREADABLE, Placed::UNREADABLE))
        .expect("these names are within the bounds")
}

/// Reads headers: an object, or an array of pairs.
fn headers(text: &str) -> Option<Vec<(Box<str>, Box<str>)>> {
    match serde_json::from_str(text).ok()? {
        Json::Object(members) => {
            members.into_iter().map(|(name, value)| Some((name.into(), plain(&value)?))).collect()
        }
        Json::Array(pairs) => pairs
            .iter()
            .map(|pair| match pair.as_array()?.as_slice() {
                [Json::String(name), value] => Some((name.as_str().into(), plain(value)?)),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

fn plain(value: &Json) -> Option<Box<str>> {
    match value {
        Json::String(text) => Some(text.as_str().into()),
        Json::Bool(_) | Json::Number(_) => Some(value.to_string().into()),
        Json::Array(_) | Json::Null | Json::Object(_) => None,
    }
}

/// Writes headers as an array of pairs, since names may stand several times; none as nothing.
pub(super) fn headers_text(headers: &[(Box<str>, Box<str>)]) -> Option<String> {
    if headers.is_empty() {
        return None;
    }
    let pair = |(name, value): &(Box<str>, Box<str>)| {
        Json::Array(vec![Json::String((**name).to_owned()), Json::String((**value).to_owned())])
    };
    Some(Json::Array(headers.iter().map(pair).collect()).to_string())
}

/// Makes a parked row.
pub(super) fn parked(row: &tokio_postgres::Row) -> Result<Parked, Fault> {
    let state = row.text(PARKED + 2)?.and_then(ParkedState::from_word);
    let destination = row.text(PARKED + 1)?.and_then(|name| Destination::new(name).ok());
    let bad = || damaged("a parked row has an unknown state or destination; upgrade or restore");
    Ok(Parked {
        seq: unsigned(row, PARKED)?,
        destination: destination.ok_or_else(bad)?,
        placed: placed(row)?,
        state: state.ok_or_else(bad)?,
        attempts: u32::try_from(unsigned(row, PARKED + 3)?).unwrap_or(u32::MAX),
        why: row.text(PARKED + 4)?.unwrap_or_default().into(),
        parked_at: Timestamp::from_micros(unsigned(row, PARKED + 5)?),
    })
}

/// Returns a position as it is stored.
pub(super) fn pos(pos: Pos) -> i64 {
    signed(pos.0)
}
