//! What a relay asks: to lead, to read, to settle. Each verb is one statement, a call of the schema's
//! function for it; `docs/internals/postgres.md` says why they are as they are.

mod append;
pub(crate) mod hints;
mod import;
mod inspect;
mod read;
mod retain;
mod row;
mod slot;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use semel::{
    StoreError,
    outbox::{
        Destination, Epoch, Lane, Lead, Leader, Led, OutboxStore, Park, Pos, Settle, Settled,
        Start, Window,
        store::{Due, Pass, READ_MAX, Unpark},
    },
};

pub(crate) use self::{
    append::{Append, Columns},
    hints::Hints,
    read::Passes,
};
pub use self::{
    import::{ImportOutbox, ImportSlot, ImportState, Imported},
    slot::SlotOutbox,
};
use crate::{
    PostgresStore,
    error::{Fault, damaged, invalid},
    link::{Step, Work},
    names::{Param, numbers, texts, told},
    row as stored,
    value::{Cells, Value},
};

#[async_trait]
impl OutboxStore for PostgresStore {
    async fn lead(&self, ask: Lead) -> Result<Led, StoreError> {
        let led = self.take_lead(ask).await?;
        if let Led::Leader(leader) = &led {
            self.drop_unread(&leader.destination).await;
        }
        Ok(led)
    }

    async fn renew(&self, leader: Leader, lease: Duration) -> Result<Settled, StoreError> {
        if lease.is_zero() {
            return Err(invalid("a leadership is renewed for some time, else given up"));
        }
        self.soon(Renew { leader, lease }).await
    }

    async fn resign(&self, leader: Leader) -> Result<Settled, StoreError> {
        self.soon(Renew { leader, lease: Duration::ZERO }).await
    }

    async fn read(
        &self,
        leader: Leader,
        after: Option<(Pass, Pos)>,
        limit: usize,
        bytes_max: usize,
    ) -> Result<Window, StoreError> {
        let (limit, bytes_max) = (limit.clamp(1, READ_MAX), bytes_max.max(1));
        let passes = Arc::clone(&self.passes);
        let flushed = self.links.settings.outbox_flushed;
        self.soon(read::Read { leader, after, limit, bytes_max, passes, flushed }).await
    }

    async fn settle(&self, settle: Settle) -> Result<Settled, StoreError> {
        within_bounds(&settle)?;
        self.soon(Settlement(settle)).await
    }

    async fn parked_lanes(
        &self,
        destination: Destination,
        after: Option<Lane>,
    ) -> Result<Vec<Lane>, StoreError> {
        self.soon(Lanes { destination, after }).await
    }

    async fn due(
        &self,
        destination: Destination,
        limit: usize,
        bytes_max: usize,
    ) -> Result<Vec<Due>, StoreError> {
        self.soon(NextOfLanes { destination, limit: limit.min(READ_MAX), bytes_max }).await
    }
}

impl PostgresStore {
    /// Leads, by whatever the passes are read.
    async fn take_lead(&self, ask: Lead) -> Result<Led, StoreError> {
        if ask.owner.len() > Lead::OWNER_MAX || ask.lease.is_zero() {
            return Err(invalid("a leadership has an owner of at most 255 bytes, and a lease"));
        }
        self.soon(ask).await
    }
}

/// Refuses a settlement that breaks a bound.
fn within_bounds(settle: &Settle) -> Result<(), StoreError> {
    if settle.park.len() > READ_MAX || settle.unpark.len() > READ_MAX {
        return Err(invalid("a settlement has more rows than one may have"));
    }
    if settle.ends && settle.upto.is_none() {
        return Err(invalid("a settlement ends a pass that it does not name"));
    }
    let mut reasons = settle.park.iter().map(|row| &row.why).chain(
        settle.unpark.iter().filter_map(|row| match row {
            Unpark::Failed { why, .. } => Some(why),
            Unpark::LeftOut { .. } | Unpark::Sent { .. } => None,
        }),
    );
    if reasons.any(|why| why.len() > Park::WHY_MAX) {
        return Err(invalid("why a row is parked is told in more than 1,000 bytes"));
    }
    Ok(())
}

/// Returns a position, a pass or an epoch as it is stored: they count from 0.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(row: &impl Cells, at: usize) -> Result<u64, Fault> {
    stored::count(row, at)?.ok_or_else(|| damaged("a column of the outbox is empty").into())
}

fn no_answer() -> Fault {
    damaged("a function of the schema answers nothing; restore a backup").into()
}

impl Work for Lead {
    type Done = Led;

    async fn run(&self, step: Step<'_>) -> Result<Led, Fault> {
        let owner = told(&self.owner);
        let values = [
            Value::Text(Some(self.destination.as_str())),
            Value::Text(Some(&owner)),
            Value::Bigint(Some(stored::span(self.lease))),
            Value::Truth(self.start == Start::Now),
        ];
        let params: Vec<_> = values.iter().map(Value::param).collect();
        let rows = step.alone(&step.statements().outbox_lead, &params).await?;
        let row = rows.first().ok_or_else(no_answer)?;
        if row.truth(0)? != Some(true) {
            let owner = row.text(3)?.unwrap_or_default().into();
            let ends_in = Duration::from_micros(unsigned(row, 4)?);
            return Ok(Led::Follower { owner, ends_in });
        }
        let generation = u32::try_from(unsigned(row, 2)?).unwrap_or(u32::MAX);
        let (destination, epoch) = (self.destination.clone(), Epoch(unsigned(row, 1)?));
        Ok(Led::Leader(Leader { destination, epoch, generation }))
    }
}

