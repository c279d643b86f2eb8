//! Reads for operators: one at a time, so that they leave the connections to the verbs.

use async_trait::async_trait;
use semel::{
    IntentId, Operation, Record, State, StoreError, Tenant, Timestamp,
    store::{
        BATCH_MAX,
        capability::{AuditKind, AuditRow, Counts, Filter, Inspect},
        row_within_bounds,
    },
};

use crate::{
    PostgresStore,
    error::{Fault, damaged},
    link::{Step, Work},
    row,
    value::{Cells, Value},
    verb::Note,
};

/// How many bytes of outcomes one page of records carries at most.
const PAGE_BYTES_MAX: usize = 32 * 1024 * 1024;

#[async_trait]
impl Inspect for PostgresStore {
    /// Lists records in the order of their names. A page also ends after the record with which its
    /// outcomes pass 32 MiB: only an empty page is the end.
    async fn list(&self, filter: Filter) -> Result<Vec<Record>, StoreError> {
        self.rest(List(filter)).await
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        self.rest(Count).await
    }

    async fn audit(&self, id: Option<IntentId>, limit: u32) -> Result<Vec<AuditRow>, StoreError> {
        self.rest(Audit { id, limit: bounded(limit) }).await
    }

    async fn note(&self, row: AuditRow) -> Result<(), StoreError> {
        row_within_bounds(&row)?;
        self.lanes.notes.ask(Note(row)).await
    }
}

fn bounded(limit: u32) -> i64 {
    i64::from(limit).min(i64::try_from(BATCH_MAX).unwrap_or(i64::MAX))
}

struct List(Filter);

impl Work for List {
    type Done = Vec<Record>;

    async fn run(&self, step: Step<'_>) -> Result<Vec<Record>, Fault> {
        let (filter, statements) = (&self.0, step.statements());
        let held = if filter.stuck { Some(State::Running) } else { filter.state };
        if filter.stuck && filter.state.is_some_and(|state| state != State::Running) {
            return Ok(Vec::new());
        }
        let mut values = self.common(held);
        let tenant = filter.tenant.as_ref().map(Tenant::as_str);
        let statement = match (held, tenant) {
            (Some(State::Running | State::Unknown), tenant) => {
                values.extend([Value::Text(tenant), Value::Truth(filter.stuck)]);
                &statements.record_list_held
            }
            (_, Some(tenant)) => {
                match filter.after.as_ref().map(|after| after.scope.tenant.as_str().cmp(tenant)) {
                    Some(std::cmp::Ordering::Greater) => return Ok(Vec::new()),
                    // The page begins before this tenant: all of its records come after.
                    Some(std::cmp::Ordering::Less) | None => {
                        let empty = Value::Text(Some(""));
                        values.splice(..4, [Value::Text(Some(tenant)), empty, empty, NO_FACET]);
                    }
                    Some(std::cmp::Ordering::Equal) => {}
                }
                &statements.record_list_tenant
            }
            (_, None) => &statements.record_list,
        };
        let params: Vec<_> = values.iter().map(Value::param).collect();
        page(&step.rows(statement, &params).await?)
    }
}

const NO_FACET: Value<'static> = Value::Bytes(Some(&[]));

impl List {
    /// What all three lists have in common. Before the first name comes an empty one.
    fn common(&self, state: Option<State>) -> Vec<Value<'_>> {
        let (filter, after) = (&self.0, self.0.after.as_ref());
        vec![
            Value::Text(Some(after.map_or("", |id| id.scope.tenant.as_str()))),
            Value::Text(Some(after.map_or("", |id| id.scope.operation.as_str()))),
            Value::Text(Some(after.map_or("", |id| id.key.as_str()))),
            after.map_or(NO_FACET, |id| Value::Bytes(Some(row::facet(id)))),
            Value::Text(filter.operation.as_ref().map(Operation::as_str)),
            Value::Text(state.map(State::as_str)),
            Value::Bigint(Some(bounded(filter.limit))),
        ]
    }
}

fn page(rows: &[tokio_postgres::Row]) -> Result<Vec<Record>, Fault> {
    /// Where the columns after the name begin.
    const RECORD: usize = 4;
    let (mut records, mut bytes) = (Vec::new(), 0);
    for row in rows {
        bytes += row.bytes(RECORD + row::OUTCOME)?.map_or(0, <[u8]>::len);
        records.push(row::record(row::name(row, 0)?, row, RECORD)?);
        if bytes > PAGE_BYTES_MAX {
            break;
        }
    }
    Ok(records)
}

struct Count;

impl Work for Count {
    type Done = Counts;

    async fn run(&self, step: Step<'_>) -> Result<Counts, Fault> {
        let rows = step.rows(&step.statements().record_count, &[]).await?;
        let row = rows.first().ok_or_else(|| damaged("the records cannot be counted"))?;
        let number = |at| row::count(row, at).map(Option::unwrap_or_default);
        Ok(Counts {
            done: number(0)?,
            forgotten: number(1)?,
            open: number(2)?,
            running: number(3)?,
            stuck: number(4)?,
            unknown: number(5)?,
            oldest_running: row::count(row, 6)?.map(Timestamp::from_micros),
        })
    }
}

struct Audit {
    id: Option<IntentId>,
    limit: i64,
}

impl Work for Audit {
    type Done = Vec<AuditRow>;

    async fn run(&self, step: Step<'_>) -> Result<Vec<AuditRow>, Fault> {
        let (statements, limit) = (step.statements(), Value::Bigint(Some(self.limit)));
        let rows = match &self.id {
            None => step.rows(&statements.audit_list, &[limit.param()]).await?,
            Some(id) => {
                let values = [
                    limit,
                    Value::Text(Some(id.scope.tenant.as_str())),
                    Value::Text(Some(id.scope.operation.as_str())),
                    Value::Text(Some(id.key.as_str())),
                    Value::Bytes(Some(row::facet(id))),
                ];
                let params: Vec<_> = values.iter().map(Value::param).collect();
                step.rows(&statements.audit_list_intent, &params).await?
            }
        };
        rows.iter().map(entry).collect()
    }
}

pub(crate) fn entry(row: &tokio_postgres::Row) -> Result<AuditRow, Fault> {
    let kind = row.text(5)?.and_then(AuditKind::from_word);
    Ok(AuditRow {
        id: row::name(row, 0)?,
        at: row::instant(row, 4)?,
        kind: kind.ok_or_else(|| damaged("an audit row has an unknown kind; upgrade semel"))?,
        actor: row.text(6)?.unwrap_or_default().into(),
        note: row.text(7)?.unwrap_or_default().into(),
    })
}
