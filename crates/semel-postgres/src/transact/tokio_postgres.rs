//! Transactions of tokio-postgres.

use std::{fmt, ops::Deref};

use semel::StoreError;
use tokio_postgres::{
    Error, GenericClient, Row, Statement, Transaction,
    types::{ToSql, Type},
};

use super::{
    Guard, Transact,
    tx::{Carry, Text},
};
use crate::{error::Fault, value::Value};

/// The statements of claims, completions and receipts, prepared on one connection.
///
/// Keep it beside the connection that it was prepared on. Not for connections behind a pooler that
/// changes the server's session between transactions: there, claim without.
#[derive(Clone)]
pub struct Prepared {
    pub(super) claim: Statement,
    pub(super) insert: Statement,
    pub(super) update: Statement,
    pub(crate) receive: Statement,
    pub(crate) receive_all: Statement,
    pub(crate) advance: Statement,
}

impl Transact {
    /// Prepares the statements of claims, completions and receipts on a connection.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be asked.
    pub async fn prepare(&self, client: &impl GenericClient) -> Result<Prepared, StoreError> {
        let statements = &self.inner.statements;
        let prepare = async |text: &str, kinds: &[Type]| {
            Ok::<_, StoreError>(client.prepare_typed(text, kinds).await.map_err(Fault::from)?)
        };
        Ok(Prepared {
            claim: prepare(&statements.transact_claim, CLAIM).await?,
            insert: prepare(&statements.transact_insert, &WRITE[..22]).await?,
            update: prepare(&statements.transact_update, WRITE).await?,
            receive: prepare(&statements.inbox_receive, RECEIVE).await?,
            receive_all: prepare(&statements.inbox_receive_all, RECEIVE_ALL).await?,
            advance: prepare(&statements.inbox_advance, ADVANCE).await?,
        })
    }
}

/// The types of the parameters of a claim.
const CLAIM: &[Type] = &[
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::BYTEA,
    Type::INT8,
    Type::TEXT,
    Type::TEXT,
    Type::INT8,
];

/// The types of the parameters of a receipt.
const RECEIVE: &[Type] = &[Type::TEXT, Type::TEXT, Type::TEXT, Type::BYTEA, Type::INT8, Type::INT8];

/// The types of the parameters of a receipt of several.
const RECEIVE_ALL: &[Type] =
    &[Type::TEXT, Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::BYTEA_ARRAY, Type::INT8, Type::INT8];

/// The types of the parameters of a move of a position.
const ADVANCE: &[Type] = &[Type::TEXT, Type::TEXT, Type::INT8, Type::INT8, Type::INT8];

/// The types of the parameters of a completion: the last three are of what was seen.
const WRITE: &[Type] = &[
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::BYTEA,
    Type::TEXT,
    Type::BYTEA,
    Type::INT8,
    Type::BYTEA,
    Type::BYTEA,
    Type::INT8,
    Type::INT8,
    Type::BOOL,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::INT8,
    Type::INT8,
    Type::BYTEA,
    Type::TEXT,
    Type::BYTEA,
    Type::INT8,
    Type::TEXT,
];

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").finish_non_exhaustive()
    }
}

/// Sends a statement and returns its first row. It is queued at the first poll, so that what is polled
/// after it is sent after it.
pub(super) async fn ask(
    client: &impl GenericClient,
    what: Text<'_>,
    values: &[Value<'_>],
) -> Result<Option<Row>, Error> {
    Ok(ask_all(client, what, values).await?.into_iter().next())
}

/// As [`ask`], and returns all rows.
pub(super) async fn ask_all(
    client: &impl GenericClient,
    what: Text<'_>,
    values: &[Value<'_>],
) -> Result<Vec<Row>, Error> {
    if let Some(prepared) = what.prepared {
        let values: Vec<_> = values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        return client.query(prepared, &values).await;
    }
    let values: Vec<_> =
        values.iter().map(|value| (value as &(dyn ToSql + Sync), value.kind())).collect();
    client.query_typed(what.text, &values).await
}

impl Carry for Transaction<'_> {
    type Row = Row;

    fn admit(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn ask(&mut self, what: Text<'_>, values: &[Value<'_>]) -> Result<Option<Row>, Fault> {
        Ok(ask(self, what, values).await?)
    }

    async fn ask_all(&mut self, what: Text<'_>, values: &[Value<'_>]) -> Result<Vec<Row>, Fault> {
        Ok(ask_all(self, what, values).await?)
    }
}

impl<'c> Deref for Guard<Transaction<'c>> {
    type Target = Transaction<'c>;

    fn deref(&self) -> &Transaction<'c> {
        &self.tx
    }
}

impl Guard<Transaction<'_>> {
    /// Begins a savepoint inside the guarded transaction: what fails in it can be undone alone.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be asked.
    pub async fn savepoint(&mut self) -> Result<Transaction<'_>, Error> {
        self.tx.transaction().await
    }
}
