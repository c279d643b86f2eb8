//! Reads for operators. They run on the readers' threads, so that no claim waits behind them.

use async_trait::async_trait;
use rusqlite::{Connection, Statement, params};
use semel::{
    IntentId, Record, State, StoreError, Timestamp,
    store::{
        BATCH_MAX,
        capability::{AuditKind, AuditRow, Counts, Filter, Inspect},
        row_within_bounds,
    },
};

use crate::{
    SqliteStore,
    error::{Fault, damaged},
    queries,
    queue::Lane,
    reader, row,
    verb::Note,
};

/// How many bytes of outcomes one page of records carries at most.
const PAGE_BYTES_MAX: usize = 32 * 1024 * 1024;

#[async_trait]
impl Inspect for SqliteStore {
    /// Lists records in the order of their names. A page also ends after the record with which its
    /// outcomes pass 32 MiB: only an empty page is the end.
    async fn list(&self, filter: Filter) -> Result<Vec<Record>, StoreError> {
        let time = self.readers.time();
        let list = move |conn: &Connection| {
            reader::observe(conn, &time)?;
            Ok(list(conn, &filter, time.now())?)
        };
        self.readers.ask(list).await
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        let time = self.readers.time();
        let counts = move |conn: &Connection| {
            // One snapshot for both counts, so that a record that moves is counted once.
            let snapshot = conn.unchecked_transaction().map_err(Fault::from)?;
            reader::observe(&snapshot, &time)?;
            Ok(counts(&snapshot, time.now())?)
        };
        self.readers.ask(counts).await
    }

    async fn audit(&self, id: Option<IntentId>, limit: u32) -> Result<Vec<AuditRow>, StoreError> {
        self.readers.ask(move |conn| Ok(audit(conn, id.as_ref(), bounded(limit))?)).await
    }

    async fn note(&self, row: AuditRow) -> Result<(), StoreError> {
        row_within_bounds(&row)?;
        self.write(Lane::Later, Note(row)).await
    }
}

fn bounded(limit: u32) -> i64 {
    i64::from(limit).min(i64::try_from(BATCH_MAX).unwrap_or(i64::MAX))
}

fn list(conn: &Connection, filter: &Filter, now: Timestamp) -> Result<Vec<Record>, Fault> {
    let mut held = filter.state;
    if filter.stuck {
        if held.is_some_and(|state| state != State::Running) {
            return Ok(Vec::new());
        }
        held = Some(State::Running);
    }
    match (held, &filter.tenant) {
        (Some(State::Running | State::Unknown), tenant) => {
            let mut statement = conn.prepare_cached(queries::RECORD_LIST_HELD)?;
            bind(&mut statement, filter, held, now)?;
            statement.raw_bind_parameter(9, tenant.as_ref().map(semel::Tenant::as_str))?;
            statement.raw_bind_parameter(10, filter.stuck)?;
            page(statement.raw_query())
        }
        (_, Some(tenant)) => {
            if filter.after.as_ref().is_some_and(|after| after.scope.tenant > *tenant) {
                return Ok(Vec::new());
            }
            let mut statement = conn.prepare_cached(queries::RECORD_LIST_TENANT)?;
            bind(&mut statement, filter, held, now)?;
            statement.raw_bind_parameter(1, tenant.as_str())?;
            if filter.after.as_ref().is_some_and(|after| after.scope.tenant < *tenant) {
                // The page begins before this tenant: all of its records come after.
                statement.raw_bind_parameter(2, "")?;
                statement.raw_bind_parameter(3, "")?;
            }
            page(statement.raw_query())
        }
        (_, None) => {
            let mut statement = conn.prepare_cached(queries::RECORD_LIST)?;
            bind(&mut statement, filter, held, now)?;
            page(statement.raw_query())
        }
    }
}

/// Binds what all three lists have in common. Before the first name comes an empty one.
fn bind(
    statement: &mut Statement<'_>,
    filter: &Filter,
    state: Option<State>,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let after = filter.after.as_ref();
    statement.raw_bind_parameter(1, after.map_or("", |id| id.scope.tenant.as_str()))?;
    statement.raw_bind_parameter(2, after.map_or("", |id| id.scope.operation.as_str()))?;
    statement.raw_bind_parameter(3, after.map_or("", |id| id.key.as_str()))?;
    statement.raw_bind_parameter(4, after.map_or(&[][..], row::facet))?;
    statement.raw_bind_parameter(5, filter.operation.as_ref().map(semel::Operation::as_str))?;
    statement.raw_bind_parameter(6, state.map(State::as_str))?;
    statement.raw_bind_parameter(7, row::micros(now))?;
    statement.raw_bind_parameter(8, bounded(filter.limit))
}

fn page(mut rows: rusqlite::Rows<'_>) -> Result<Vec<Record>, Fault> {
    let mut records = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let outcome = row.get_ref(row::OUTCOME)?.as_blob_or_null();
        bytes += outcome.ok().flatten().map_or(0, <[u8]>::len);
        records.push(row::seen(row::name(row, row::NAME)?, row)?.record);
        if bytes > PAGE_BYTES_MAX {
            break;
        }
    }
    Ok(records)
}

fn counts(conn: &Connection, now: Timestamp) -> Result<Counts, Fault> {
    let now = [row::micros(now)];
    let mut counts = Counts::default();
    let mut statement = conn.prepare_cached(queries::RECORD_COUNT_FINISHED)?;
    let row = statement.query_row(now, numbers::<3>)?;
    [counts.done, counts.forgotten, counts.open] = row.map(Option::unwrap_or_default);
    let mut statement = conn.prepare_cached(queries::RECORD_COUNT_HELD)?;
    let [running, stuck, unknown, oldest] = statement.query_row(now, numbers::<4>)?;
    counts.running = running.unwrap_or_default();
    counts.stuck = stuck.unwrap_or_default();
    counts.unknown = unknown.unwrap_or_default();
    counts.oldest_running = oldest.map(Timestamp::from_micros);
    Ok(counts)
}

fn numbers<const N: usize>(row: &rusqlite::Row<'_>) -> rusqlite::Result<[Option<u64>; N]> {
    let mut numbers = [None; N];
    for (at, number) in numbers.iter_mut().enumerate() {
        *number = row.get::<_, Option<i64>>(at)?.and_then(|number| u64::try_from(number).ok());
    }
    Ok(numbers)
}

fn audit(conn: &Connection, id: Option<&IntentId>, limit: i64) -> Result<Vec<AuditRow>, Fault> {
    let mut statement;
    let mut rows = if let Some(id) = id {
        let scope = &id.scope;
        statement = conn.prepare_cached(queries::AUDIT_LIST_INTENT)?;
        let (tenant, operation) = (scope.tenant.as_str(), scope.operation.as_str());
        statement.query(params![limit, tenant, operation, id.key.as_str(), row::facet(id)])?
    } else {
        statement = conn.prepare_cached(queries::AUDIT_LIST)?;
        statement.query([limit])?
    };
    let mut audit = Vec::new();
    while let Some(row) = rows.next()? {
        audit.push(audit_row(row)?);
    }
    Ok(audit)
}

/// Reads a row of the audit.
pub(crate) fn audit_row(row: &rusqlite::Row<'_>) -> Result<AuditRow, Fault> {
    let kind = AuditKind::from_word(row.get_ref(1)?.as_str().unwrap_or_default());
    Ok(AuditRow {
        id: row::name(row, 4)?,
        at: row::instant(row, 0)?,
        kind: kind.ok_or_else(|| damaged("an audit row has an unknown kind; upgrade semel"))?,
        actor: row.get(2)?,
        note: row.get(3)?,
    })
}
