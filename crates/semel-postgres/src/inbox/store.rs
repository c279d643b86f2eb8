//! What happens beside the transactions of the effects: attempts, parking, positions.

use std::collections::HashMap;

use async_trait::async_trait;
use semel::{
    StoreError, Timestamp,
    inbox::{
        Attempts, Consumer, InboxStore, LogId, MessageId, Mismatch, Park, ParkAnswer,
        ParkedMessage, Position, Uncount,
        store::{ParkedState, READ_MAX, within_read},
    },
};
use tokio_postgres::{Row, types::Type};

use super::{
    known::{self, bad_name},
    receive::offset,
};
use crate::{
    PostgresStore,
    error::{Fault, damaged},
    link::{Step, Work},
    names::{bytes, texts, told},
    row,
    value::{Cells, Value},
};

#[async_trait]
impl InboxStore for PostgresStore {
    async fn check(&self) -> Result<(), StoreError> {
        self.soon(Check).await
    }

    async fn attempts(
        &self,
        consumer: Consumer,
        messages: Vec<MessageId>,
    ) -> Result<Vec<Attempts>, StoreError> {
        within_read(messages.len())?;
        self.soon(Count { consumer, messages, counts: false }).await
    }

    async fn count(
        &self,
        consumer: Consumer,
        messages: Vec<MessageId>,
    ) -> Result<Vec<Attempts>, StoreError> {
        within_read(messages.len())?;
        self.soon(Count { consumer, messages, counts: true }).await
    }

    async fn uncount(
        &self,
        consumer: Consumer,
        messages: Vec<MessageId>,
        why: Uncount,
    ) -> Result<(), StoreError> {
        within_read(messages.len())?;
        self.soon(Forget { consumer, messages, why }).await
    }

    async fn park(&self, park: Park) -> Result<ParkAnswer, StoreError> {
        park.check()?;
        self.soon(Parking(Box::new(park))).await
    }

    async fn due(
        &self,
        consumer: Consumer,
        limit: usize,
    ) -> Result<Vec<ParkedMessage>, StoreError> {
        let limit = i64::try_from(limit.min(READ_MAX)).unwrap_or(i64::MAX);
        self.soon(Due { consumer, limit }).await
    }

    async fn positions(
        &self,
        consumer: Consumer,
        logs: Vec<LogId>,
    ) -> Result<Vec<Option<u64>>, StoreError> {
        within_read(logs.len())?;
        self.soon(Positions { consumer, logs }).await
    }

    async fn report(&self, mismatch: Mismatch) -> Result<(), StoreError> {
        self.soon(Report(mismatch)).await
    }
}

struct Check;

impl Work for Check {
    type Done = ();

    async fn run(&self, step: Step<'_>) -> Result<(), Fault> {
        let rows = step.alone(&step.statements().inbox_check, &[]).await?;
        let unique = rows.first().map(|row| row.truth(0)).transpose()?.flatten();
        if unique == Some(true) {
            return Ok(());
        }
        Err(damaged(
            "the inbox's tables have lost a unique key, so that copies could pass; stop, remove the \
             duplicates, and restore the primary keys of semel.inbox and semel.inbox_position",
        )
        .into())
    }
}

/// The names of messages as two columns.
struct Columns<'a> {
    sources: Vec<&'a str>,
    ids: Vec<&'a str>,
}

impl<'a> Columns<'a> {
    fn of(messages: &'a [MessageId]) -> Self {
        let source = |message: &'a MessageId| message.source.as_str();
        Self {
            sources: messages.iter().map(source).collect(),
            ids: messages.iter().map(MessageId::id).collect(),
        }
    }
}

struct Count {
    consumer: Consumer,
    messages: Vec<MessageId>,
    /// Whether one more is counted.
    counts: bool,
}

impl Work for Count {
    type Done = Vec<Attempts>;

    async fn run(&self, step: Step<'_>) -> Result<Vec<Attempts>, Fault> {
        let (columns, statements) = (Columns::of(&self.messages), step.statements());
        let consumer = Value::Text(Some(self.consumer.as_str()));
        let params = [consumer.param(), texts(&columns.sources), texts(&columns.ids)];
        let rows = match self.counts {
            true => step.bounded(&statements.inbox_count, &params).await?,
            false => step.alone(&statements.inbox_attempts, &params).await?,
        };
        let mut read = HashMap::new();
        for row in &rows {
            let count = row::count(row, 2)?.and_then(|count| u32::try_from(count).ok());
            let attempts = Attempts {
                count: count.unwrap_or(u32::MAX),
                first_at: row::instant(row, 3)?,
                now: row::instant(row, 4)?,
            };
            read.insert((row.text(0)?, row.text(1)?), attempts);
        }
        let of = |message: &MessageId| {
            let attempts = read.get(&(Some(message.source.as_str()), Some(message.id())));
            attempts.copied().ok_or_else(|| damaged("the attempts of a message were not told"))
        };
        Ok(self.messages.iter().map(of).collect::<Result<_, _>>()?)
    }
}

struct Forget {
    consumer: Consumer,
    messages: Vec<MessageId>,
    why: Uncount,
}

impl Work for Forget {
    type Done = ();

    async fn run(&self, step: Step<'_>) -> Result<(), Fault> {
        let columns = Columns::of(&self.messages);
        let consumer = Value::Text(Some(self.consumer.as_str()));
        let gives_back = Value::Truth(self.why == Uncount::GivenBack);
        let params =
            [consumer.param(), texts(&columns.sources), texts(&columns.ids), gives_back.param()];
        step.bounded(&step.statements().inbox_uncount, &params).await.map(drop)
    }
}

