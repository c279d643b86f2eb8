//! Reads and words for operators.

use async_trait::async_trait;
use rusqlite::{Connection, Row};
use semel::{
    StoreError, Timestamp,
    outbox::{
        Destination, Epoch, OutboxAudit, OutboxAuditKind, OutboxInspect, Park, Parked, ParkedState,
        Placed, Pos,
        store::{DestinationState, EventFilter, LeftOut, ParkedFilter, READ_MAX, Replayed},
    },
    store::{Actor, actor_within_bounds},
};

use super::{PAGE_BYTES_MAX, bounded, lead, list, number, parked, state::State};
use crate::{
    SqliteStore,
    error::{Fault, damaged, invalid},
    queries,
    queue::Lane,
    reader, row,
    step::Step,
    time::Time,
    verb::Verb,
};

#[async_trait]
impl OutboxInspect for SqliteStore {
    async fn destinations(&self) -> Result<Vec<DestinationState>, StoreError> {
        let time = self.readers.time();
        self.readers.ask(move |conn| destinations(conn, &time)).await
    }

    /// Lists events in the order of their positions. A page also ends after the event with which it
    /// passes 32 MiB: only an empty page is the end.
    async fn events(&self, filter: EventFilter) -> Result<Vec<Placed>, StoreError> {
        let list = move |conn: &Connection| {
            let (mut page, mut bytes) = (Vec::new(), 0);
            list::events(conn, &filter, u64::MAX, |placed| {
                bytes += placed.event.size();
                page.push(placed);
                Ok(bytes <= PAGE_BYTES_MAX)
            })?;
            Ok(page)
        };
        self.readers.ask(list).await
    }

    /// Lists parked rows in their order. A page also ends after the row with which it passes 32 MiB:
    /// only an empty page is the end.
    async fn parked(&self, filter: ParkedFilter) -> Result<Vec<Parked>, StoreError> {
        self.readers.ask(move |conn| Ok(parked::list(conn, &filter)?)).await
    }

    async fn mark(
        &self,
        destination: Destination,
        seqs: Vec<u64>,
        state: ParkedState,
        actor: Actor,
    ) -> Result<u64, StoreError> {
        actor_within_bounds(&actor)?;
        if seqs.len() > READ_MAX {
            return Err(invalid("more rows than can be marked at once; mark fewer"));
        }
        let kind = match state {
            ParkedState::Drop => OutboxAuditKind::Drop,
            ParkedState::Retry => OutboxAuditKind::Retry,
            ParkedState::Skip => OutboxAuditKind::Skip,
            ParkedState::Behind | ParkedState::Failed => {
                return Err(invalid("an operator says retry, skip or drop"));
            }
        };
        self.write(Lane::Later, Mark { destination, seqs, state, kind, actor }).await
    }

    /// Has events sent again. One call also ends after the event with which it passes 32 MiB.
    async fn replay(
        &self,
        destination: Destination,
        filter: EventFilter,
        left_out: LeftOut,
        actor: Actor,
    ) -> Result<Replayed, StoreError> {
        actor_within_bounds(&actor)?;
        self.write(Lane::Later, Replay { destination, filter, left_out, actor }).await
    }

    async fn forget(&self, destination: Destination, actor: Actor) -> Result<bool, StoreError> {
        actor_within_bounds(&actor)?;
        self.write(Lane::Later, Forget { destination, actor }).await
    }

    async fn outbox_audit(
        &self,
        destination: Option<Destination>,
        limit: u32,
    ) -> Result<Vec<OutboxAudit>, StoreError> {
        let limit = bounded(usize::try_from(limit).unwrap_or(READ_MAX));
        self.readers.ask(move |conn| Ok(audit(conn, destination.as_ref(), limit)?)).await
    }
}

