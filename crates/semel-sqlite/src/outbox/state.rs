//! Where a destination is, as its row says.

use std::time::Duration;

use rusqlite::{Connection, Row};
use semel::{Timestamp, outbox::Epoch};

use crate::{error::Fault, queries, row};

/// A destination.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) epoch: u64,
    pub(super) generation: u32,
    /// Who leads, or did when its lease ended.
    pub(super) owner: Option<Box<str>>,
    pub(super) renewed_at: Timestamp,
    pub(super) lease: Duration,
    pub(super) pass: u64,
    pub(super) settled: u64,
    /// The last position in the table.
    pub(super) tip: u64,
}

impl State {
    pub(super) fn read(conn: &Connection, destination: &str) -> Result<Option<Self>, Fault> {
        let mut statement = conn.prepare_cached(queries::OUTBOX_DESTINATION)?;
        let mut rows = statement.query([destination])?;
        rows.next()?.map(Self::of).transpose()
    }

    fn of(row: &Row<'_>) -> Result<Self, Fault> {
        Ok(Self {
            epoch: row::count(row, 0)?,
            generation: row.get(1)?,
            owner: row.get(2)?,
            renewed_at: row::instant(row, 3)?,
            lease: Duration::from_micros(row::count(row, 4)?),
            pass: row::count(row, 5)?,
            settled: row::count(row, 6)?,
            tip: row::count(row, 7)?,
        })
    }

    /// Who leads by a lease that is not over, and for how long.
    pub(super) fn leads(&self, now: Timestamp) -> Option<(&str, Duration)> {
        let left = self.renewed_at.after(self.lease).since(now);
        self.owner.as_deref().filter(|_| !left.is_zero()).map(|owner| (owner, left))
    }

    /// Whether this is the leadership of that epoch, whether or not its lease is over.
    pub(super) fn is_led_by(&self, epoch: Epoch) -> bool {
        self.epoch == epoch.0 && self.owner.is_some()
    }
}
