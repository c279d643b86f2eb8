//! Reads of operators, and their words.

use async_trait::async_trait;
use semel::{
    StoreError, Timestamp,
    inbox::{
        Consumer, ConsumerState, Had, InboxAudit, InboxAuditKind, InboxInspect, InboxStore, LogId,
        Mark, MessageId, MessageState, ParkedFilter, ParkedMessage,
        inspect::{COUNT_MAX, LIST_MAX},
    },
    store::{Actor, actor_within_bounds},
};
use tokio_postgres::Row;

use super::{
    known::{self, bad_name},
    store::parked,
};
use crate::{
    PostgresStore,
    error::{Fault, damaged},
    link::{Step, Work},
    names::told,
    row,
    value::{Cells, Value},
};

/// How many positions of all consumers are read at most.
const POSITIONS_MAX: i64 = 10_000;

#[async_trait]
impl InboxInspect for PostgresStore {
    async fn consumers(&self) -> Result<Vec<ConsumerState>, StoreError> {
        self.rest(Consumers).await
    }

    async fn had(
        &self,
        consumer: Consumer,
        after: Option<MessageId>,
        limit: u32,
    ) -> Result<Vec<Had>, StoreError> {
        self.rest(Listed { consumer, after, limit: bounded(limit) }).await
    }

    async fn message(
        &self,
        consumer: Consumer,
        message: MessageId,
    ) -> Result<MessageState, StoreError> {
        let (recorded, parked) = self.rest(One(consumer.clone(), message.clone())).await?;
        let attempts = self.attempts(consumer, vec![message]).await?.pop();
        let attempts = attempts.filter(|attempts| attempts.count > 0);
        Ok(MessageState { recorded, parked, attempts })
    }

    async fn chain(&self, id: Box<str>) -> Result<Vec<Had>, StoreError> {
        self.rest(Chain(id)).await
    }

    async fn parked(&self, filter: ParkedFilter) -> Result<Vec<ParkedMessage>, StoreError> {
        self.rest(ListParked(filter)).await
    }

    async fn mark(
        &self,
        consumer: Consumer,
        message: MessageId,
        mark: Mark,
        actor: Actor,
    ) -> Result<bool, StoreError> {
        actor_within_bounds(&actor)?;
        self.rest(Marking { consumer, message, mark, actor }).await
    }

    async fn inbox_audit(
        &self,
        consumer: Option<Consumer>,
        limit: u32,
    ) -> Result<Vec<InboxAudit>, StoreError> {
        self.rest(Audit { consumer, limit: bounded(limit) }).await
    }
}

fn bounded(limit: u32) -> i64 {
    i64::from(limit.min(LIST_MAX))
}

struct Consumers;

impl Work for Consumers {
    type Done = Vec<ConsumerState>;

    async fn run(&self, step: Step<'_>) -> Result<Vec<ConsumerState>, Fault> {
        let values =
            [Value::Bigint(Some(i64::from(LIST_MAX))), Value::Bigint(Some(i64::from(COUNT_MAX)))];
        let params: Vec<_> = values.iter().map(Value::param).collect();
        let mut consumers = Vec::new();
        for row in step.alone(&step.statements().inbox_consumers, &params).await? {
            let count = |at| Ok::<_, Fault>(row::count(&row, at)?.unwrap_or_default());
            consumers.push(ConsumerState {
                consumer: known::consumer(&row, 0)?,
                remembered: count(1)?,
                positions: Vec::new(),
                failed: count(2)?,
                retry: count(3)?,
                oldest_failed: row::count(&row, 4)?.map(Timestamp::from_micros),
                attempted: count(5)?,
                now: row::instant(&row, 6)?,
            });
        }
        let limit = Value::Bigint(Some(POSITIONS_MAX));
        for row in step.alone(&step.statements().inbox_positions, &[limit.param()]).await? {
            let name = row.text(0)?.unwrap_or_default();
            let log = LogId::new(row.text(1)?.unwrap_or_default()).map_err(bad_name)?;
            let next = row::count(&row, 2)?.unwrap_or_default();
            let of = consumers.iter_mut().find(|state| state.consumer.as_str() == name);
            if let Some(state) = of {
                state.positions.push((log, next));
            }
        }
        Ok(consumers)
    }
}

struct Listed {
    consumer: Consumer,
    after: Option<MessageId>,
    limit: i64,
}

impl Work for Listed {
    type Done = Vec<Had>;

    async fn run(&self, step: Step<'_>) -> Result<Vec<Had>, Fault> {
        let after = self.after.as_ref();
        let values = [
            Value::Text(Some(self.consumer.as_str())),
            Value::Text(Some(after.map_or("", |after| after.source.as_str()))),
            Value::Text(Some(after.map_or("", MessageId::id))),
            Value::Bigint(Some(self.limit)),
        ];
        let params: Vec<_> = values.iter().map(Value::param).collect();
        step.alone(&step.statements().inbox_had, &params).await?.iter().map(had).collect()
    }
}

