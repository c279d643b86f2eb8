//! The application's tables in the gateways' SQLite file.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};
use semel::outbox::EventId;
use semel_testkit::Deliveries;
use tokio::{
    sync::{Mutex, OwnedMutexGuard},
    task::spawn_blocking,
};

use super::{Ends, Write, Wrote, payload};
use crate::stack::StackError;

const TABLES: &str = "CREATE TABLE IF NOT EXISTS drill_aggregate
        (id TEXT PRIMARY KEY, version INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS drill_effect (event TEXT PRIMARY KEY, intent INTEGER NOT NULL);";
const ONE_EACH: &str =
    "CREATE UNIQUE INDEX IF NOT EXISTS drill_effect_intent ON drill_effect (intent);";
const NEXT: &str = "INSERT INTO drill_aggregate VALUES (?1, 1)
    ON CONFLICT (id) DO UPDATE SET version = version + 1 RETURNING version";
const EFFECT: &str = "INSERT INTO drill_effect VALUES (?1, ?2) ON CONFLICT DO NOTHING";
const PUBLISH: &str = "INSERT INTO semel_outbox
    (id, aggregatetype, aggregateid, type, aggregate_version, payload)
    VALUES (?1, ?2, ?3, 'Done', ?4, ?5)";
const ROWS: &str = "SELECT intent, event FROM drill_effect";

/// How long the lock of the file is waited for, which a gateway that stands still may hold.
const LOCK_WAIT: Duration = Duration::from_secs(2);

/// The books in a file.
#[derive(Debug)]
pub(super) struct SqliteBooks {
    file: PathBuf,
    /// Opened when it is needed.
    open: Arc<Mutex<Option<Connection>>>,
}

impl SqliteBooks {
    pub(super) fn new(file: &Path) -> Self {
        Self { file: file.to_owned(), open: Arc::default() }
    }

    pub(super) async fn prepare(&self, one_each: bool) -> Result<(), StackError> {
        let index = if one_each { ONE_EACH } else { "" };
        self.with(move |connection| connection.execute_batch(&format!("{TABLES}{index}"))).await
    }

    pub(super) async fn write(&self, write: &Write, deliveries: &Arc<Deliveries>) -> Wrote {
        let (write, deliveries) = (write.clone(), Arc::clone(deliveries));
        let written = self.with(move |connection| {
            let mut commits = false;
            match once(connection, &write, &deliveries, &mut commits) {
                Ok(wrote) => Ok(wrote),
                // A commit that found the file held is undone by the end of its transaction.
                Err(error) if commits && !is_busy(&error) => Ok(Wrote::Unknown),
                Err(_) => Ok(Wrote::Nothing),
            }
        });
        // Nobody comes so far where the file cannot even be opened.
        written.await.unwrap_or(Wrote::Nothing)
    }

    /// Reads every effect with its event.
    pub(super) async fn rows(&self) -> Result<Vec<(u64, EventId)>, StackError> {
        let read = self.with(|connection| {
            let mut read = connection.prepare(ROWS)?;
            let rows = read.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))?;
            rows.collect::<rusqlite::Result<Vec<(i64, String)>>>()
        });
        let rows = read
            .await?
            .into_iter()
            .filter_map(|(intent, event)| Some((u64::try_from(intent).ok()?, event.parse().ok()?)));
        Ok(rows.collect())
    }

    /// Closes the file until what is returned is dropped.
    pub(super) async fn rest(&self) -> OwnedMutexGuard<Option<Connection>> {
        let mut open = Arc::clone(&self.open).lock_owned().await;
        *open = None;
        open
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StackError> {
        let (file, mut open) = (self.file.clone(), Arc::clone(&self.open).lock_owned().await);
        let worked = spawn_blocking(move || {
            let connection = match &mut *open {
                Some(connection) => connection,
                closed => closed.insert(opened(&file)?),
            };
            work(connection)
        });
        let stuck = |why: String| StackError::Stuck(format!("the application's file: {why}"));
        match worked.await {
            Ok(done) => done.map_err(|error| stuck(error.to_string())),
            Err(error) => Err(stuck(error.to_string())),
        }
    }
}

/// Every commit is flushed, as SQLite does unless it is told otherwise.
fn opened(file: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(LOCK_WAIT)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

fn once(
    connection: &mut Connection,
    write: &Write,
    deliveries: &Deliveries,
    commits: &mut bool,
) -> rusqlite::Result<Wrote> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let Some(number) = append(&transaction, write)? else {
        return Ok(Wrote::Known);
    };
    deliveries.appended(write.event, &write.lane, number);
    if write.ends == Ends::RolledBack {
        transaction.rollback()?;
        return Ok(Wrote::Nothing);
    }
    *commits = true;
    transaction.commit()?;
    Ok(Wrote::Committed)
}

/// Writes the effect and its event, and returns which of its aggregate's events it is; nothing if the
/// effect was there.
fn append(transaction: &Transaction<'_>, write: &Write) -> rusqlite::Result<Option<u64>> {
    let (lane, event) = (&write.lane, write.event.to_string());
    let intent = i64::try_from(write.intent).unwrap_or(i64::MAX);
    let version: i64 = transaction.query_row(NEXT, [lane.id()], |row| row.get(0))?;
    if transaction.execute(EFFECT, (&event, intent))? == 0 {
        return Ok(None);
    }
    let number = u64::try_from(version).unwrap_or_default();
    let payload = payload(write.intent, number);
    transaction.execute(PUBLISH, (&event, lane.kind(), lane.id(), version, payload))?;
    Ok(Some(number))
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
