//! Opening the file, and how its connections are set.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, config::DbConfig};
use semel::{Clock, StoreError, StoreErrorKind, SystemClock};

use crate::error::{self, damaged, driver, invalid};

/// The first version of SQLite whose write-ahead log cannot be damaged by a reset at a bad moment.
const SQLITE_MIN: (i32, &str) = (3_051_003, "3.51.3");
/// Files up to this size are checked whole when they are opened.
const CHECK_MAX_BYTES: u64 = 32 * 1024 * 1024;
/// After how many pages in the log the writer moves them into the file.
const CHECKPOINT_PAGES: u32 = 4_000;
/// To how many bytes the log is cut when it starts anew.
const LOG_MAX_BYTES: u32 = 64 * 1024 * 1024;

/// How connections are opened.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) path: PathBuf,
    pub(crate) busy_wait: Duration,
    pub(crate) page_max: Option<u32>,
}

impl Setting {
    /// Makes the path absolute, so that a later change of folder does not matter and no name is taken
    /// for a URI or for a database in memory.
    pub(crate) fn new(
        path: &Path,
        busy_wait: Duration,
        page_max: Option<u32>,
    ) -> Result<Self, StoreError> {
        if path.as_os_str().is_empty() || path == Path::new(":memory:") {
            return Err(invalid("this store needs a file; name one"));
        }
        let path = std::path::absolute(path).map_err(|error| error::path(path, error))?;
        Ok(Self { path, busy_wait, page_max })
    }

    /// Opens the connection that writes.
    pub(crate) fn writer(&self) -> Result<Connection, StoreError> {
        admit_version(rusqlite::version_number(), rusqlite::version())?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let conn = self.connect(flags)?;
        let said = |error| error::open(&self.path, error);
        if conn.is_readonly("main").map_err(said)? {
            return Err(read_only(&self.path));
        }
        let check_whole = fs::metadata(&self.path).is_ok_and(|file| file.len() <= CHECK_MAX_BYTES);
        if check_whole {
            quick_check(&conn, &self.path)?;
        }
        let mode = self.log_ahead(&conn).map_err(said)?;
        if mode != "wal" {
            let message =
                "the file system does not offer what a write-ahead log needs; use a local disk";
            return Err(invalid(message));
        }
        self.tune(&conn).map_err(said)?;
        Ok(conn)
    }

    /// Asks for a write-ahead log and returns the mode that the file has then.
    ///
    /// Of several that change a new file at once SQLite refuses all but one straight away, since they
    /// would wait for each other; what it waits for otherwise is not waited for here a second time.
    fn log_ahead(&self, conn: &Connection) -> rusqlite::Result<String> {
        let clock = SystemClock::new();
        let until = clock.monotonic().after(self.busy_wait);
        loop {
            match conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)) {
                Err(refused) if error::is_busy(&refused) && clock.monotonic() < until => {
                    std::thread::park_timeout(Duration::from_millis(2));
                }
                answered => return answered,
            }
        }
    }

    fn tune(&self, conn: &Connection) -> rusqlite::Result<()> {
        // FULL: the log is flushed at every commit. With NORMAL a claim that was answered could vanish
        // in a power cut, and the intent would run twice.
        conn.pragma_update(None, "synchronous", "FULL")?;
        // Where a plain flush stops at the drive's cache, as on macOS.
        conn.pragma_update(None, "fullfsync", true)?;
        conn.pragma_update(None, "checkpoint_fullfsync", true)?;
        conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        conn.pragma_update(None, "journal_size_limit", LOG_MAX_BYTES)?;
        conn.pragma_update(None, "cache_size", -16_384)?;
        if let Some(pages) = self.page_max {
            conn.pragma_update(None, "max_page_count", pages)?;
        }
        Ok(())
    }

    /// Opens a connection that only reads.
    pub(crate) fn reader(&self, busy_wait: Duration) -> Result<Connection, StoreError> {
        let conn = self.connect(OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let set = || {
            conn.busy_timeout(busy_wait)?;
            conn.pragma_update(None, "query_only", true)?;
            conn.pragma_update(None, "cache_size", -4_096)
        };
        set().map_err(driver)?;
        Ok(conn)
    }

    fn connect(&self, flags: OpenFlags) -> Result<Connection, StoreError> {
        let said = |error| error::open(&self.path, error);
        // Each connection belongs to one thread at a time, so SQLite needs no lock of its own.
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(&self.path, flags).map_err(said)?;
        let set = || {
            conn.busy_timeout(self.busy_wait)?;
            conn.set_prepared_statement_cache_capacity(48);
            // Statements are planned once, and not again for each set of values.
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
            conn.pragma_update(None, "trusted_schema", false)?;
            conn.pragma_update(None, "cell_size_check", true)?;
            conn.pragma_update(None, "foreign_keys", false)?;
            // A read error then is an error, and not a signal that ends the process.
            conn.pragma_update(None, "mmap_size", 0)?;
            conn.pragma_update(None, "temp_store", "MEMORY")
        };
        set().map_err(said)?;
        Ok(conn)
    }
}

