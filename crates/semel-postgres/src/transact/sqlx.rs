//! Transactions of sqlx. Its driver sends one statement at a time, so the claim and the completion are
//! a round trip each where they stay [prepared](super::Transact::prepared), else two.

use std::ops::{Deref, DerefMut};

use semel::{StoreError, StoreErrorKind};
use sqlx::{
    AssertSqlSafe, Connection, PgConnection, PgPool, Postgres, Transaction, postgres::PgRow,
};

use super::{
    Guard, Transact,
    claim::Asked,
    guard::Ending,
    source::{Opened, Pool, Source},
    tx::{Carry, Text},
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
        let mut query = sqlx::query(AssertSqlSafe(what.text)).persistent(what.keep);
        for value in values {
            query = match *value {
                Value::Bigint(number) => query.bind(number),
                Value::Bigints(numbers) => query.bind(numbers),
                Value::Blobs(blobs) => query.bind(blobs),
                Value::Bytes(bytes) => query.bind(bytes),
                Value::Plan(bytes) => query.bind(bytes.to_vec()),
                Value::Text(text) => query.bind(text),
                Value::Texts(texts) => query.bind(texts),
                Value::Truth(truth) => query.bind(truth),
            };
        }
        Ok(query.fetch_optional(&mut **self).await?)
    }
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
        asked: &Asked<'_>,
    ) -> Result<Opened<Self::Tx>, Fault> {
        let (pool, begin) = (self.clone(), transact.inner.isolation.begin());
        // In a task: the driver, dropped while it begins, gives a connection back to its pool with the
        // transaction open.
        let begun = transact.inner.tasks.spawn(async move { pool.begin_with(begin).await });
        let ended = |error| {
            StoreError::new(StoreErrorKind::Busy, "no connection could be had").with_source(error)
        };
        let mut tx = begun.await.map_err(ended)??;
        let answer = tx.ask(asked.text(transact, None), &asked.values()).await;
        Ok(Opened { tx, answer, prepared: None })
    }

    async fn commit(mut ending: Ending<Self::Tx>) -> (Result<(), Fault>, Result<(), Fault>) {
        match ending.write().await {
            Ok(()) => (Ok(()), ending.tx.commit().await.map_err(Fault::from)),
            Err(fault) => (Err(fault), Ok(())),
        }
    }

    async fn leave(tx: Self::Tx) -> Result<(), Fault> {
        Ok(tx.commit().await?)
    }
}
