//! Reads and words for operators.

use async_trait::async_trait;
use semel::{
    Operation, StoreError, Timestamp,
    outbox::{
        Destination, EventId, Lane, OutboxInspect, Parked, ParkedState, Placed, Pos,
        audit::{OutboxAudit, OutboxAuditKind},
        store::{DestinationState, Epoch, EventFilter, LeftOut, ParkedFilter, READ_MAX, Replayed},
    },
    store::{Actor, actor_within_bounds},
};

use super::{no_answer, row, signed, unsigned};
use crate::{
    PostgresStore,
    error::{Fault, damaged, invalid},
    link::{Step, Work},
    names::{numbers, told},
    row as stored,
    value::{self, Cells, Value},
};

#[async_trait]
impl OutboxInspect for PostgresStore {
    async fn destinations(&self) -> Result<Vec<DestinationState>, StoreError> {
        self.rest(Destinations).await
    }

    async fn events(&self, filter: EventFilter) -> Result<Vec<Placed>, StoreError> {
        self.rest(Events(filter)).await
    }

    async fn parked(&self, filter: ParkedFilter) -> Result<Vec<Parked>, StoreError> {
        self.rest(ParkedRows(filter)).await
    }

    async fn mark(
        &self,
        destination: Destination,
        seqs: Vec<u64>,
        state: ParkedState,
        actor: Actor,
    ) -> Result<u64, StoreError> {
        if matches!(state, ParkedState::Behind | ParkedState::Failed) {
            return Err(invalid("rows are marked to be retried, skipped or dropped"));
        }
        if seqs.len() > READ_MAX {
            return Err(invalid("more rows are marked than may be at once"));
        }
        actor_within_bounds(&actor)?;
        self.rest(Mark { destination, seqs, state, actor }).await
    }

    async fn replay(
        &self,
        destination: Destination,
        filter: EventFilter,
        left_out: LeftOut,
        actor: Actor,
    ) -> Result<Replayed, StoreError> {
        actor_within_bounds(&actor)?;
        self.rest(Replay { destination, filter, left_out, actor }).await
    }

    async fn forget(&self, destination: Destination, actor: Actor) -> Result<bool, StoreError> {
        actor_within_bounds(&actor)?;
        let slot = self.slot_name(&destination);
        let forgotten = self.rest(Forget { destination, actor }).await?;
        if forgotten {
            self.drop_slot(slot).await?;
        }
        Ok(forgotten)
    }

    async fn outbox_audit(
        &self,
        destination: Option<Destination>,
        limit: u32,
    ) -> Result<Vec<OutboxAudit>, StoreError> {
        self.rest(Audit { destination, limit: bounded(limit) }).await
    }
}

fn bounded(limit: u32) -> i64 {
    i64::from(limit).min(i64::try_from(READ_MAX).unwrap_or(i64::MAX))
}

/// Keeps the audit within its bound.
async fn trim(step: Step<'_>) -> Result<(), Fault> {
    let stay = [Value::Bigint(Some(i64::from(step.links.settings.audit_max)))];
    value::execute(step.client(), &step.statements().outbox_trim, &stay).await.map(drop)
}

struct Destinations;

impl Work for Destinations {
    type Done = Vec<DestinationState>;

    async fn run(&self, step: Step<'_>) -> Result<Self::Done, Fault> {
        let count = [Value::Bigint(Some(i64::from(DestinationState::WAITING_MAX)))];
        let params: Vec<_> = count.iter().map(Value::param).collect();
        let rows = step.alone(&step.statements().outbox_destinations, &params).await?;
        rows.iter().map(state).collect()
    }
}

