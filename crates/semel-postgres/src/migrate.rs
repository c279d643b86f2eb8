//! The schema's versions, and the way from one to the next: forward only, while others work.

use semel::{Fingerprint, StoreError, StoreErrorKind};
use tokio_postgres::Client;

use crate::{
    error::{Fault, damaged},
    queries::Statements,
    schema::Schema,
    value::Cells,
};

struct Migration {
    name: &'static str,
    text: &'static str,
}

/// In order; the first is version 1. What was once released is never edited.
const MIGRATIONS: &[Migration] = &[
    Migration { name: "0001_records", text: include_str!("../migrations/0001_records.sql") },
    Migration { name: "0002_values", text: include_str!("../migrations/0002_values.sql") },
    Migration { name: "0003_claim", text: include_str!("../migrations/0003_claim.sql") },
    Migration { name: "0004_settle", text: include_str!("../migrations/0004_settle.sql") },
    Migration { name: "0005_keep", text: include_str!("../migrations/0005_keep.sql") },
    Migration { name: "0006_leases", text: include_str!("../migrations/0006_leases.sql") },
    Migration { name: "0007_answers", text: include_str!("../migrations/0007_answers.sql") },
    Migration { name: "0008_outbox", text: include_str!("../migrations/0008_outbox.sql") },
    Migration { name: "0009_relay", text: include_str!("../migrations/0009_relay.sql") },
    Migration { name: "0010_retain", text: include_str!("../migrations/0010_retain.sql") },
    Migration {
        name: "0011_outbox_words",
        text: include_str!("../migrations/0011_outbox_words.sql"),
    },
    Migration { name: "0012_import", text: include_str!("../migrations/0012_import.sql") },
    Migration { name: "0013_inbox", text: include_str!("../migrations/0013_inbox.sql") },
    Migration { name: "0014_slots", text: include_str!("../migrations/0014_slots.sql") },
    Migration {
        name: "0015_receive_batch",
        text: include_str!("../migrations/0015_receive_batch.sql"),
    },
    Migration {
        name: "0016_import_safely",
        text: include_str!("../migrations/0016_import_safely.sql"),
    },
    Migration { name: "0017_kept_by", text: include_str!("../migrations/0017_kept_by.sql") },
    Migration { name: "0018_in_order", text: include_str!("../migrations/0018_in_order.sql") },
    Migration { name: "0019_told_truly", text: include_str!("../migrations/0019_told_truly.sql") },
    Migration { name: "0020_left_out", text: include_str!("../migrations/0020_left_out.sql") },
    Migration {
        name: "0021_imports_move",
        text: include_str!("../migrations/0021_imports_move.sql"),
    },
];

/// The schema that this version of the crate reads and writes.
pub(crate) fn current() -> u32 {
    u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX)
}

/// Refuses a schema that this version cannot work with. A newer one is fine for as long as it says
/// so by the oldest version that it bears: two versions of Semel then work side by side.
pub(crate) fn admit(schema: u32, oldest: u32) -> Result<(), StoreError> {
    if schema >= current() && oldest <= current() {
        return Ok(());
    }
    let todo = if schema > current() { "upgrade semel" } else { "run semel migrate" };
    let message = format!(
        "the database has schema {schema}, this version of semel works with {}; {todo}",
        current()
    );
    Err(StoreError::new(StoreErrorKind::Version, message))
}

/// Reads which schema a database has; 0 if it has none.
pub(crate) async fn version(client: &Client, statements: &Statements) -> Result<u32, Fault> {
    let exists = client.query_typed(&statements.migration_exists, &[]).await?;
    if exists.first().map(|row| row.truth(0)).transpose()?.flatten() != Some(true) {
        return Ok(0);
    }
    let mut last = 0;
    for row in client.query_typed(&statements.migration_list, &[]).await? {
        let version = row.bigint(0)?.and_then(|version| u32::try_from(version).ok());
        last = version.ok_or_else(|| damaged("a migration has no version; restore a backup"))?;
        let known =
            usize::try_from(last).ok().and_then(|version| MIGRATIONS.get(version.checked_sub(1)?));
        let digest = row.bytes(1)?.unwrap_or_default();
        if known.is_some_and(|migration| checksum(migration.text) != *digest) {
            let message = format!(
                "migration {last} was applied from another text; use the build that made the schema"
            );
            return Err(StoreError::new(StoreErrorKind::Version, message).into());
        }
    }
    Ok(last)
}

/// Names what a schema lacks though all of its migrations were applied, such as a key that somebody dropped.
pub(crate) async fn lacks(
    client: &Client,
    statements: &Statements,
) -> Result<Vec<Box<str>>, Fault> {
    let rows = client.query_typed(&statements.migration_lacks, &[]).await?;
    rows.iter().map(|row| Ok(row.text(0)?.unwrap_or_default().into())).collect()
}

/// Applies what is missing, all in one transaction, and returns the version before.
pub(crate) async fn migrate(
    client: &mut Client,
    schema: &Schema,
    statements: &Statements,
) -> Result<u32, Fault> {
    let before = version(client, statements).await?;
    if before >= current() {
        return Ok(before);
    }
    let transaction = client.transaction().await?;
    // Other processes may be at it too: what is missing is read again under the lock.
    transaction.batch_execute(&statements.migration_lock).await?;
    let before = version(transaction.client(), statements).await?;
    transaction.batch_execute(&statements.migration_create).await?;
    for (version, migration) in (1_u32..).zip(MIGRATIONS).filter(|(version, _)| *version > before) {
        transaction.batch_execute(&schema.put_into(migration.text)).await?;
        let digest = checksum(migration.text);
        let values = [
            crate::value::Value::Bigint(Some(i64::from(version))),
            crate::value::Value::Text(Some(migration.name)),
            crate::value::Value::Bytes(Some(&digest)),
        ];
        crate::value::execute(&transaction, &statements.migration_apply, &values).await?;
        tracing::info!(version, name = migration.name, "migrated the store");
    }
    transaction.commit().await?;
    Ok(before)
}

fn checksum(text: &str) -> [u8; 32] {
    *Fingerprint::of_bytes(text.as_bytes()).digest()
}
