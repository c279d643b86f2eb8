//! Reads for operators. They are made of many small questions, between which callers are served.

use async_trait::async_trait;
use redis::Value;
use semel::{
    IntentId, Outcome, Record, State, StoreError, Timestamp,
    store::{
        BATCH_MAX,
        capability::{AuditRow, Counts, Filter, Inspect},
        row_within_bounds,
    },
};

use crate::{
    RedisStore,
    error::{Fault, odd},
    page::Names,
    row,
    space::{self, BUCKETS, Space},
    store::{TOGETHER, all},
    verb::{bytes, digits, instant},
};

/// How many bytes of outcomes one page of records carries at most.
const PAGE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// How many records are counted by one question.
const COUNTED: u32 = 500;
/// How many buckets are counted at once: a question about many records takes its time.
const COUNTED_TOGETHER: usize = 8;

#[async_trait]
impl Inspect for RedisStore {
    /// Lists records in the order of their names. A page also ends after the record with which its outcomes pass
    /// 32 MiB: only an empty page is the end.
    async fn list(&self, filter: Filter) -> Result<Vec<Record>, StoreError> {
        let Some(set) = set_of(&filter) else { return Ok(Vec::new()) };
        let limit = usize::try_from(filter.limit).unwrap_or(BATCH_MAX).min(BATCH_MAX);
        let mut names = Names::new(self, set, &filter);
        let (mut records, mut size) = (Vec::new(), 0);
        while records.len() < limit && size <= PAGE_BYTES_MAX {
            let run = names.next().await?;
            if run.is_empty() {
                break;
            }
            for names in run.chunks(TOGETHER) {
                for (record, now) in self.read_all(names).await? {
                    if records.len() < limit && size <= PAGE_BYTES_MAX && filter.lists(&record, now)
                    {
                        size += record.outcome.as_ref().map_or(0, outcome_size);
                        records.push(record);
                    }
                }
            }
        }
        Ok(records)
    }

    /// Counts bucket by bucket: a record that changes meanwhile is counted as it was or as it is.
    async fn counts(&self) -> Result<Counts, StoreError> {
        let counted = (0..BUCKETS).map(|bucket| self.counted(bucket));
        let counted = all(counted.collect(), COUNTED_TOGETHER).await?;
        let mut counts = Counts::default();
        counted.iter().for_each(|of| counts.add(of));
        Ok(counts)
    }

    async fn audit(&self, id: Option<IntentId>, limit: u32) -> Result<Vec<AuditRow>, StoreError> {
        let limit = usize::try_from(limit).unwrap_or(BATCH_MAX).min(BATCH_MAX);
        match id {
            Some(id) => Ok(self.rows_of(&id, limit).await?),
            None => Ok(self.rows_of_all(limit).await?),
        }
    }

    async fn note(&self, row: AuditRow) -> Result<(), StoreError> {
        row_within_bounds(&row)?;
        Ok(self.noted(&row).await?)
    }
}

impl RedisStore {
    /// Reads records by their names, each with the time when it was read; those that are gone are left out.
    async fn read_all(&self, names: &[Vec<u8>]) -> Result<Vec<(Record, Timestamp)>, Fault> {
        let read = |name| async move {
            let id = space::id(name)?;
            self.seen(&Space::place(&id), &id).await
        };
        let seen = all(names.iter().map(|name| read(name)).collect(), TOGETHER).await?;
        Ok(seen.into_iter().filter_map(|seen| Some((seen.record?, seen.now))).collect())
    }

    async fn counted(&self, bucket: usize) -> Result<Counts, Fault> {
        let mut counts = Counts::default();
        let mut from = b"-".to_vec();
        loop {
            let of = self.link.space.bucket(bucket);
            let keys = [of.key("names"), of.of("r", b""), of.of("o", b"")];
            let args = [&from[..], &digits(COUNTED)];
            let said = self.link.run(bucket, &self.scripts.count, &keys, &args).await?;
            let [now, last, rows] = said.try_into().map_err(|_| odd())?;
            let now = instant(now)?;
            let Value::Array(rows) = rows else { return Err(odd()) };
            for row in rows {
                count(&mut counts, row, now)?;
            }
            match bytes(last)? {
                Some(last) => from = [b"(", &last[..]].concat(),
                None => return Ok(counts),
            }
        }
    }
}

/// Which set has all that a filter can choose; nothing if none has.
fn set_of(filter: &Filter) -> Option<&'static str> {
    match filter.state {
        Some(State::Running) => Some("held"),
        Some(State::Unknown) if !filter.stuck => Some("held"),
        _ if filter.stuck && filter.state.is_some() => None,
        None if filter.stuck => Some("held"),
        _ => Some("names"),
    }
}

fn outcome_size(outcome: &Outcome) -> usize {
    match &outcome.body {
        semel::outcome::Body::Kept(bytes) => bytes.len(),
        semel::outcome::Body::NotKept => 0,
    }
}

/// Counts a record by its beginning, and whether it has an outcome.
fn count(counts: &mut Counts, row: Value, now: Timestamp) -> Result<(), Fault> {
    let Value::Array(row) = row else { return Err(odd()) };
    let [head, has_outcome] = row.try_into().map_err(|_| odd())?;
    let head = bytes(head)?.unwrap_or_default();
    if head.is_empty() {
        return Ok(());
    }
    let mut record = row::head(nobody(), &head)?;
    record.outcome = (has_outcome == Value::Int(1)).then(|| Outcome::without_body(0));
    counts.count(&record, now);
    Ok(())
}

/// A name for records that are only counted.
fn nobody() -> IntentId {
    use semel::{Key, Operation, Scope, Tenant};
    let why = "a letter is a name";
    let scope = Scope::new(Tenant::new("-").expect(why), Operation::new("-").expect(why));
    scope.intent(Key::new("-").expect(why))
}
