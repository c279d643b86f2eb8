//! What an atomic step may do inside an open transaction that holds the write lock: the writer's
//! groups and a caller's own transaction alike.

use rusqlite::{CachedStatement, Connection};
use semel::{Fence, IntentId, Record, Timestamp, Token, store::capability::AuditRow};

use crate::{
    error::{Fault, damaged, full},
    migrate, queries,
    row::{self, Columns, Seen},
    time::Time,
};

/// What a transaction must keep to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How many audit rows stay.
    pub(crate) audit_max: u32,
    /// How many pages the file may have.
    pub(crate) page_max: Option<u32>,
}

/// One transaction.
pub(crate) struct Step<'c> {
    conn: &'c Connection,
    time: &'c Time,
    limits: Limits,
    floor: Fence,
    latest: Timestamp,
    writes: u64,
    kept: Kept<'c>,
}

/// The statements of the common verbs, looked up once for all of a group.
#[derive(Default)]
struct Kept<'c> {
    claim: Option<CachedStatement<'c>>,
    complete: Option<CachedStatement<'c>>,
    read: Option<CachedStatement<'c>>,
    write: Option<CachedStatement<'c>>,
}

fn kept<'k, 'c>(
    slot: &'k mut Option<CachedStatement<'c>>,
    conn: &'c Connection,
    sql: &str,
) -> rusqlite::Result<&'k mut CachedStatement<'c>> {
    match slot {
        Some(statement) => Ok(statement),
        None => Ok(slot.insert(conn.prepare_cached(sql)?)),
    }
}

impl<'c> Step<'c> {
    /// Begins with what the file says: the schema, the time and the floor of the fences.
    pub(crate) fn begin(
        conn: &'c Connection,
        time: &'c Time,
        limits: Limits,
    ) -> Result<Self, Fault> {
        let mut statement = conn.prepare_cached(queries::META_READ)?;
        let mut rows = statement.query([])?;
        let row = rows.next()?.ok_or_else(|| damaged("the row of semel_meta is missing"))?;
        // Another process may have migrated the file while it was open here.
        migrate::admit(row.get(0)?)?;
        let persisted = row::instant(row, 1)?;
        time.observe(persisted);
        let floor = Fence::new(u64::try_from(row.get::<_, i64>(2)?).unwrap_or_default());
        Ok(Self { conn, time, limits, floor, latest: persisted, writes: 0, kept: Kept::default() })
    }

    /// Returns the time now; it is read when it decides, while the write lock is held.
    pub(crate) fn now(&mut self) -> Timestamp {
        self.latest = self.time.now().max(self.latest);
        self.latest
    }

    /// The largest fence ever deleted.
    pub(crate) const fn floor(&self) -> Fence {
        self.floor
    }

    /// Raises the floor of the fences.
    pub(crate) fn raise(&mut self, fence: Fence) {
        self.floor = self.floor.max(fence);
    }

