//! Leadership: one row per destination, and so one write whatever waits.

use std::time::Duration;

use semel::{
    Fence,
    outbox::{Epoch, Lead, Leader, Led, Settled, Start},
};

use super::{
    number,
    state::{self, State},
};
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
        let top = state::top(step.conn())?;
        let (generation, settled) = match &seen {
            None if *start == Start::Now => (1, top),
            None => (1, 0),
            Some(seen) if seen.settled > top => {
                tracing::warn!(
                    destination = name,
                    cursor = seen.settled,
                    last = top,
                    "positions began anew; what is in the outbox is sent from its beginning"
                );
                (seen.generation.saturating_add(1), 0)
            }
            Some(seen) => (seen.generation, seen.settled),
        };
        let epoch = epoch(step, seen.as_ref(), now.as_micros());
        step.wrote();
        step.conn().prepare_cached(queries::OUTBOX_LEAD)?.execute((
            name,
            number(epoch.0),
            generation,
            owner,
            row::micros(now),
            row::span(*lease),
            number(settled),
        ))?;
        Ok(Led::Leader(Leader { destination: destination.clone(), epoch, generation }))
    }
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
        let name = leader.destination.as_str();
        let Some(seen) =
            State::read(step.conn(), name)?.filter(|seen| seen.is_led_by(leader.epoch))
        else {
            return Ok(Settled::Stale);
        };
        step.wrote();
        if seen.settled > state::top(step.conn())? {
            // Positions began anew under this leader: it must lead again to read from the beginning.
            resign(step, leader)?;
            return Ok(Settled::Stale);
        }
        let now = row::micros(step.now());
        let renewed = step.conn().prepare_cached(queries::OUTBOX_RENEW)?.execute((
            name,
            number(leader.epoch.0),
            now,
            row::span(*lease),
        ))?;
        Ok(if renewed == 1 { Settled::Stored } else { Settled::Stale })
    }
}

/// Gives a leadership up.
#[derive(Debug)]
pub(super) struct Resignation(pub(super) Leader);

impl Verb for Resignation {
    type Answer = Settled;

    fn run(&self, step: &mut Step<'_>) -> Result<Settled, Fault> {
        step.wrote();
        Ok(if resign(step, &self.0)? { Settled::Stored } else { Settled::Stale })
    }
}

/// Says whether it was the current leadership; a second time it still was.
fn resign(step: &Step<'_>, leader: &Leader) -> Result<bool, Fault> {
    let mut statement = step.conn().prepare_cached(queries::OUTBOX_RESIGN)?;
    Ok(statement.execute((leader.destination.as_str(), number(leader.epoch.0)))? == 1)
}
