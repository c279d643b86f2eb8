//! The outbox: what a relay needs of this file.
//!
//! One transaction writes at a time, and positions are never used twice, so positions are in the order
//! of commits: whatever is committed later lies behind everything that a reader has seen. A pass is
//! therefore all that lies behind the cursor, what is committed meanwhile too, and nothing need be
//! written to open one; it has a number, which grows when an end is settled.
//!
//! Where that order could be lost:
//!
//! - A rolled back transaction leaves its positions to the next. Nobody has seen them.
//! - `VACUUM` keeps positions, since they are the primary key.
//! - A row that names a position before the last is refused by a trigger.
//! - A backup that is put back has cursors and events of one instant: the relay goes on from there,
//!   and sends again what it had sent since, under the same ids. Epochs are never below the clock, so a
//!   leader from before the restore meets none of its own.
//! - Somebody may empty SQLite's memory of positions, which then begin anew. A trigger takes every cursor
//!   that is past a new event back behind it, and ends that leadership.

mod append;
mod hints;
mod inspect;
mod lead;
mod list;
mod parked;
mod read;
mod retain;
mod row;
mod settle;
mod state;

use std::time::Duration;

use async_trait::async_trait;
use semel::{
    StoreError,
    outbox::{
        Destination, Lane as EventLane, Lead, Leader, Led, OutboxStore, Pos, Settle, Settled,
        Window,
        store::{Due, Pass, READ_MAX},
    },
    store::Actor,
};

pub(crate) use self::{append::within_bounds, hints::Hints, row::refused};
use crate::{SqliteStore, error::invalid, queue::Lane};

/// How many bytes of events one answer carries at most, beside one event.
const PAGE_BYTES_MAX: usize = 32 * 1024 * 1024;

#[async_trait]
impl OutboxStore for SqliteStore {
    async fn lead(&self, ask: Lead) -> Result<Led, StoreError> {
        if ask.owner.len() > Actor::NAME_MAX {
            return Err(invalid("the name of who asks to lead is too long"));
        }
        self.write(Lane::First, lead::Ask(ask)).await
    }

    async fn renew(&self, leader: Leader, lease: Duration) -> Result<Settled, StoreError> {
        self.write(Lane::First, lead::Renewal(leader, lease)).await
    }

    async fn resign(&self, leader: Leader) -> Result<Settled, StoreError> {
        self.write(Lane::First, lead::Resignation(leader)).await
    }

    async fn read(
        &self,
        leader: Leader,
        after: Option<(Pass, Pos)>,
        limit: usize,
        bytes_max: usize,
    ) -> Result<Window, StoreError> {
        let time = self.readers.time();
        let ask = read::Ask { destination: leader.destination, after, limit, bytes_max };
        // A look at the cursor tells whether there is anything; rows are read on a thread.
        if let Some(looked) = self.readers.glance(|conn| read::look(conn, &time, &ask))
            && let Some(nothing) = looked?
        {
            return Ok(nothing);
        }
        self.readers.ask(move |conn| read::window(conn, &time, &ask)).await
    }

    async fn settle(&self, settle: Settle) -> Result<Settled, StoreError> {
        if settle.park.len() + settle.unpark.len() > READ_MAX {
            return Err(invalid("more rows than one settlement may hold; settle in several"));
        }
        self.write(Lane::First, settle::Done::new(settle)).await
    }

    async fn parked_lanes(
        &self,
        destination: Destination,
        after: Option<EventLane>,
    ) -> Result<Vec<EventLane>, StoreError> {
        self.readers.ask(move |conn| Ok(parked::lanes(conn, &destination, after.as_ref())?)).await
    }

    async fn due(
        &self,
        destination: Destination,
        limit: usize,
        bytes_max: usize,
    ) -> Result<Vec<Due>, StoreError> {
        if let Some(none) = self.readers.glance(|conn| parked::none_due(conn, &destination))
            && none?
        {
            return Ok(Vec::new());
        }
        self.readers.ask(move |conn| Ok(parked::due(conn, &destination, limit, bytes_max)?)).await
    }
}

/// How many rows one answer has at most.
fn bounded(limit: usize) -> i64 {
    i64::try_from(limit.min(READ_MAX)).unwrap_or(i64::MAX)
}

/// A position as SQLite keeps it.
fn number(pos: u64) -> i64 {
    i64::try_from(pos).unwrap_or(i64::MAX)
}
