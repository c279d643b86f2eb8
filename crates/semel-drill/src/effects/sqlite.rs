//! Counting in an SQLite file, read only.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use rusqlite::{Connection, OpenFlags, OptionalExtension, types::ValueRef};

use super::EffectsError;
use crate::plan::Names;

/// After how many steps of the database it is asked whether the time is over.
const STEPS: std::ffi::c_int = 10_000;

#[derive(Debug)]
pub(super) struct BySqlite {
    path: PathBuf,
    sql: String,
}

impl BySqlite {
    pub(super) fn new(path: &str, sql: &str) -> Self {
        Self { path: PathBuf::from(path), sql: sql.to_owned() }
    }

    /// Counts on a connection of its own: the file may be replaced when the API starts again.
    pub(super) async fn count(&self, names: &Names, within: Duration) -> Result<u64, EffectsError> {
        let (path, sql, intent) = (self.path.clone(), self.sql.clone(), names.intent.clone());
        let counted = tokio::task::spawn_blocking(move || {
            let shown = format!("{}", path.display());
            count(&path, &sql, &intent, within).map_err(|error| EffectsError::of(&shown, &error))
        });
        match counted.await {
            Ok(Ok(Some(count))) => Ok(count),
            Ok(Ok(None)) => {
                let why = "the first column of the first row of `effects.sql` is no count";
                Err(EffectsError::Uncounted(why.to_owned()))
            }
            Ok(Err(error)) => Err(error),
            Err(error) => Err(EffectsError::of("the count was given up", &error)),
        }
    }
}

/// Returns nothing if what was selected is no count.
fn count(
    path: &PathBuf,
    sql: &str,
    intent: &str,
    within: Duration,
) -> rusqlite::Result<Option<u64>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(within)?;
    let until = Instant::now() + within;
    connection.progress_handler(STEPS, Some(move || Instant::now() > until))?;
    let counted = connection.query_row(sql, [intent], |row| {
        Ok(match row.get_ref(0)? {
            ValueRef::Integer(count) => u64::try_from(count).ok(),
            ValueRef::Null => Some(0),
            ValueRef::Blob(_) | ValueRef::Real(_) | ValueRef::Text(_) => None,
        })
    });
    Ok(counted.optional()?.unwrap_or(Some(0)))
}
