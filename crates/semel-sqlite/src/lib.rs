//! Semel on one SQLite file: the embedded default.
//!
//! Nothing to install, and everything that was answered survives a power cut: the file has a
//! write-ahead log that is flushed at every commit. One thread writes; whatever waits for it is
//! committed as one group, so that many callers share one flush. Reads wait for nobody. Several
//! processes of one machine may use one file, such as a gateway and the command line.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use semel::Store;
//! use semel_sqlite::SqliteStore;
//!
//! let folder = tempfile::tempdir()?;
//! let store = SqliteStore::builder(folder.path().join("semel.db")).open()?;
//! assert_eq!(store.capabilities().name, "sqlite");
//! assert!(store.read(vec![]).await?.now.as_micros() > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! The file may be the application's own database: all names begin with `semel_`. It must lie on a
//! disk of this machine, since the log needs memory that the processes share.

#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::panic,
        clippy::disallowed_methods,
        reason = "a test may fail by panicking and looks at the real clock"
    )
)]

mod error;
pub mod inbox;
mod inspect;
mod migrate;
mod moving;
mod open;
mod outbox;
mod queries;
mod queue;
mod reader;
mod row;
mod step;
mod store;
mod sweep;
mod time;
pub mod transact;
mod verb;
mod writer;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use semel::{Clock, StoreError, SystemClock, Timestamp};

use self::{
    error::{Fault, invalid},
    open::{Identity, Setting},
    outbox::Hints,
    reader::Readers,
    step::Limits,
    time::Time,
    writer::{Work, Writer},
};

/// Keeps records in one SQLite file.
///
/// Dropping the store finishes what it was asked for, and closes the file; it may wait for one commit.
#[derive(Debug)]
pub struct SqliteStore {
    // The readers go first: whoever closes the file last empties the log into it, and only the writer
    // may write.
    readers: Readers,
    writer: Writer,
    /// The file, as SQLite names it.
    path: Arc<str>,
    body_max: usize,
    limits: Limits,
    hints: Arc<Hints>,
}

impl SqliteStore {
    /// Begins to open a store at `path`.
    pub fn builder(path: impl AsRef<Path>) -> SqliteBuilder {
        SqliteBuilder {
            path: path.as_ref().to_owned(),
            audit_max: 100_000,
            body_max: 16 * 1024 * 1024,
            busy_wait: Duration::from_secs(5),
            clock: Arc::new(SystemClock::new()),
            group_max: 512,
            migrate: true,
            page_max: None,
            queue_max: 4_096,
            readers: 4,
        }
    }

    /// Says which schema the file at `path` has, without making or changing it; 0 if it has none.
    ///
    /// # Errors
    ///
    /// Fails if the file is missing, cannot be read, or has a schema that a known migration does not
    /// account for.
    pub fn schema_version(path: impl AsRef<Path>) -> Result<u32, StoreError> {
        let setting = Setting::new(path.as_ref(), Duration::from_secs(5), None)?;
        let conn = setting.reader(setting.busy_wait)?;
        migrate::version_of(&setting.path, &conn)
    }

    /// The schema that this version of the crate works with.
    #[must_use]
    pub fn schema_current() -> u32 {
        migrate::current()
    }

    /// Migrates the file at `path` to the schema of this version, making it if it is missing, and
    /// returns the schema it had before.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written, or its schema is newer than this version.
    pub fn migrate(path: impl AsRef<Path>) -> Result<u32, StoreError> {
        let setting = Setting::new(path.as_ref(), Duration::from_secs(5), None)?;
        let mut conn = setting.writer()?;
        let before = migrate::version_of(&setting.path, &conn)?;
        migrate::migrate(&mut conn, SystemClock::new().wall()).map_err(StoreError::from)?;
        Ok(before)
    }
}

