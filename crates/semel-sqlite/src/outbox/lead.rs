//! Leadership: one row per destination, and so one write whatever waits.

use std::time::Duration;

use rusqlite::Connection;
use semel::{
    Fence,
    outbox::{Epoch, Lead, Leader, Led, Settled, Start},
};

use super::{number, state::State};
use crate::{error::Fault, queries, row, step::Step, verb::Verb};

/// Asks to lead.
#[derive(Debug)]
pub(super) struct Ask(pub(super) Lead);

impl Verb for Ask {
    type Answer = Led;

    fn run(&self, step: &mut Step<'_>) -> Result<Led, Fault> {
        let Lead { destination, owner, lease, start } = &self.0;
        let name = destination.as_str();
        let now = step.now();
        let seen = State::read(step.conn(), name)?;
        if let Some((owner, ends_in)) = seen.as_ref().and_then(|seen| seen.leads(now)) {
            return Ok(Led::Follower { owner: owner.into(), ends_in });
        }
        let epoch = epoch(step, seen.as_ref(), now.as_micros());
        let settled = if *start == Start::Now { top(step.conn())? } else { 0 };
        step.wrote();
        step.conn().prepare_cached(queries::OUTBOX_LEAD)?.execute((
            name,
            number(epoch.0),
            owner,
            row::micros(now),
            row::span(*lease),
            settled,
        ))?;
        let generation = seen.map_or(1, |seen| seen.generation);
        Ok(Led::Leader(Leader { destination: destination.clone(), epoch, generation }))
    }
}

/// The last position that was given away: what is committed later lies behind it.
fn top(conn: &Connection) -> Result<i64, Fault> {
    let mut statement = conn.prepare_cached(queries::OUTBOX_TOP)?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

/// The next epoch: above the last, above those of destinations that were forgotten, and never below the
/// clock, so that a file that was put back from a backup does not give one away again.
fn epoch(step: &Step<'_>, seen: Option<&State>, now_us: u64) -> Epoch {
    let last = seen.map_or(0, |seen| seen.epoch).max(step.floor().get());
    Epoch(now_us.max(last.saturating_add(1)))
}

/// Keeps an epoch from being given away again when its row goes.
pub(super) fn retire(step: &mut Step<'_>, epoch: u64) {
    step.raise(Fence::new(epoch));
}

/// Renews a leadership.
#[derive(Debug)]
pub(super) struct Renewal(pub(super) Leader, pub(super) Duration);

impl Verb for Renewal {
    type Answer = Settled;

    fn run(&self, step: &mut Step<'_>) -> Result<Settled, Fault> {
        let Self(leader, lease) = self;
        let now = row::micros(step.now());
        let renewed = step.conn().prepare_cached(queries::OUTBOX_RENEW)?.execute((
            leader.destination.as_str(),
            number(leader.epoch.0),
            now,
            row::span(*lease),
        ))?;
        Ok(written(step, renewed))
    }
}

/// Gives a leadership up.
#[derive(Debug)]
pub(super) struct Resignation(pub(super) Leader);

impl Verb for Resignation {
    type Answer = Settled;

    fn run(&self, step: &mut Step<'_>) -> Result<Settled, Fault> {
        let leader = &self.0;
        let mut statement = step.conn().prepare_cached(queries::OUTBOX_RESIGN)?;
        let resigned = statement.execute((leader.destination.as_str(), number(leader.epoch.0)))?;
        Ok(written(step, resigned))
    }
}

fn written(step: &mut Step<'_>, rows: usize) -> Settled {
    if rows == 1 {
        step.wrote();
        Settled::Stored
    } else {
        Settled::Stale
    }
}
