//! What claims need to know of a schema, read by the application's own connection: for an application
//! that uses the atomic form alone.

use std::sync::Arc;

use semel::StoreError;
use tokio_postgres::GenericClient;

use tokio_util::task::TaskTracker;

use super::{Transact, wait::Blind, waiters};
use crate::{
    error::{Fault, damaged},
    lock::LockSecret,
    migrate,
    queries::Statements,
    row,
    schema::Schema,
    value::Cells,
};

/// Reads a schema's settings by the application's own connection.
///
/// ```no_run
/// # async fn load(client: &tokio_postgres::Client) -> Result<(), semel::StoreError> {
/// use semel_postgres::transact::Transact;
/// let transact = Transact::loader().schema("shop_semel").load(client).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Loader {
    schema: String,
    body_max: usize,
}

impl Transact {
    /// Returns what reads the schema `semel` by an application's own connection.
    pub fn loader() -> Loader {
        Loader { schema: "semel".to_owned(), body_max: 1024 * 1024 }
    }
}

impl Loader {
    /// Sets the schema's name; the default is `semel`.
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = name.into();
        self
    }

    /// Sets the largest body of an outcome, in bytes; the default is 1 MiB.
    pub const fn body_max(mut self, bytes: usize) -> Self {
        self.body_max = bytes;
        self
    }

    /// Reads what is needed, by a client of tokio-postgres.
    ///
    /// # Errors
    ///
    /// Fails if the schema is missing, of a version that this one cannot work with, or cannot be
    /// read.
    pub async fn load(self, client: &impl GenericClient) -> Result<Transact, StoreError> {
        let statements = self.statements()?;
        let row = client.query_typed(&statements.transact_load, &[]).await.map_err(Fault::from)?;
        self.made(statements, row.first())
    }

    /// Reads what is needed, by a connection or pool of sqlx.
    ///
    /// # Errors
    ///
    /// As [`Loader::load`].
    #[cfg(feature = "sqlx")]
    pub async fn load_sqlx<'c>(
        self,
        executor: impl sqlx::PgExecutor<'c>,
    ) -> Result<Transact, StoreError> {
        let statements = self.statements()?;
        let text = sqlx::AssertSqlSafe(statements.transact_load.to_string());
        let query = sqlx::query(text).persistent(false);
        let row = query.fetch_optional(executor).await.map_err(Fault::from)?;
        self.made(statements, row.as_ref())
    }

    fn statements(&self) -> Result<Arc<Statements>, StoreError> {
        Ok(Arc::new(Statements::new(&Schema::new(&self.schema)?)))
    }

    fn made(
        &self,
        statements: Arc<Statements>,
        row: Option<&impl Cells>,
    ) -> Result<Transact, StoreError> {
        let empty = || damaged("the table meta is empty; restore a backup");
        let row = row.ok_or_else(empty)?;
        let number = |at| Ok::<_, Fault>(row::count(row, at)?.and_then(|n| u32::try_from(n).ok()));
        migrate::admit(number(2)?.unwrap_or_default(), number(0)?.unwrap_or_default())?;
        let secret = row.bytes(1)?.and_then(|bytes| bytes.try_into().ok()).ok_or_else(empty)?;
        let waiters = waiters(&TaskTracker::new());
        let secret = LockSecret::new(secret);
        Ok(Transact::new(statements, secret, self.body_max, waiters, Arc::new(Blind)))
    }
}
