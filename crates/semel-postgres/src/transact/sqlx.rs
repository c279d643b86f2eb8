//! Transactions of sqlx. Its driver sends one statement at a time, so the claim and the completion are
//! a round trip each where they stay [prepared](super::Transact::prepared), else two.

use std::ops::{Deref, DerefMut};

use semel::{StoreError, StoreErrorKind};
use sqlx::{
    AssertSqlSafe, Connection, PgConnection, PgPool, Postgres, Transaction,
    postgres::{PgArguments, PgRow},
    query::Query,
};

use super::{
    Guard, Transact,
    guard::Ending,
    source::{First, Opened, Pool, Source},
    tx::{Carry, Statement, Text},
};
use crate::{
    error::{Fault, invalid},
    value::Value,
};

impl Carry for Transaction<'_, Postgres> {
    type Row = PgRow;

    fn admit(&self) -> Result<(), StoreError> {
        if !self.is_in_transaction() {
            return Err(invalid("the transaction has ended already; begin another"));
        }
        Ok(())
    }

    async fn ask(&mut self, what: Text<'_>, values: &[Value<'_>]) -> Result<Option<PgRow>, Fault> {
        Ok(bound(what, values).fetch_optional(&mut **self).await?)
    }

    async fn ask_all(&mut self, what: Text<'_>, values: &[Value<'_>]) -> Result<Vec<PgRow>, Fault> {
        Ok(bound(what, values).fetch_all(&mut **self).await?)
    }
}

fn bound<'q>(what: Text<'q>, values: &[Value<'q>]) -> Query<'q, Postgres, PgArguments> {
    let mut query = sqlx::query(AssertSqlSafe(what.text)).persistent(what.keep);
    for value in values {
        query = match *value {
            Value::Bigint(number) => query.bind(number),
            Value::Bigints(numbers) => query.bind(numbers),
            Value::Blobs(blobs) => query.bind(blobs),
            Value::Bodies(all) => query.bind(all),
            Value::Bytes(bytes) => query.bind(bytes),
            Value::Plan(bytes) => query.bind(bytes.to_vec()),
            Value::Text(text) => query.bind(text),
            Value::Texts(texts) => query.bind(texts),
            Value::Names(all) => query.bind(all),
            Value::Truth(truth) => query.bind(truth),
        };
    }
    query
}

impl Deref for Guard<Transaction<'_, Postgres>> {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.tx
    }
}

/// For queries. Ending the transaction by the driver's manager of transactions is as wrong as by text,
/// and as loud.
impl DerefMut for Guard<Transaction<'_, Postgres>> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.tx
    }
}

/// A connection for each transaction.
impl Pool for PgPool {
    type Tx = Transaction<'static, Postgres>;
}

impl Source for PgPool {
    async fn open(
        &self,
        transact: &Transact,
        first: &impl First,
    ) -> Result<Opened<Self::Tx>, Fault> {
        let (pool, begin) = (self.clone(), transact.inner.isolation.begin());
        // In a task: the driver, dropped while it begins, gives a connection back to its pool with the
        // transaction open.
        let begun = transact.inner.tasks.spawn(async move { pool.begin_with(begin).await });
        let ended = |error| {
            StoreError::new(StoreErrorKind::Busy, "no connection could be had").with_source(error)
        };
        let mut tx = begun.await.map_err(ended)??;
        let answer = tx.ask(first.text(transact, None), &first.values()).await;
        Ok(Opened { tx, answer, prepared: None })
    }

    async fn commit(mut ending: Ending<Self::Tx>) -> (Result<(), Fault>, Result<(), Fault>) {
        match ending.write().await {
            Ok(()) => (Ok(()), ending.tx.commit().await.map_err(Fault::from)),
            Err(fault) => (Err(fault), Ok(())),
        }
    }

    async fn end(
        mut tx: Self::Tx,
        last: &[Statement<'_>],
    ) -> (Result<(), Fault>, Result<(), Fault>) {
        for statement in last {
            if let Err(fault) = tx.ask(statement.text, &statement.values).await {
                return (Err(fault), Ok(()));
            }
        }
        (Ok(()), tx.commit().await.map_err(Fault::from))
    }

    async fn leave(tx: Self::Tx) -> Result<(), Fault> {
        Ok(tx.commit().await?)
    }
}
