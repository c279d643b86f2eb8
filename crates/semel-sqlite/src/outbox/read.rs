//! Reading a window of the current pass.

use rusqlite::Connection;
use semel::{
    StoreError,
    outbox::{Destination, Pos, Window, store::Pass},
};

use super::{bounded, number, row::Reader, state::State};
use crate::{
    error::{Fault, invalid},
    queries, reader,
    time::Time,
};

/// What a leader asks for.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) destination: Destination,
    pub(super) after: Option<(Pass, Pos)>,
    pub(super) limit: usize,
    pub(super) bytes_max: usize,
}

/// Answers if there is nothing to be read.
pub(super) fn look(
    conn: &Connection,
    time: &Time,
    ask: &Ask,
) -> Result<Option<Window>, StoreError> {
    if ask.after.is_some() {
        return Ok(None);
    }
    let state = state(conn, ask)?;
    if state.tip > state.settled {
        return Ok(None);
    }
    reader::observe(conn, time)?;
    let (events, upto) = (Vec::new(), Pos(state.settled));
    Ok(Some(Window { pass: None, events, upto, ends: true, now: time.now() }))
}

/// Reads a window. Cursor and rows are read in one snapshot: what is there up to the last position is all
/// that ever will be.
pub(super) fn window(conn: &Connection, time: &Time, ask: &Ask) -> Result<Window, StoreError> {
    let snapshot = conn.unchecked_transaction().map_err(Fault::from)?;
    reader::observe(&snapshot, time)?;
    let state = state(&snapshot, ask)?;
    let after = ask.after.map_or(state.settled, |(_, pos)| pos.0);
    let (events, upto) = (Vec::new(), Pos(after));
    let mut window =
        Window { pass: Some(Pass(state.pass)), events, upto, ends: true, now: time.now() };
    if state.tip > after {
        fill(&snapshot, ask, &mut window, state.tip)?;
    } else if ask.after.is_none() {
        window.pass = None;
    }
    Ok(window)
}

fn state(conn: &Connection, ask: &Ask) -> Result<State, StoreError> {
    let name = ask.destination.as_str();
    State::read(conn, name)?
        .ok_or_else(|| invalid(format!("nobody ever led the destination {name}; lead it first")))
}

/// Reads rows up to the bounds; the window ends the pass unless there are more.
fn fill(conn: &Connection, ask: &Ask, window: &mut Window, to: u64) -> Result<(), Fault> {
    let limit = ask.limit.max(1);
    let mut statement = conn.prepare_cached(queries::OUTBOX_WINDOW)?;
    let more = bounded(limit).saturating_add(1);
    let mut rows = statement.query((number(window.upto.0), number(to), more))?;
    let mut reader = Reader::new(conn);
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        if bounded(window.events.len()) >= bounded(limit)
            || (bytes >= ask.bytes_max && !window.events.is_empty())
        {
            window.ends = false;
            return Ok(());
        }
        let placed = reader.placed(row)?;
        bytes += placed.event.size();
        window.upto = placed.pos;
        window.events.push(placed);
    }
    Ok(())
}