fn state(row: &tokio_postgres::Row) -> Result<DestinationState, Fault> {
    let bad = || damaged("a cursor has a name that none can have; restore a backup");
    let now = stored::instant(row, 10)?;
    let until = stored::instant(row, 2)?;
    let owner: Box<str> = row.text(1)?.unwrap_or_default().into();
    Ok(DestinationState {
        destination: destination(row, 0)?.ok_or_else(bad)?,
        leader: (until > now).then_some((owner, until)),
        epoch: Epoch(unsigned(row, 3)?),
        generation: u32::try_from(unsigned(row, 4)?).unwrap_or(u32::MAX),
        oldest: stored::count(row, 5)?.map(Timestamp::from_micros),
        waiting: unsigned(row, 6)?,
        parked: unsigned(row, 7)?,
        parked_lanes: unsigned(row, 8)?,
        oldest_parked: stored::count(row, 9)?.map(Timestamp::from_micros),
        oldest_aside: stored::count(row, 11)?.map(Timestamp::from_micros),
        failed_lanes: unsigned(row, 12)?,
        oldest_failed: stored::count(row, 13)?.map(Timestamp::from_micros),
        now,
    })
}

fn destination(row: &impl Cells, at: usize) -> Result<Option<Destination>, Fault> {
    Ok(row.text(at)?.and_then(|name| Destination::new(name).ok()))
}

/// What the statements have that list events by a filter.
struct Named<'a> {
    filter: &'a EventFilter,
    id: Option<String>,
}

impl<'a> Named<'a> {
    fn of(filter: &'a EventFilter) -> Self {
        Self { filter, id: filter.id.map(|id: EventId| id.to_string()) }
    }

    fn values(&self) -> Vec<Value<'_>> {
        let filter = self.filter;
        let (lane, intent) = (filter.lane.as_ref(), filter.intent.as_ref());
        let of_intent = intent.map(|intent| intent.scope.operation.as_str());
        let operation = filter.operation.as_ref().map(Operation::as_str);
        vec![
            Value::Bigint(Some(filter.after.map_or(-1, row::pos))),
            Value::Text(self.id.as_deref()),
            Value::Text(lane.map(Lane::kind)),
            Value::Text(lane.map(Lane::id)),
            Value::Text(intent.map(|intent| intent.scope.tenant.as_str())),
            Value::Text(of_intent.or(operation)),
            Value::Text(intent.map(|intent| intent.key.as_str())),
            Value::Bytes(intent.map(stored::facet)),
            Value::Bigint(filter.from.map(stored::micros)),
            Value::Bigint(filter.until.map(stored::micros)),
            Value::Bigint(Some(bounded(filter.limit))),
        ]
    }

    /// Whether an intent and an operation are asked for that exclude each other.
    fn is_none(&self) -> bool {
        let of = self.filter.intent.as_ref().map(|intent| &intent.scope.operation);
        self.filter.operation.as_ref().zip(of).is_some_and(|(asked, of)| asked != of)
    }
}

struct Events(EventFilter);

impl Work for Events {
    type Done = Vec<Placed>;

    async fn run(&self, step: Step<'_>) -> Result<Vec<Placed>, Fault> {
        let named = Named::of(&self.0);
        if named.is_none() {
            return Ok(Vec::new());
        }
        let values = named.values();
        let params: Vec<_> = values.iter().map(Value::param).collect();
        let rows = step.rows(&step.statements().outbox_list, &params).await?;
        rows.iter().map(row::placed).collect()
    }
}

struct ParkedRows(ParkedFilter);

impl Work for ParkedRows {
    type Done = Vec<Parked>;

    async fn run(&self, step: Step<'_>) -> Result<Vec<Parked>, Fault> {
        let filter = &self.0;
        let id = filter.id.map(|id| id.to_string());
        let lane = filter.lane.as_ref();
        let values = [
            Value::Bigint(Some(filter.after.map_or(-1, signed))),
            Value::Text(filter.destination.as_ref().map(Destination::as_str)),
            Value::Text(lane.map(Lane::kind)),
            Value::Text(lane.map(Lane::id)),
            Value::Text(filter.state.map(ParkedState::as_str)),
            Value::Text(id.as_deref()),
            Value::Bigint(Some(bounded(filter.limit))),
        ];
        let params: Vec<_> = values.iter().map(Value::param).collect();
        let rows = step.rows(&step.statements().outbox_parked, &params).await?;
        rows.iter().map(row::parked).collect()
    }
}

struct Mark {
    destination: Destination,
    seqs: Vec<u64>,
    state: ParkedState,
    actor: Actor,
}

impl Work for Mark {
    type Done = u64;

