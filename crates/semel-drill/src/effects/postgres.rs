//! Counting in PostgreSQL, in a transaction that can only read.

use std::{path::Path, sync::Arc};

use tokio::sync::Mutex;
use tokio_postgres::{
    Client, Config, Row,
    types::{ToSql, Type},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::EffectsError;
use crate::plan::Names;

pub(super) struct ByPostgres {
    config: Config,
    tls: MakeRustlsConnect,
    sql: String,
    /// Made when it is first needed, and again after it ended.
    client: Mutex<Option<Client>>,
}

impl ByPostgres {
    pub(super) fn new(url: &str, sql: &str, ca: Option<&Path>) -> Result<Self, EffectsError> {
        let config: Config =
            url.parse().map_err(|error| EffectsError::of("`effects.database`", &error))?;
        let tls = semel_gateway::tls::client(ca)
            .map_err(|error| EffectsError::of("`effects.database`", &error))?;
        let tls = MakeRustlsConnect::new(Arc::unwrap_or_clone(tls));
        Ok(Self { config, tls, sql: sql.to_owned(), client: Mutex::new(None) })
    }

    pub(super) async fn count(&self, names: &Names) -> Result<u64, EffectsError> {
        let mut kept = self.client.lock().await;
        // Taken out, so that one that is dropped in the middle of a count is not used again.
        let mut client = match kept.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => self.connect().await?,
        };
        let row = self.first_row(&mut client, &names.intent).await;
        let row = row.map_err(|error| EffectsError::of("PostgreSQL", &error))?;
        *kept = Some(client);
        row.map_or(Ok(0), |row| number(&row))
    }

    async fn connect(&self) -> Result<Client, EffectsError> {
        let connected = self.config.connect(self.tls.clone()).await;
        let (client, connection) =
            connected.map_err(|error| EffectsError::of("PostgreSQL", &error))?;
        // It ends when its client is dropped.
        tokio::spawn(connection);
        Ok(client)
    }

    /// The intent goes as text whatever the query makes of it, and nothing is prepared: both work
    /// behind a pooler.
    async fn first_row(
        &self,
        client: &mut Client,
        intent: &str,
    ) -> Result<Option<Row>, tokio_postgres::Error> {
        let transaction = client.build_transaction().read_only(true).start().await?;
        let intent: &(dyn ToSql + Sync) = &intent;
        let rows = transaction.query_typed(&self.sql, &[(intent, Type::TEXT)]).await?;
        transaction.rollback().await?;
        Ok(rows.into_iter().next())
    }
}

/// Reads the first column, whatever width it has.
fn number(row: &Row) -> Result<u64, EffectsError> {
    let Some(column) = row.columns().first() else {
        return Err(EffectsError::Uncounted("`effects.sql` returns no column".to_owned()));
    };
    let read = match *column.type_() {
        Type::INT2 => row.try_get::<_, Option<i16>>(0).map(|count| count.map(i64::from)),
        Type::INT4 => row.try_get::<_, Option<i32>>(0).map(|count| count.map(i64::from)),
        Type::INT8 => row.try_get::<_, Option<i64>>(0),
        ref other => {
            let why = format!("`effects.sql` returns {other} and no count: cast it to bigint");
            return Err(EffectsError::Uncounted(why));
        }
    };
    let count = read.map_err(|error| EffectsError::of("PostgreSQL", &error))?.unwrap_or(0);
    u64::try_from(count)
        .map_err(|_| EffectsError::Uncounted(format!("`effects.sql` returns {count}")))
}

impl std::fmt::Debug for ByPostgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Its configuration holds a password.
        f.debug_struct("ByPostgres").field("sql", &self.sql).finish_non_exhaustive()
    }
}
