//! The schema's versions, and the way from one to the next.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};
use semel::{Fingerprint, StoreError, StoreErrorKind, Timestamp};

use crate::{error::Fault, queries, row};

struct Migration {
    name: &'static str,
    text: &'static str,
}

/// In order; the first is version 1. What was once released is never edited.
const MIGRATIONS: &[Migration] = &[
    Migration { name: "0001_records", text: include_str!("../migrations/0001_records.sql") },
    Migration { name: "0002_outbox", text: include_str!("../migrations/0002_outbox.sql") },
    Migration { name: "0003_inbox", text: include_str!("../migrations/0003_inbox.sql") },
    Migration { name: "0004_left_out", text: include_str!("../migrations/0004_left_out.sql") },
];

/// The schema that this version of the crate reads and writes.
pub(crate) fn current() -> u32 {
    u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX)
}

/// Refuses a schema that this version does not know.
pub(crate) fn admit(schema: u32) -> Result<(), StoreError> {
    if schema == current() {
        return Ok(());
    }
    let todo = if schema > current() { "upgrade semel" } else { "migrate the file" };
    let message = format!(
        "the file has schema {schema}, this version of semel works with {}; {todo}",
        current()
    );
    Err(StoreError::new(StoreErrorKind::Version, message))
}

/// Reads which schema a file has; 0 if it has none.
pub(crate) fn version(conn: &Connection) -> Result<u32, Fault> {
    let exists: bool = conn.query_row(queries::MIGRATION_EXISTS, [], |row| row.get(0))?;
    if !exists {
        return Ok(0);
    }
    let mut statement = conn.prepare(queries::MIGRATION_LIST)?;
    let mut rows = statement.query([])?;
    let mut last = 0;
    while let Some(row) = rows.next()? {
        last = row.get(0)?;
        let digest: [u8; 32] = row.get(1)?;
        let known =
            usize::try_from(last).ok().and_then(|version| MIGRATIONS.get(version.checked_sub(1)?));
        if known.is_some_and(|migration| checksum(migration.text) != digest) {
            let message = format!(
                "migration {last} was applied from another text; use the build that made the file"
            );
            return Err(StoreError::new(StoreErrorKind::Version, message).into());
        }
    }
    Ok(last)
}

/// Applies what is missing, all in one transaction, and returns the schema before.
pub(crate) fn migrate(conn: &mut Connection, at: Timestamp) -> Result<u32, Fault> {
    if version(conn)? == current() {
        return Ok(current());
    }
    // Other processes may be at it too: what is missing is read again under the write lock.
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let before = version(&transaction)?;
    if before > current() {
        admit(before)?;
    }
    transaction.execute_batch(queries::MIGRATION_CREATE)?;
    for (version, migration) in (1_u32..).zip(MIGRATIONS).filter(|(version, _)| *version > before) {
        transaction.execute_batch(migration.text)?;
        let digest = checksum(migration.text);
        let entry = (version, migration.name, digest, row::micros(at));
        transaction.execute(queries::MIGRATION_APPLY, entry)?;
        tracing::info!(version, name = migration.name, "migrated the store");
    }
    transaction.commit()?;
    Ok(before)
}

fn checksum(text: &str) -> [u8; 32] {
    *Fingerprint::of_bytes(text.as_bytes()).digest()
}

/// Reads which schema the file at `path` has, without making or changing it.
pub(crate) fn version_of(path: &Path, conn: &Connection) -> Result<u32, StoreError> {
    version(conn).map_err(|fault| match fault {
        Fault::Driver(error) => crate::error::open(path, error),
        fault => fault.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn migrated() -> Connection {
        let mut conn = Connection::open_in_memory().unwrap();
        assert_eq!(migrate(&mut conn, Timestamp::default()).unwrap(), 0);
        conn
    }

    #[test]
    fn migrating_twice_changes_nothing() {
        let mut conn = migrated();
        assert_eq!(migrate(&mut conn, Timestamp::default()).unwrap(), current());
    }

    #[test]
    fn a_migration_of_another_text_is_noticed() {
        let conn = migrated();
        conn.execute_batch("UPDATE semel_migration SET digest = zeroblob(32)").unwrap();
        let error = StoreError::from(version(&conn).unwrap_err());
        assert_eq!(error.kind(), StoreErrorKind::Version);
    }

    #[test]
    fn the_row_of_the_file_names_the_current_schema() {
        let conn = migrated();
        let schema: u32 =
            conn.query_row("SELECT schema FROM semel_meta", [], |row| row.get(0)).unwrap();
        assert_eq!(schema, current());
    }
}