/// Renews a leadership; for no time, gives it up.
struct Renew {
    leader: Leader,
    lease: Duration,
}

impl Work for Renew {
    type Done = Settled;

    async fn run(&self, step: Step<'_>) -> Result<Settled, Fault> {
        let values = [
            Value::Text(Some(self.leader.destination.as_str())),
            Value::Bigint(Some(signed(self.leader.epoch.0))),
            Value::Bigint(Some(stored::span(self.lease))),
        ];
        let params: Vec<_> = values.iter().map(Value::param).collect();
        settled(&step.alone(&step.statements().outbox_renew, &params).await?)
    }
}

fn settled(rows: &[tokio_postgres::Row]) -> Result<Settled, Fault> {
    let stored = rows.first().map(|row| row.truth(0)).transpose()?.flatten();
    Ok(if stored == Some(true) { Settled::Stored } else { Settled::Stale })
}

struct Settlement(Settle);

impl Work for Settlement {
    type Done = Settled;

    async fn run(&self, step: Step<'_>) -> Result<Settled, Fault> {
        let Settle { destination, epoch, upto, ends, park, unpark } = &self.0;
        let (pass, pos) = upto.map(|(pass, pos)| (signed(pass.0), signed(pos.0))).unzip();
        let values = [
            Value::Text(Some(destination.as_str())),
            Value::Bigint(Some(signed(epoch.0))),
            Value::Bigint(pass),
            Value::Bigint(pos),
            Value::Truth(*ends),
        ];
        let (parks, unparks) = (Parks::of(park), Unparks::of(unpark));
        let mut params: Vec<Param<'_>> = values.iter().map(Value::param).collect();
        params.extend([
            numbers(&parks.positions),
            texts(&parks.states),
            numbers(&parks.attempts),
            texts(&parks.reasons),
            numbers(&unparks.sent),
            numbers(&unparks.left_out),
            numbers(&unparks.failed),
            numbers(&unparks.attempts),
            texts(&unparks.reasons),
        ]);
        settled(&step.alone(&step.statements().outbox_settle, &params).await?)
    }
}

/// Rows to park, column by column.
#[derive(Default)]
struct Parks {
    positions: Vec<i64>,
    states: Vec<&'static str>,
    attempts: Vec<i64>,
    reasons: Vec<Box<str>>,
}

impl Parks {
    fn of(rows: &[Park]) -> Self {
        let mut all = Self::default();
        for row in rows {
            all.positions.push(signed(row.placed.pos.0));
            all.states.push(row.state.as_str());
            all.attempts.push(i64::from(row.attempts));
            all.reasons.push(told(&row.why));
        }
        all
    }
}

/// What became of parked rows, column by column.
#[derive(Default)]
struct Unparks {
    sent: Vec<i64>,
    left_out: Vec<i64>,
    failed: Vec<i64>,
    attempts: Vec<i64>,
    reasons: Vec<Box<str>>,
}

impl Unparks {
    fn of(rows: &[Unpark]) -> Self {
        let mut all = Self::default();
        for row in rows {
            match row {
                Unpark::Failed { seq, attempts, why } => {
                    all.failed.push(signed(*seq));
                    all.attempts.push(i64::from(*attempts));
                    all.reasons.push(told(why));
                }
                Unpark::LeftOut { seq } => all.left_out.push(signed(*seq)),
                Unpark::Sent { seq } => all.sent.push(signed(*seq)),
            }
        }
        all
    }
}

struct Lanes {
    destination: Destination,
    after: Option<Lane>,
}

impl Work for Lanes {
    type Done = Vec<Lane>;

    async fn run(&self, step: Step<'_>) -> Result<Vec<Lane>, Fault> {
        let after = self.after.as_ref();
        let values = [
            Value::Text(Some(self.destination.as_str())),
            Value::Text(Some(after.map_or("", Lane::kind))),
            Value::Text(Some(after.map_or("", Lane::id))),
            Value::Bigint(Some(i64::try_from(READ_MAX).unwrap_or(i64::MAX))),
        ];
        let params: Vec<_> = values.iter().map(Value::param).collect();
        let rows = step.rows(&step.statements().outbox_lanes, &params).await?;
        rows.iter()
            .map(|row| {
                let text = |at| row.text(at).map(Option::unwrap_or_default);
                Ok(row::lane_of(text(0)?, text(1)?))
            })
            .collect()
    }
}

struct NextOfLanes {
    destination: Destination,
    limit: usize,
    bytes_max: usize,
}

impl Work for NextOfLanes {
    type Done = Vec<Due>;

    async fn run(&self, step: Step<'_>) -> Result<Vec<Due>, Fault> {
        let number = |of: usize| Value::Bigint(Some(i64::try_from(of).unwrap_or(i64::MAX)));
        let values = [
            Value::Text(Some(self.destination.as_str())),
            number(self.limit),
            number(Due::ROWS_MAX),
            number(self.bytes_max.max(1)),
        ];
        let params: Vec<_> = values.iter().map(Value::param).collect();
        let rows = step.rows(&step.statements().outbox_due, &params).await?;
        let mut due: Vec<Due> = Vec::new();
        for row in &rows {
            let (parked, looked) = (row::parked(row)?, unsigned(row, row::BEHIND_PARKED + 1)?);
            if unsigned(row, row::BEHIND_PARKED)? == parked.seq {
                due.push(Due::default());
            }
            if let Some(of_lane) = due.last_mut() {
                of_lane.rows.push(parked);
                of_lane.whole = u64::try_from(of_lane.rows.len()).is_ok_and(|rows| rows == looked);
            }
        }
        Ok(due)
    }
}
