//! Writing what a leader has done.

use semel::outbox::{Destination, Park, Settle, Settled, store::Unpark};

use super::{number, row, state::State};
use crate::{error::Fault, queries, row as record, step::Step, verb::Verb};

/// A settlement.
#[derive(Debug)]
pub(super) struct Done(Settle);

impl Done {
    pub(super) fn new(mut settle: Settle) -> Self {
        for park in &mut settle.park {
            cut(&mut park.why);
        }
        for unpark in &mut settle.unpark {
            if let Unpark::Failed { why, .. } = unpark {
                cut(why);
            }
        }
        Self(settle)
    }
}

fn cut(why: &mut Box<str>) {
    if why.len() > Park::WHY_MAX {
        *why = why[..why.floor_char_boundary(Park::WHY_MAX)].into();
    }
}

impl Verb for Done {
    type Answer = Settled;

    fn run(&self, step: &mut Step<'_>) -> Result<Settled, Fault> {
        let settle = &self.0;
        let name = settle.destination.as_str();
        let seen = State::read(step.conn(), name)?;
        let Some(seen) = seen.filter(|seen| seen.is_led_by(settle.epoch)) else {
            return Ok(Settled::Stale);
        };
        if let Some((pass, pos)) = settle.upto {
            // The end of a pass may come again, when the answer to it was lost: it is written.
            if settle.ends && pass.0 + 1 == seen.pass && pos.0 == seen.settled {
                return Ok(Settled::Stored);
            }
            if pass.0 != seen.pass || pos.0 < seen.settled {
                return Ok(Settled::Stale);
            }
        }
        for park in &settle.park {
            step.park(&settle.destination, seen.generation, park)?;
        }
        for unpark in &settle.unpark {
            step.unpark(name, unpark)?;
        }
        if let Some((pass, pos)) = settle.upto {
            step.wrote();
            let mut statement = step.conn().prepare_cached(queries::OUTBOX_ADVANCE)?;
            let (epoch, pass) = (number(settle.epoch.0), number(pass.0));
            statement.execute((name, epoch, pass, number(pos.0), settle.ends))?;
        }
        Ok(Settled::Stored)
    }
}

impl Step<'_> {
    /// Parks an event, unless it is parked already; says whether it was not.
    pub(super) fn park(
        &mut self,
        destination: &Destination,
        generation: u32,
        park: &Park,
    ) -> Result<bool, Fault> {
        let now = record::micros(self.now());
        self.wrote();
        let Park { placed, state, attempts, why } = park;
        let (event, pos) = (&placed.event, number(placed.pos.0));
        if let Some(unreadable) = &placed.unreadable {
            let mut statement = self.conn().prepare_cached(queries::OUTBOX_PARK_UNREADABLE)?;
            let parked = statement.execute((
                event.lane.kind(),
                event.lane.id(),
                destination.as_str(),
                generation,
                pos,
                state.as_str(),
                attempts,
                why,
                now,
                unreadable,
            ))?;
            return Ok(parked == 1);
        }
        let mut statement = self.conn().prepare_cached(queries::OUTBOX_PARK)?;
        row::bind(&mut statement, event, placed.at)?;
        statement.raw_bind_parameter(15, destination.as_str())?;
        statement.raw_bind_parameter(16, generation)?;
        statement.raw_bind_parameter(17, pos)?;
        statement.raw_bind_parameter(18, state.as_str())?;
        statement.raw_bind_parameter(19, attempts)?;
        statement.raw_bind_parameter(20, why)?;
        statement.raw_bind_parameter(21, now)?;
        Ok(statement.raw_execute()? == 1)
    }

    fn unpark(&mut self, destination: &str, unpark: &Unpark) -> Result<(), Fault> {
        let now = record::micros(self.now());
        self.wrote();
        let conn = self.conn();
        match unpark {
            Unpark::Failed { seq, attempts, why } => {
                let mut statement = conn.prepare_cached(queries::OUTBOX_REFAIL)?;
                statement.execute((destination, number(*seq), attempts, why))?;
            }
            Unpark::LeftOut { seq } => {
                let mut statement = conn.prepare_cached(queries::OUTBOX_NOTE_BEHIND)?;
                if statement.execute((destination, number(*seq), now))? > 0 {
                    let mut trim = conn.prepare_cached(queries::OUTBOX_NOTE_TRIM)?;
                    trim.execute([self.audit_max()])?;
                }
                // By the rows that go next.
                let mut statement = conn.prepare_cached(queries::OUTBOX_LEAVE_OUT)?;
                statement.execute((destination, number(*seq)))?;
                let mut statement = conn.prepare_cached(queries::OUTBOX_DROP_BEHIND)?;
                statement.execute((destination, number(*seq)))?;
                let mut statement = conn.prepare_cached(queries::OUTBOX_UNPARK)?;
                statement.execute((destination, number(*seq)))?;
            }
            Unpark::Sent { seq } => {
                let mut statement = conn.prepare_cached(queries::OUTBOX_UNPARK)?;
                statement.execute((destination, number(*seq)))?;
            }
        }
        Ok(())
    }
}