/// Opens a [`SqliteStore`].
#[derive(Clone, Debug)]
#[must_use]
pub struct SqliteBuilder {
    path: PathBuf,
    audit_max: u32,
    body_max: usize,
    busy_wait: Duration,
    clock: Arc<dyn Clock>,
    group_max: usize,
    migrate: bool,
    page_max: Option<u32>,
    queue_max: usize,
    readers: usize,
}

impl SqliteBuilder {
    /// Sets how many audit rows are kept; the oldest go first. 100,000 by default.
    pub const fn audit_max(mut self, rows: u32) -> Self {
        self.audit_max = rows;
        self
    }

    /// Sets the largest outcome body that is kept, in bytes. 16 MiB by default.
    pub const fn body_max(mut self, bytes: usize) -> Self {
        self.body_max = bytes;
        self
    }

    /// Sets how long another program's lock is waited for. 5 s by default.
    pub const fn busy_wait(mut self, wait: Duration) -> Self {
        self.busy_wait = wait;
        self
    }

    /// Sets the clock. The system's by default.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets how many verbs share one commit at most. 512 by default.
    pub const fn group_max(mut self, verbs: usize) -> Self {
        self.group_max = verbs;
        self
    }

    /// Sets whether opening migrates an older or new file. Yes by default.
    pub const fn migrate(mut self, migrate: bool) -> Self {
        self.migrate = migrate;
        self
    }

    /// Bounds the file to a number of pages of 4 KiB. Near the bound new intents are refused as
    /// `Full`, and the last eighth is kept for the ends of what is held. No bound by default.
    pub const fn page_max(mut self, pages: u32) -> Self {
        self.page_max = Some(pages);
        self
    }

    /// Sets how many verbs may wait in each lane before the writer, and how many reads before the
    /// readers; past it callers are told that the store is busy. 4,096 by default.
    pub const fn queue_max(mut self, verbs: usize) -> Self {
        self.queue_max = verbs;
        self
    }

    /// Sets how many reads run at once on callers' threads, and as many on threads of the store. 4 by
    /// default.
    pub const fn readers(mut self, readers: usize) -> Self {
        self.readers = readers;
        self
    }

    /// Opens the file, making it if it is missing. A file of up to 32 MiB is checked whole.
    ///
    /// # Errors
    ///
    /// Fails with an error whose kind and sentence say what to do about a file that is locked, full,
    /// damaged, made by another version, or can only be read.
    pub fn open(self) -> Result<SqliteStore, StoreError> {
        if self.group_max == 0 || self.queue_max == 0 || self.readers == 0 {
            return Err(invalid("group_max, queue_max and readers must be at least 1"));
        }
        let setting = Setting::new(&self.path, self.busy_wait, self.page_max)?;
        let mut conn = setting.writer()?;
        let schema = migrate::version_of(&setting.path, &conn)?;
        if self.migrate && schema < migrate::current() {
            migrate::migrate(&mut conn, self.clock.wall()).map_err(StoreError::from)?;
        } else {
            migrate::admit(schema)?;
        }
        let persisted = persisted(&conn).map_err(StoreError::from)?;
        let time = Arc::new(Time::new(self.clock, persisted));
        let identity = Identity::of(&setting.path);
        let group_max = self.group_max;
        let limits = Limits { audit_max: self.audit_max, page_max: self.page_max };
        let readers = Readers::start(&setting, self.readers, self.queue_max, Arc::clone(&time))?;
        let path = conn.path().unwrap_or_default().into();
        let busy_wait = self.busy_wait;
        let work = Work { conn, identity, time, group_max, limits, busy_wait };
        let writer = Writer::start(work, self.queue_max)?;
        let hints = Arc::default();
        Ok(SqliteStore { readers, writer, path, body_max: self.body_max, limits, hints })
    }
}

fn persisted(conn: &rusqlite::Connection) -> Result<Timestamp, Fault> {
    conn.query_row(queries::META_READ, [], |row| Ok(row::instant(row, 1)))?
}