fn had(row: &Row) -> Result<Had, Fault> {
    Ok(Had {
        consumer: known::consumer(row, known::COLUMNS)?,
        message: known::message(row, known::COLUMNS + 1)?,
        recorded: known::recorded(row, 0)?,
    })
}

struct One(Consumer, MessageId);

impl Work for One {
    type Done = (Option<semel::inbox::Recorded>, Option<ParkedMessage>);

    async fn run(&self, step: Step<'_>) -> Result<Self::Done, Fault> {
        let Self(consumer, message) = self;
        let values = [
            Value::Text(Some(consumer.as_str())),
            Value::Text(Some(message.source.as_str())),
            Value::Text(Some(message.id())),
        ];
        let params: Vec<_> = values.iter().map(Value::param).collect();
        let known = step.alone(&step.statements().inbox_recorded, &params).await?;
        let copy = step.alone(&step.statements().inbox_parked_one, &params).await?;
        let recorded = known.first().map(|row| known::recorded(row, 0)).transpose()?;
        Ok((recorded, copy.first().map(parked).transpose()?))
    }
}

struct Chain(Box<str>);

impl Work for Chain {
    type Done = Vec<Had>;

    async fn run(&self, step: Step<'_>) -> Result<Vec<Had>, Fault> {
        let values = [Value::Text(Some(&self.0)), Value::Bigint(Some(i64::from(LIST_MAX)))];
        let params: Vec<_> = values.iter().map(Value::param).collect();
        step.alone(&step.statements().inbox_chain, &params).await?.iter().map(had).collect()
    }
}

struct ListParked(ParkedFilter);

impl Work for ListParked {
    type Done = Vec<ParkedMessage>;

    async fn run(&self, step: Step<'_>) -> Result<Vec<ParkedMessage>, Fault> {
        let (filter, after) = (&self.0, self.0.after.as_ref());
        let values = [
            Value::Text(Some(after.map_or("", |(consumer, _)| consumer.as_str()))),
            Value::Text(Some(after.map_or("", |(_, message)| message.source.as_str()))),
            Value::Text(Some(after.map_or("", |(_, message)| message.id()))),
            Value::Text(filter.consumer.as_ref().map(Consumer::as_str)),
            Value::Text(filter.state.map(semel::inbox::ParkedState::as_str)),
            Value::Bigint(Some(bounded(filter.limit))),
        ];
        let params: Vec<_> = values.iter().map(Value::param).collect();
        step.alone(&step.statements().inbox_parked, &params).await?.iter().map(parked).collect()
    }
}

struct Marking {
    consumer: Consumer,
    message: MessageId,
    mark: Mark,
    actor: Actor,
}

impl Work for Marking {
    type Done = bool;

    async fn run(&self, step: Step<'_>) -> Result<bool, Fault> {
        let (name, note) = (told(&self.actor.name), told(&self.actor.note));
        let values = [
            Value::Text(Some(self.consumer.as_str())),
            Value::Text(Some(self.message.source.as_str())),
            Value::Text(Some(self.message.id())),
            Value::Text(Some(self.mark.as_str())),
            Value::Text(Some(&name)),
            Value::Text(Some(&note)),
        ];
        let params: Vec<_> = values.iter().map(Value::param).collect();
        let rows = step.bounded(&step.statements().inbox_mark, &params).await?;
        let is_there = rows.first().map(|row| row.truth(0)).transpose()?.flatten();
        Ok(is_there == Some(true))
    }
}

struct Audit {
    consumer: Option<Consumer>,
    limit: i64,
}

impl Work for Audit {
    type Done = Vec<InboxAudit>;

    async fn run(&self, step: Step<'_>) -> Result<Vec<InboxAudit>, Fault> {
        let consumer = Value::Text(self.consumer.as_ref().map(Consumer::as_str));
        let params = [consumer.param(), (&self.limit as _, tokio_postgres::types::Type::INT8)];
        step.alone(&step.statements().inbox_audit, &params).await?.iter().map(entry).collect()
    }
}

fn entry(row: &Row) -> Result<InboxAudit, Fault> {
    let kind = row.text(1)?.and_then(InboxAuditKind::from_word);
    Ok(InboxAudit {
        at: row::instant(row, 0)?,
        kind: kind.ok_or_else(|| damaged("an audit row has an unknown kind; upgrade semel"))?,
        consumer: known::consumer(row, 2)?,
        message: known::message(row, 3)?,
        actor: row.text(5)?.unwrap_or_default().into(),
        note: row.text(6)?.unwrap_or_default().into(),
    })
}
