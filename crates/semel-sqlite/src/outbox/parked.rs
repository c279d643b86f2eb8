//! Reading what is parked.

use rusqlite::{Connection, Rows, params};
use semel::{
    StoreError,
    outbox::{
        Destination, Lane, Parked, ParkedState,
        store::{Due, ParkedFilter, READ_MAX},
    },
};

use super::{
    PAGE_BYTES_MAX, bounded, number,
    row::{COLUMNS, Reader},
};
use crate::{
    error::{Fault, damaged},
    queries, row,
};

/// Lists lanes behind one, in the order of lanes.
pub(super) fn lanes(
    conn: &Connection,
    destination: &Destination,
    after: Option<&Lane>,
) -> Result<Vec<Lane>, Fault> {
    let mut statement = conn.prepare_cached(queries::OUTBOX_LANES)?;
    let (kind, id) = after.map_or(("", ""), |lane| (lane.kind(), lane.id()));
    let mut rows = statement.query((destination.as_str(), kind, id, bounded(READ_MAX)))?;
    let mut lanes = Vec::new();
    while let Some(row) = rows.next()? {
        let (kind, id) = (row.get_ref(0)?.as_str(), row.get_ref(1)?.as_str());
        let lane = kind.ok().zip(id.ok()).and_then(|(kind, id)| Lane::new(kind, id).ok());
        lanes.push(lane.ok_or_else(|| damaged("the lane of a parked event cannot be read"))?);
    }
    Ok(lanes)
}

/// Whether nothing is due.
pub(super) fn none_due(conn: &Connection, destination: &Destination) -> Result<bool, StoreError> {
    let looked = || -> Result<bool, Fault> {
        let mut statement = conn.prepare_cached(queries::OUTBOX_DUE)?;
        let mut rows = statement.query((destination.as_str(), 1))?;
        Ok(rows.next()?.is_none())
    };
    Ok(looked()?)
}

/// Lists what lanes send next, in one snapshot.
pub(super) fn due(
    conn: &Connection,
    destination: &Destination,
    limit: usize,
    bytes_max: usize,
) -> Result<Vec<Due>, Fault> {
    let snapshot = conn.unchecked_transaction()?;
    let mut statement = snapshot.prepare_cached(queries::OUTBOX_DUE)?;
    let rows = statement.query((destination.as_str(), bounded(limit)))?;
    let (heads, _) = page(&snapshot, rows, PAGE_BYTES_MAX)?;
    let share = Due::share(limit.min(READ_MAX), heads.len());
    let (mut due, mut bytes) = (Vec::new(), 0);
    for head in heads {
        if bytes > 0 && bytes >= bytes_max {
            break;
        }
        bytes += head.placed.event.size();
        let of_lane = next(&snapshot, head, share, bytes_max.saturating_sub(bytes))?;
        bytes += of_lane.rows[1..].iter().map(|row| row.placed.event.size()).sum::<usize>();
        due.push(of_lane);
    }
    Ok(due)
}

/// Lists what a lane sends next, at most so many rows, and about so many bytes behind its head.
fn next(conn: &Connection, head: Parked, most: usize, bytes_max: usize) -> Result<Due, Fault> {
    let lane = head.placed.event.lane.clone();
    let mut statement = conn.prepare_cached(queries::OUTBOX_BEHIND)?;
    let rows = statement.query((
        head.destination.as_str(),
        lane.kind(),
        lane.id(),
        number(head.seq),
        // One more than there may be, to know whether there are more.
        bounded(if bytes_max == 0 { 1 } else { most }),
    ))?;
    let (rows, all) = page(conn, rows, bytes_max)?;
    let mut due = Due { rows: vec![head], whole: all };
    for row in rows {
        if bytes_max == 0 || due.rows.len() >= most || !due.push(row) {
            due.whole = false;
            break;
        }
    }
    Ok(due)
}

/// Lists what a filter names.
pub(super) fn list(conn: &Connection, filter: &ParkedFilter) -> Result<Vec<Parked>, Fault> {
    let mut statement = conn.prepare_cached(queries::OUTBOX_PARKED)?;
    let limit = usize::try_from(filter.limit).unwrap_or(READ_MAX);
    let rows = statement.query(params![
        number(filter.after.unwrap_or_default()),
        bounded(limit),
        filter.destination.as_ref().map(Destination::as_str),
        filter.lane.as_ref().map(Lane::kind),
        filter.lane.as_ref().map(Lane::id),
        filter.state.map(ParkedState::as_str),
        filter.id.map(|id| id.to_string()),
    ])?;
    Ok(page(conn, rows, PAGE_BYTES_MAX)?.0)
}

/// Reads rows, the last of them past the bound of bytes; says whether it read all.
fn page(
    conn: &Connection,
    mut rows: Rows<'_>,
    bytes_max: usize,
) -> Result<(Vec<Parked>, bool), Fault> {
    let mut reader = Reader::new(conn);
    let (mut parked, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let mut placed = reader.placed(row)?;
        if let Some(why) = row.get(COLUMNS + 5)? {
            placed.unreadable = Some(why);
        }
        bytes += placed.event.size();
        let destination = Destination::new(row.get_ref(COLUMNS + 1)?.as_str().unwrap_or_default());
        let state = ParkedState::from_word(row.get_ref(COLUMNS + 2)?.as_str().unwrap_or_default());
        parked.push(Parked {
            seq: row::count(row, COLUMNS)?,
            destination: destination
                .map_err(|error| damaged("a destination has a damaged name").with_source(error))?,
            placed,
            state: state.ok_or_else(|| damaged("a parked event has an unknown state"))?,
            attempts: row.get(COLUMNS + 3)?,
            why: row.get(COLUMNS + 4)?,
            parked_at: row::instant(row, COLUMNS + 6)?,
        });
        if bytes > bytes_max {
            return Ok((parked, false));
        }
    }
    Ok((parked, true))
}