    /// The connection that the transaction is open on.
    pub(crate) const fn conn(&self) -> &'c Connection {
        self.conn
    }

    /// How often this step wrote.
    pub(crate) const fn writes(&self) -> u64 {
        self.writes
    }

    /// Counts a write that another room makes.
    pub(crate) const fn wrote(&mut self) {
        self.writes += 1;
    }

    /// How many rows of an audit stay.
    pub(crate) const fn audit_max(&self) -> u32 {
        self.limits.audit_max
    }

    /// Refuses a new record when the bounded file is nearly full, so that those who hold an intent
    /// find room for its end.
    pub(crate) fn room(&self) -> Result<(), Fault> {
        let Some(page_max) = self.limits.page_max else {
            return Ok(());
        };
        let pragma = |name| -> Result<u32, Fault> {
            Ok(self.conn.prepare_cached(name)?.query_row([], |row| row.get(0))?)
        };
        let used = pragma("PRAGMA page_count")?.saturating_sub(pragma("PRAGMA freelist_count")?);
        if page_max.saturating_sub(used) < (page_max / KEPT_SHARE).max(KEPT_PAGES) {
            return Err(full().into());
        }
        Ok(())
    }

    /// Reads a record.
    pub(crate) fn read(&mut self, id: &IntentId) -> Result<Option<Seen>, Fault> {
        let statement = kept(&mut self.kept.read, self.conn, queries::RECORD_READ)?;
        let scope = &id.scope;
        let mut rows = statement.query((
            scope.tenant.as_str(),
            scope.operation.as_str(),
            id.key.as_str(),
            row::facet(id),
        ))?;
        rows.next()?.map(|row| row::seen(id.clone(), row)).transpose()
    }

    /// Writes the record of a name that has none; says whether it had none.
    pub(crate) fn insert(&mut self, next: &Record) -> Result<bool, Fault> {
        let columns = Columns::of(next);
        let statement = kept(&mut self.kept.claim, self.conn, queries::RECORD_CLAIM)?;
        name(statement, &next.id)?;
        columns.bind(statement, 5)?;
        let inserted = statement.raw_execute()? == 1;
        self.writes += u64::from(inserted);
        Ok(inserted)
    }

    /// Writes the end of a run over the record, if it runs by the same token and fence; says whether
    /// it did. `outcome` are the bytes of the outcome of `next`.
    pub(crate) fn complete(
        &mut self,
        next: &Record,
        outcome: Option<&[u8]>,
    ) -> Result<bool, Fault> {
        let statement = kept(&mut self.kept.complete, self.conn, queries::RECORD_COMPLETE)?;
        name(statement, &next.id)?;
        let pointer = next.pointer.as_ref();
        statement.raw_bind_parameter(5, next.token.as_bytes())?;
        statement.raw_bind_parameter(6, row::number(next.fence))?;
        statement.raw_bind_parameter(7, next.state.as_str())?;
        statement.raw_bind_parameter(8, next.settled_at.map(row::micros))?;
        statement.raw_bind_parameter(9, &next.reason)?;
        statement.raw_bind_parameter(10, pointer.map(|pointer| &pointer.kind))?;
        statement.raw_bind_parameter(11, pointer.map(|pointer| &pointer.id))?;
        statement.raw_bind_parameter(12, row::micros(next.replay_until))?;
        statement.raw_bind_parameter(13, row::micros(next.remember_until))?;
        statement.raw_bind_parameter(14, row::sweep_at(next))?;
        statement.raw_bind_parameter(15, outcome)?;
        let completed = statement.raw_execute()? == 1;
        self.writes += u64::from(completed);
        Ok(completed)
    }

    /// Writes the next state of what was seen, or the record of a name that has none.
    pub(crate) fn put(&mut self, seen: Option<&Seen>, next: &Record) -> Result<(), Fault> {
        let Some(seen) = seen else {
            return one(usize::from(self.insert(next)?));
        };
        self.writes += 1;
        let columns = Columns::of(next);
        let statement = kept(&mut self.kept.write, self.conn, queries::RECORD_WRITE)?;
        statement.raw_bind_parameter(1, seen.row_id)?;
        statement.raw_bind_parameter(2, seen.record.token.as_bytes())?;
        statement.raw_bind_parameter(3, row::number(seen.record.fence))?;
        statement.raw_bind_parameter(4, seen.record.state.as_str())?;
        columns.bind(statement, 5)?;
        one(statement.raw_execute()?)
    }

    /// Writes the lease of what was seen.
    pub(crate) fn renew(&mut self, seen: &Seen, next: &Record) -> Result<(), Fault> {
        self.writes += 1;
        let mut statement = self.conn.prepare_cached(queries::RECORD_RENEW)?;
        one(statement.execute((
            seen.row_id,
            seen.record.token.as_bytes(),
            row::number(seen.record.fence),
            row::micros(next.lease.renewed_at),
            row::span(next.lease.length),
        ))?)
    }

    /// Drops the outcome of a row.
    pub(crate) fn forget(&mut self, row_id: i64, now: Timestamp) -> Result<(), Fault> {
        self.writes += 1;
        let mut statement = self.conn.prepare_cached(queries::RECORD_FORGET)?;
        one(statement.execute((row_id, row::micros(now)))?)
    }

    /// Deletes a row.
    pub(crate) fn delete(&mut self, row_id: i64, now: Timestamp) -> Result<(), Fault> {
        self.writes += 1;
        let mut statement = self.conn.prepare_cached(queries::RECORD_DELETE)?;
        one(statement.execute((row_id, row::micros(now)))?)
    }

    /// Adds a row to the audit, whose oldest rows go.
    pub(crate) fn note(&mut self, entry: &AuditRow) -> Result<(), Fault> {
        self.add(queries::AUDIT_NOTE, entry).map(drop)
    }

    /// Adds a row to the audit unless the same row is there; says whether it did.
    pub(crate) fn recall(&mut self, entry: &AuditRow) -> Result<bool, Fault> {
        self.add(queries::AUDIT_RECALL, entry)
    }

    fn add(&mut self, statement: &str, entry: &AuditRow) -> Result<bool, Fault> {
        self.writes += 1;
        let scope = &entry.id.scope;
        let added = self.conn.prepare_cached(statement)?.execute((
            row::micros(entry.at),
            entry.kind.as_str(),
            scope.tenant.as_str(),
            scope.operation.as_str(),
            entry.id.key.as_str(),
            row::facet(&entry.id),
            &entry.actor,
            &entry.note,
        ))?;
        self.conn.prepare_cached(queries::AUDIT_TRIM)?.execute([self.limits.audit_max])?;
        Ok(added == 1)
    }

    /// Marks a claim of the caller's transaction as not completed.
    pub(crate) fn open_pending(&mut self, token: Token) -> Result<(), Fault> {
        self.writes += 1;
        let mut statement = self.conn.prepare_cached(queries::PENDING_OPEN)?;
        one(statement.execute([token.as_bytes()])?)
    }

    /// Takes that mark away; says whether it was there.
    pub(crate) fn close_pending(&mut self, token: Token) -> Result<bool, Fault> {
        self.writes += 1;
        let mut statement = self.conn.prepare_cached(queries::PENDING_CLOSE)?;
        Ok(statement.execute([token.as_bytes()])? == 1)
    }

    /// Persists the time, if anything was written: a step that wrote nothing needs no commit on disk.
    pub(crate) fn end(mut self) -> Result<(), Fault> {
        if self.writes > 0 {
            let now = self.now();
            let mut statement = self.conn.prepare_cached(queries::META_WRITE)?;
            one(statement.execute((row::micros(now), row::number(self.floor)))?)?;
        }
        Ok(())
    }
}

/// Which share of a bounded file is kept for those who hold an intent, and at least how many pages.
const KEPT_SHARE: u32 = 8;
const KEPT_PAGES: u32 = 8;

/// Binds the four columns of a name.
fn name(statement: &mut rusqlite::Statement<'_>, id: &IntentId) -> rusqlite::Result<()> {
    statement.raw_bind_parameter(1, id.scope.tenant.as_str())?;
    statement.raw_bind_parameter(2, id.scope.operation.as_str())?;
    statement.raw_bind_parameter(3, id.key.as_str())?;
    statement.raw_bind_parameter(4, row::facet(id))
}

/// The write lock is held from the read to the write, so exactly one row is hit.
fn one(rows: usize) -> Result<(), Fault> {
    if rows == 1 {
        Ok(())
    } else {
        Err(damaged("a record changed under the write lock; check the file for damage").into())
    }
}