    async fn run(&self, step: Step<'_>) -> Result<u64, Fault> {
        let seqs: Vec<i64> = self.seqs.iter().map(|seq| signed(*seq)).collect();
        let (actor, note) = (told(&self.actor.name), told(&self.actor.note));
        let destination = Value::Text(Some(self.destination.as_str()));
        let words = [
            Value::Text(Some(self.state.as_str())),
            Value::Text(Some(&actor)),
            Value::Text(Some(&note)),
        ];
        let mut params = vec![destination.param(), numbers(&seqs)];
        params.extend(words.iter().map(Value::param));
        let rows = step.alone(&step.statements().outbox_mark, &params).await?;
        trim(step).await?;
        unsigned(rows.first().ok_or_else(no_answer)?, 0)
    }
}

struct Replay {
    destination: Destination,
    filter: EventFilter,
    left_out: LeftOut,
    actor: Actor,
}

impl Work for Replay {
    type Done = Replayed;

    async fn run(&self, step: Step<'_>) -> Result<Replayed, Fault> {
        let named = Named::of(&self.filter);
        let (actor, note) = (told(&self.actor.name), told(&self.actor.note));
        let mut values = named.values();
        if named.is_none() {
            // Nothing is named; that it was asked for is kept all the same.
            values[10] = Value::Bigint(Some(0));
        }
        values.extend([
            Value::Text(Some(self.destination.as_str())),
            Value::Text(Some(&actor)),
            Value::Text(Some(&note)),
            Value::Truth(self.left_out == LeftOut::Goes),
        ]);
        let params: Vec<_> = values.iter().map(Value::param).collect();
        let rows = step.alone(&step.statements().outbox_replay, &params).await?;
        let row = rows.first().ok_or_else(no_answer)?;
        if unsigned(row, 0)? == 0 {
            return Err(invalid("nobody ever led this destination").into());
        }
        trim(step).await?;
        let mut replayed = Replayed::default();
        replayed.parked = unsigned(row, 1)?;
        replayed.left_out = unsigned(row, 2)?;
        replayed.rest = stored::count(row, 3)?.map(Pos);
        Ok(replayed)
    }
}

struct Forget {
    destination: Destination,
    actor: Actor,
}

impl Work for Forget {
    type Done = bool;

    async fn run(&self, step: Step<'_>) -> Result<bool, Fault> {
        let (actor, note) = (told(&self.actor.name), told(&self.actor.note));
        let values = [
            Value::Text(Some(self.destination.as_str())),
            Value::Text(Some(&actor)),
            Value::Text(Some(&note)),
        ];
        let params: Vec<_> = values.iter().map(Value::param).collect();
        let rows = step.alone(&step.statements().outbox_forget, &params).await?;
        trim(step).await?;
        Ok(rows.first().ok_or_else(no_answer)?.truth(0)? == Some(true))
    }
}

struct Audit {
    destination: Option<Destination>,
    limit: i64,
}

impl Work for Audit {
    type Done = Vec<OutboxAudit>;

    async fn run(&self, step: Step<'_>) -> Result<Vec<OutboxAudit>, Fault> {
        let values = [
            Value::Text(self.destination.as_ref().map(Destination::as_str)),
            Value::Bigint(Some(self.limit)),
        ];
        let params: Vec<_> = values.iter().map(Value::param).collect();
        let rows = step.rows(&step.statements().outbox_audit, &params).await?;
        rows.iter().map(entry).collect()
    }
}

fn entry(row: &tokio_postgres::Row) -> Result<OutboxAudit, Fault> {
    let bad =
        || damaged("an audit row of the outbox is not what this version writes; upgrade semel");
    let event = row.bytes(3)?.map(|bytes| bytes.try_into().map_err(|_| bad())).transpose()?;
    Ok(OutboxAudit {
        destination: destination(row, 0)?.ok_or_else(bad)?,
        at: stored::instant(row, 1)?,
        kind: row.text(2)?.and_then(OutboxAuditKind::from_word).ok_or_else(bad)?,
        event: event.map(EventId::from_bytes),
        rows: unsigned(row, 4)?,
        actor: row.text(5)?.unwrap_or_default().into(),
        note: row.text(6)?.unwrap_or_default().into(),
    })
}
