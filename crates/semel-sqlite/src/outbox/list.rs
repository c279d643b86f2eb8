//! Listing events.

use rusqlite::{Connection, params};
use semel::{
    Operation, Timestamp,
    outbox::{
        Lane, Placed,
        store::{EventFilter, READ_MAX},
    },
};

use super::{bounded, number, row::Reader};
use crate::{error::Fault, queries, row};

/// Hands events to `each` in the order of their positions, up to the position `upto`, until `each` says
/// that it is enough.
pub(super) fn events(
    conn: &Connection,
    filter: &EventFilter,
    upto: u64,
    mut each: impl FnMut(Placed) -> Result<bool, Fault>,
) -> Result<(), Fault> {
    let intent = filter.intent.as_ref();
    let sql = if filter.id.is_some() {
        queries::OUTBOX_LIST_ID
    } else if intent.is_some() {
        queries::OUTBOX_LIST_INTENT
    } else {
        queries::OUTBOX_LIST
    };
    let mut statement = conn.prepare_cached(sql)?;
    let limit = usize::try_from(filter.limit).unwrap_or(READ_MAX);
    let mut rows = statement.query(params![
        number(filter.after.map_or(0, |after| after.0)),
        filter.id.map(|id| id.to_string()),
        filter.lane.as_ref().map(Lane::kind),
        filter.lane.as_ref().map(Lane::id),
        intent.map(|id| id.scope.tenant.as_str()),
        intent.map(|id| id.scope.operation.as_str()),
        intent.map(|id| id.key.as_str()),
        intent.map(row::facet),
        filter.operation.as_ref().map(Operation::as_str),
        row::micros(filter.from.unwrap_or_default()),
        row::micros(filter.until.unwrap_or(Timestamp::MAX)),
        bounded(limit),
        number(upto),
    ])?;
    let mut reader = Reader::new(conn);
    while let Some(row) = rows.next()? {
        if !each(reader.placed(row)?)? {
            break;
        }
    }
    Ok(())
}
