//! Prepared transactions that hold keys: forgotten by their coordinator, they hold them for ever.

use semel::{IntentId, StoreError, Timestamp};

use crate::{
    PostgresStore,
    error::{Fault, damaged},
    link::{Step, Work},
    row,
    value::{Cells, Value},
};

/// How many are told of at most.
const MAX: i64 = 1_000;

/// A prepared transaction of the database that holds locks like those of keys.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct PreparedTransaction {
    /// Its name: what `COMMIT PREPARED` and `ROLLBACK PREPARED` take.
    pub name: Box<str>,
    /// The role that prepared it.
    pub owner: Box<str>,
    /// When it was prepared, by the server's clock.
    pub prepared_at: Timestamp,
    locks: Box<[i64]>,
}

impl PostgresStore {
    /// Lists prepared transactions of the database that hold advisory locks, oldest first: up to 1,000.
    /// Whatever claims a key that one of them holds is told that it is in progress, until somebody
    /// commits it or rolls it back.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    pub async fn prepared_transactions(&self) -> Result<Vec<PreparedTransaction>, StoreError> {
        self.rest(List).await
    }

    /// Says whether a prepared transaction holds an intent's key.
    #[must_use]
    pub fn holds(&self, prepared: &PreparedTransaction, id: &IntentId) -> bool {
        prepared.locks.contains(&self.links.secret.lock_of(id))
    }
}

struct List;

impl Work for List {
    type Done = Vec<PreparedTransaction>;

    async fn run(&self, step: Step<'_>) -> Result<Self::Done, Fault> {
        let most = Value::Bigint(Some(MAX));
        let rows = step.rows(&step.statements().prepared_list, &[most.param()]).await?;
        let prepared = rows.iter().map(|row| {
            let locks: Vec<i64> = row
                .try_get(3)
                .map_err(|error| damaged("a lock cannot be read").with_source(error))?;
            Ok(PreparedTransaction {
                name: row.text(0)?.unwrap_or_default().into(),
                owner: row.text(1)?.unwrap_or_default().into(),
                prepared_at: row::instant(row, 2)?,
                locks: locks.into(),
            })
        });
        prepared.collect()
    }
}