fn admit_version(number: i32, version: &str) -> Result<(), StoreError> {
    if number >= SQLITE_MIN.0 {
        return Ok(());
    }
    let message = format!(
        "sqlite {version} can damage its log; link {} or newer, or build with the bundled one",
        SQLITE_MIN.1
    );
    Err(StoreError::new(StoreErrorKind::Version, message))
}

/// Checks the whole file, but for the rules that tables have of their own: an event that breaks one is
/// parked when it is read, and a row of the application's is no matter of this store.
fn quick_check(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    let check = || -> rusqlite::Result<String> {
        conn.pragma_update(None, "ignore_check_constraints", true)?;
        let found = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0));
        conn.pragma_update(None, "ignore_check_constraints", false)?;
        found
    };
    let found = check().map_err(|error| error::open(path, error))?;
    if found == "ok" {
        return Ok(());
    }
    let message = "the file is damaged; stop, keep a copy of it and restore a backup";
    Err(damaged(format!("{}: {message}", path.display())).with_source(found))
}

fn read_only(path: &Path) -> StoreError {
    let message = format!(
        "{}: the file or its folder can only be read; grant this process to write",
        path.display()
    );
    StoreError::new(StoreErrorKind::ReadOnly, message)
}

/// Which file a path named when it was opened.
///
/// A file that is removed or replaced while it is open goes on working without a name, and all that
/// is committed to it is lost with the process. SQLite does not notice with a write-ahead log.
#[derive(Debug)]
pub(crate) struct Identity {
    path: PathBuf,
    file: Option<(u64, u64)>,
}

impl Identity {
    pub(crate) fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), file: number(path).unwrap_or_default() }
    }

    /// Checks that the path still names that file. A disk that does not say is away: whether the file
    /// is there shows when it answers again.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let found = number(&self.path).map_err(|error| error::away(&self.path, error))?;
        if found == self.file {
            return Ok(());
        }
        let message = format!(
            "{} was removed or replaced while it was open; put it back, or restart",
            self.path.display()
        );
        Err(damaged(message))
    }
}

/// The file that a path names, if there is one.
#[cfg(unix)]
fn number(path: &Path) -> io::Result<Option<(u64, u64)>> {
    use std::os::unix::fs::MetadataExt;
    match fs::metadata(path) {
        Ok(file) => Ok(Some((file.dev(), file.ino()))),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Elsewhere an open file can be neither removed nor replaced.
#[cfg(not(unix))]
fn number(_: &Path) -> io::Result<Option<(u64, u64)>> {
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that fails is no file that was replaced: nobody needs to put anything back.
    #[cfg(unix)]
    #[test]
    fn a_path_that_cannot_be_looked_at_is_a_store_that_is_away() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::create_dir(&real).unwrap();
        fs::write(real.join("semel.db"), "x").unwrap();
        let leads_to = |place: &Path| {
            drop(fs::remove_file(&link));
            std::os::unix::fs::symlink(place, &link).unwrap();
        };
        leads_to(&real);
        let identity = Identity::of(&link.join("semel.db"));
        identity.check().unwrap();
        // Who looks is sent in circles, and finds neither the file nor that it is gone.
        leads_to(&link);
        assert_eq!(identity.check().unwrap_err().kind(), StoreErrorKind::Unavailable);
        leads_to(folder.path());
        assert_eq!(identity.check().unwrap_err().kind(), StoreErrorKind::Damaged);
        leads_to(&real);
        identity.check().unwrap();
    }

    /// S05: what was acknowledged survives a power cut only if the log is flushed at every commit.
    #[test]
    fn the_writer_flushes_its_log_at_every_commit_and_readers_cannot_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("semel.db");
        let setting = Setting::new(&path, Duration::from_millis(10), None).unwrap();
        let writer = setting.writer().unwrap();
        let pragma = |name: &str| -> String {
            let said = writer.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0));
            match said.unwrap() {
                rusqlite::types::Value::Text(text) => text,
                rusqlite::types::Value::Integer(number) => number.to_string(),
                other => panic!("{other:?}"),
            }
        };
        for (name, value) in [
            ("journal_mode", "wal"),
            ("synchronous", "2"),
            ("fullfsync", "1"),
            ("checkpoint_fullfsync", "1"),
            ("cell_size_check", "1"),
            ("trusted_schema", "0"),
            ("mmap_size", "0"),
        ] {
            assert_eq!(pragma(name), value, "{name}");
        }
        let reader = setting.reader(Duration::ZERO).unwrap();
        assert!(reader.execute_batch("CREATE TABLE x (y)").is_err());
    }

    #[test]
    fn a_sqlite_that_can_damage_its_log_is_refused() {
        let error = admit_version(3_051_002, "3.51.2").unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Version);
        assert!(admit_version(3_051_003, "3.51.3").is_ok());
        assert!(admit_version(rusqlite::version_number(), rusqlite::version()).is_ok());
    }
}