fn destinations(conn: &Connection, time: &Time) -> Result<Vec<DestinationState>, StoreError> {
    let snapshot = conn.unchecked_transaction().map_err(Fault::from)?;
    reader::observe(&snapshot, time)?;
    let now = time.now();
    let list = || -> Result<Vec<DestinationState>, Fault> {
        let mut statement = snapshot.prepare_cached(queries::OUTBOX_DESTINATIONS)?;
        let mut rows = statement.query([DestinationState::WAITING_MAX])?;
        let mut destinations = Vec::new();
        while let Some(row) = rows.next()? {
            destinations.push(destination(row, now)?);
        }
        Ok(destinations)
    };
    Ok(list()?)
}

fn destination(row: &Row<'_>, now: Timestamp) -> Result<DestinationState, Fault> {
    let instant = |at: usize| -> Result<Option<Timestamp>, Fault> {
        row.get::<_, Option<i64>>(at)?.map(|_| row::instant(row, at)).transpose()
    };
    let owner: Option<Box<str>> = row.get(3)?;
    let lease = std::time::Duration::from_micros(row::count(row, 5)?);
    let ends_at = row::instant(row, 4)?.after(lease);
    Ok(DestinationState {
        destination: named(row, 0)?,
        leader: owner.map(|owner| (owner, ends_at)),
        epoch: Epoch(row::count(row, 1)?),
        generation: row.get(2)?,
        oldest: instant(6)?,
        waiting: row::count(row, 7)?,
        parked: row::count(row, 8)?,
        parked_lanes: row::count(row, 9)?,
        oldest_parked: instant(10)?,
        oldest_aside: instant(11)?,
        failed_lanes: row::count(row, 12)?,
        oldest_failed: instant(13)?,
        now,
    })
}

fn named(row: &Row<'_>, at: usize) -> Result<Destination, Fault> {
    let name = row.get_ref(at)?.as_str().unwrap_or_default();
    let bad = |error| damaged("a destination has a damaged name").with_source(error);
    Ok(Destination::new(name).map_err(bad)?)
}

fn audit(
    conn: &Connection,
    destination: Option<&Destination>,
    limit: i64,
) -> Result<Vec<OutboxAudit>, Fault> {
    let mut statement = conn.prepare_cached(queries::OUTBOX_AUDIT)?;
    let mut rows = statement.query((limit, destination.map(Destination::as_str)))?;
    let mut audit = Vec::new();
    while let Some(row) = rows.next()? {
        let kind = OutboxAuditKind::from_word(row.get_ref(2)?.as_str().unwrap_or_default());
        let event: Option<Box<str>> = row.get(3)?;
        audit.push(OutboxAudit {
            destination: named(row, 0)?,
            at: row::instant(row, 1)?,
            kind: kind.ok_or_else(|| damaged("an audit row has an unknown kind; upgrade semel"))?,
            event: event.and_then(|event| event.parse().ok()),
            rows: row::count(row, 4)?,
            actor: row.get(5)?,
            note: row.get(6)?,
        });
    }
    Ok(audit)
}

/// Marks parked rows.
#[derive(Debug)]
struct Mark {
    destination: Destination,
    seqs: Vec<u64>,
    state: ParkedState,
    kind: OutboxAuditKind,
    actor: Actor,
}

impl Verb for Mark {
    type Answer = u64;

    fn run(&self, step: &mut Step<'_>) -> Result<u64, Fault> {
        let mut marked = 0;
        for seq in &self.seqs {
            let event: Option<String> = {
                let mut statement = step.conn().prepare_cached(queries::OUTBOX_MARK)?;
                let mark = (self.destination.as_str(), number(*seq), self.state.as_str());
                let mut rows = statement.query(mark)?;
                let Some(row) = rows.next()? else { continue };
                // The id of a row that cannot be read may be no text.
                let event = row.get_ref(0)?.as_str().ok().map(str::to_owned);
                while rows.next()?.is_some() {}
                event
            };
            step.said(&self.destination, self.kind, event.as_deref(), 1, &self.actor)?;
            marked += 1;
        }
        Ok(marked)
    }
}

/// Parks events again that a destination had.
#[derive(Debug)]
struct Replay {
    destination: Destination,
    filter: EventFilter,
    left_out: LeftOut,
    actor: Actor,
}

impl Verb for Replay {
    type Answer = Replayed;

