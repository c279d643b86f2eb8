//! Taking records out of the file and into it, while nobody writes.

use async_trait::async_trait;
use rusqlite::Connection;
use semel::{
    Fence, Record, StoreError,
    store::{
        BATCH_MAX,
        capability::AuditRow,
        moving::{
            Brought, Closed, Move, Standing, Trail, not_arriving, records_within_bounds,
            rows_within_bounds,
        },
    },
};

use crate::{
    SqliteStore,
    error::{Fault, damaged},
    inspect, queries,
    queue::Lane,
    row,
    step::Step,
    verb::Verb,
};

#[async_trait]
impl Move for SqliteStore {
    async fn standing(&self) -> Result<Standing, StoreError> {
        self.readers.ask(|conn| Ok(standing(conn)?)).await
    }

    async fn close(&self, why: Closed) -> Result<(), StoreError> {
        self.write(Lane::Later, Gate(Some(why))).await
    }

    async fn open(&self) -> Result<(), StoreError> {
        self.write(Lane::Later, Gate(None)).await
    }

    async fn bring(&self, records: Vec<Record>) -> Result<Vec<Brought>, StoreError> {
        records_within_bounds(&records)?;
        self.write(Lane::Later, Bring(records)).await
    }

    async fn recall(&self, rows: Vec<AuditRow>) -> Result<u64, StoreError> {
        rows_within_bounds(&rows)?;
        self.write(Lane::Later, Recall(rows)).await
    }

    async fn raise(&self, floor: Fence) -> Result<(), StoreError> {
        self.write(Lane::Later, Raise(floor)).await
    }

    async fn trail(&self, from: u64) -> Result<Trail, StoreError> {
        self.readers.ask(move |conn| Ok(trail(conn, from)?)).await
    }
}

fn standing(conn: &Connection) -> Result<Standing, Fault> {
    let mut statement = conn.prepare_cached(queries::META_READ)?;
    let floor = statement.query_row([], |row| Ok(row::count(row, 2)))??;
    Ok(Standing { closed: closed(conn)?, floor: Fence::new(floor) })
}

fn closed(conn: &Connection) -> Result<Option<Closed>, Fault> {
    let mut statement = conn.prepare_cached(queries::MOVE_CLOSED)?;
    let mut rows = statement.query([])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let is_arriving = row.get_ref(0)?.as_str().is_ok_and(|name| name == ARRIVING);
    Ok(Some(if is_arriving { Closed::Arriving } else { Closed::Away }))
}

/// What stands there while records are coming in.
const ARRIVING: &str = "semel_arriving_insert";

fn trail(conn: &Connection, from: u64) -> Result<Trail, Fault> {
    let limit = i64::try_from(BATCH_MAX).unwrap_or(i64::MAX);
    let mut statement = conn.prepare_cached(queries::AUDIT_TRAIL)?;
    let mut rows = statement.query([i64::try_from(from).unwrap_or(i64::MAX), limit])?;
    let (mut trail, mut last) = (Trail::default(), None);
    while let Some(row) = rows.next()? {
        trail.rows.push(inspect::audit_row(row)?);
        last = Some(row::count(row, 8)?);
    }
    trail.next = last.filter(|_| trail.rows.len() == BATCH_MAX);
    Ok(trail)
}

/// Closes the store for a reason, or opens it.
#[derive(Clone, Copy, Debug)]
struct Gate(Option<Closed>);

impl Verb for Gate {
    type Answer = ();

    fn run(&self, step: &mut Step<'_>) -> Result<(), Fault> {
        step.wrote();
        step.conn().execute_batch(queries::MOVE_OPEN)?;
        match self.0 {
            None => Ok(()),
            Some(Closed::Arriving) => Ok(step.conn().execute_batch(queries::MOVE_ARRIVING)?),
            Some(Closed::Away) => Ok(step.conn().execute_batch(queries::MOVE_AWAY)?),
        }
    }
}

/// Does something in a closed store as if it were open: nobody else can write between, and a rollback
/// closes it too.
fn past_the_gate<T>(
    step: &mut Step<'_>,
    work: impl FnOnce(&mut Step<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    is_arriving(step)?;
    Gate(None).run(step)?;
    let done = work(step)?;
    Gate(Some(Closed::Arriving)).run(step)?;
    Ok(done)
}

fn is_arriving(step: &Step<'_>) -> Result<(), Fault> {
    match closed(step.conn())? {
        Some(Closed::Arriving) => Ok(()),
        _ => Err(not_arriving().into()),
    }
}

struct Bring(Vec<Record>);

impl Verb for Bring {
    type Answer = Vec<Brought>;

    fn run(&self, step: &mut Step<'_>) -> Result<Vec<Brought>, Fault> {
        past_the_gate(step, |step| self.0.iter().map(|record| bring(step, record)).collect())
    }
}

fn bring(step: &mut Step<'_>, record: &Record) -> Result<Brought, Fault> {
    let now = step.now();
    if let Some(over) = Brought::of(None, record, now) {
        return Ok(over);
    }
    step.room()?;
    if step.insert(record)? {
        return Ok(Brought::Stored);
    }
    let kept = step.read(&record.id)?.map(|seen| seen.record);
    let missing = || damaged("a record is there and cannot be read; check the file for damage");
    Ok(Brought::of(Some(&kept.ok_or_else(missing)?), record, now).unwrap_or(Brought::Same))
}

struct Recall(Vec<AuditRow>);

impl Verb for Recall {
    type Answer = u64;

    fn run(&self, step: &mut Step<'_>) -> Result<u64, Fault> {
        is_arriving(step)?;
        let mut added = 0;
        for row in &self.0 {
            added += u64::from(step.recall(row)?);
        }
        Ok(added)
    }
}

struct Raise(Fence);

impl Verb for Raise {
    type Answer = ();

    fn run(&self, step: &mut Step<'_>) -> Result<(), Fault> {
        step.raise(self.0);
        step.wrote();
        Ok(())
    }
}