struct Parking(Box<Park>);

impl Work for Parking {
    type Done = ParkAnswer;

    async fn run(&self, step: Step<'_>) -> Result<ParkAnswer, Fault> {
        let Park { consumer, delivery, fingerprint, moves, attempts, why } = &*self.0;
        let (digest, why) = (fingerprint.to_bytes(), told(why));
        let names: Vec<_> = delivery.headers.iter().map(|(name, _)| told(name)).collect();
        let values: Vec<_> = delivery.headers.iter().map(|(_, value)| &**value).collect();
        let position = delivery.position.as_ref();
        let one = [
            Value::Text(Some(consumer.as_str())),
            Value::Text(Some(delivery.message.source.as_str())),
            Value::Text(Some(delivery.message.id())),
            Value::Bytes(Some(&digest)),
            Value::Bigint(Some(i64::from(*attempts))),
            Value::Text(Some(&why)),
            Value::Bytes(delivery.payload.as_deref()),
            Value::Bytes(delivery.key.as_deref()),
        ];
        let other = [
            Value::Text(position.map(|position| position.log.as_str())),
            Value::Bigint(position.map(|position| offset(position.offset))),
            Value::Bigint(delivery.sent_at.map(row::micros)),
            Value::Truth(*moves),
        ];
        let mut params: Vec<_> = one.iter().map(Value::param).collect();
        params.extend([texts(&names), bytes(&values)]);
        params.extend(other.iter().map(Value::param));
        let rows = step.bounded(&step.statements().inbox_park, &params).await?;
        let parked = rows.first().map(|row| row.truth(0)).transpose()?.flatten();
        Ok(if parked == Some(true) { ParkAnswer::Parked } else { ParkAnswer::Ended })
    }
}

struct Due {
    consumer: Consumer,
    limit: i64,
}

impl Work for Due {
    type Done = Vec<ParkedMessage>;

    async fn run(&self, step: Step<'_>) -> Result<Vec<ParkedMessage>, Fault> {
        let values = [Value::Text(Some(self.consumer.as_str())), Value::Bigint(Some(self.limit))];
        let params: Vec<_> = values.iter().map(Value::param).collect();
        let rows = step.alone(&step.statements().inbox_due, &params).await?;
        rows.iter().map(parked).collect()
    }
}

/// Reads a parked message.
pub(super) fn parked(row: &Row) -> Result<ParkedMessage, Fault> {
    let state = row.text(3)?.and_then(ParkedState::from_word);
    let log = row.text(9)?.map(LogId::new).transpose().map_err(bad_name)?;
    let names: Vec<String> = row.try_get(12)?;
    let values: Vec<Vec<u8>> = row.try_get(13)?;
    let header = |(name, value): (String, Vec<u8>)| (name.into_boxed_str(), value.into());
    let count = row::count(row, 4)?.and_then(|count| u32::try_from(count).ok());
    Ok(ParkedMessage {
        consumer: known::consumer(row, 0)?,
        message: known::message(row, 1)?,
        payload: row.bytes(7)?.map(|bytes| bytes.to_vec().into()),
        headers: names.into_iter().zip(values).map(header).collect(),
        key: row.bytes(8)?.map(|bytes| bytes.to_vec().into()),
        position: log.zip(row::count(row, 10)?).map(|(log, offset)| Position { log, offset }),
        sent_at: row::count(row, 11)?.map(Timestamp::from_micros),
        state: state.ok_or_else(|| {
            damaged("a parked message has a state that this version does not know; upgrade semel")
        })?,
        attempts: count.unwrap_or(u32::MAX),
        why: row.text(5)?.unwrap_or_default().into(),
        parked_at: row::instant(row, 6)?,
    })
}

struct Positions {
    consumer: Consumer,
    logs: Vec<LogId>,
}

impl Work for Positions {
    type Done = Vec<Option<u64>>;

    async fn run(&self, step: Step<'_>) -> Result<Vec<Option<u64>>, Fault> {
        let consumer = Value::Text(Some(self.consumer.as_str()));
        let logs: Vec<_> = self.logs.iter().map(LogId::as_str).collect();
        let params = [consumer.param(), (&logs as _, Type::TEXT_ARRAY)];
        let rows = step.alone(&step.statements().inbox_position, &params).await?;
        let mut next = HashMap::new();
        for row in &rows {
            next.insert(row.text(0)?, row::count(row, 1)?);
        }
        Ok(logs.iter().map(|log| next.get(&Some(*log)).copied().flatten()).collect())
    }
}

struct Report(Mismatch);

impl Work for Report {
    type Done = ();

    async fn run(&self, step: Step<'_>) -> Result<(), Fault> {
        let (Mismatch { consumer, message, .. }, note) = (&self.0, self.0.note());
        let values = [
            Value::Text(Some(semel::inbox::InboxAuditKind::Mismatch.as_str())),
            Value::Text(Some(consumer.as_str())),
            Value::Text(Some(message.source.as_str())),
            Value::Text(Some(message.id())),
            Value::Text(Some("")),
            Value::Text(Some(&note)),
        ];
        let params: Vec<_> = values.iter().map(Value::param).collect();
        step.bounded(&step.statements().inbox_note, &params).await?;
        super::sweep::trim(step).await.map(drop)
    }
}