    fn run(&self, step: &mut Step<'_>) -> Result<Replayed, Fault> {
        let Self { destination, filter, left_out, actor } = self;
        let Some(seen) = State::read(step.conn(), destination.as_str())? else {
            let message = format!("there is no destination {destination}; see which there are");
            return Err(invalid(message).into());
        };
        let mut replayed = Replayed::default();
        let (mut looked, mut bytes) = (0, 0);
        list::events(step.conn(), filter, seen.settled, |placed| {
            looked += 1;
            bytes += placed.event.size();
            let full = looked >= bounded(usize::try_from(filter.limit).unwrap_or(READ_MAX));
            let full = full || bytes > PAGE_BYTES_MAX;
            replayed.rest = full.then_some(placed.pos);
            if !step.lets_in(destination, placed.pos, *left_out)? {
                replayed.left_out += 1;
                return Ok(!full);
            }
            let park =
                Park { placed, state: ParkedState::Behind, attempts: 0, why: Box::default() };
            replayed.parked += u64::from(step.park(destination, seen.generation, &park)?);
            Ok(!full)
        })?;
        let (event, rows) = (filter.id.map(|id| id.to_string()), replayed.parked);
        step.said(destination, OutboxAuditKind::Replay, event.as_deref(), rows, actor)?;
        Ok(replayed)
    }
}

/// Forgets a destination.
#[derive(Debug)]
struct Forget {
    destination: Destination,
    actor: Actor,
}

impl Verb for Forget {
    type Answer = bool;

    fn run(&self, step: &mut Step<'_>) -> Result<bool, Fault> {
        let name = self.destination.as_str();
        let now = step.now();
        let Some(seen) = State::read(step.conn(), name)? else {
            return Ok(false);
        };
        if let Some((owner, _)) = seen.leads(now) {
            let message =
                format!("the destination {name} is led by {owner}; stop that relay first");
            return Err(invalid(message).into());
        }
        let conn = step.conn();
        let mut parked = 0;
        for head in [false, true] {
            // The heads last: each that goes while others wait would make the next one a head.
            parked += conn.prepare_cached(queries::OUTBOX_FORGET_PARKED)?.execute((name, head))?;
        }
        conn.prepare_cached(queries::OUTBOX_FORGET_LEFT_OUT)?.execute([name])?;
        conn.prepare_cached(queries::OUTBOX_FORGET)?.execute([name])?;
        lead::retire(step, seen.epoch);
        let parked = u64::try_from(parked).unwrap_or(u64::MAX);
        step.said(&self.destination, OutboxAuditKind::Forget, None, parked, &self.actor)?;
        Ok(true)
    }
}

impl Step<'_> {
    /// Says whether a replay sends an event; one that was left out only if that is asked for, and then it
    /// is left out no more.
    fn lets_in(
        &mut self,
        destination: &Destination,
        pos: Pos,
        left_out: LeftOut,
    ) -> Result<bool, Fault> {
        let named = (destination.as_str(), number(pos.0));
        if !self.conn().prepare_cached(queries::OUTBOX_LEFT_OUT)?.exists(named)? {
            return Ok(true);
        }
        if left_out == LeftOut::Stays {
            return Ok(false);
        }
        self.wrote();
        self.conn().prepare_cached(queries::OUTBOX_LET_IN)?.execute(named)?;
        Ok(true)
    }

    /// Keeps what an operator said; the oldest rows go.
    fn said(
        &mut self,
        destination: &Destination,
        kind: OutboxAuditKind,
        event: Option<&str>,
        rows: u64,
        actor: &Actor,
    ) -> Result<(), Fault> {
        let at = row::micros(self.now());
        self.wrote();
        let conn = self.conn();
        conn.prepare_cached(queries::OUTBOX_NOTE)?.execute((
            at,
            kind.as_str(),
            destination.as_str(),
            event,
            number(rows),
            &actor.name,
            &actor.note,
        ))?;
        conn.prepare_cached(queries::OUTBOX_NOTE_TRIM)?.execute([self.audit_max()])?;
        Ok(())
    }
}
