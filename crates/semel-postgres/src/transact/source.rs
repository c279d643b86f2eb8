//! Where a run gets its transactions from.

use std::{error::Error as StdError, future::Future};

use semel::{StoreError, StoreErrorKind};

use super::{
    Lent, Prepared, Started, Transact,
    guard::Ending,
    started::Home,
    tx::{Carry, Statement, Text},
};
use crate::{
    error::{Fault, invalid},
    value::Value,
};

/// A transaction that began, and the answer to its first statement.
pub(crate) struct Opened<T: Carry> {
    pub(crate) tx: T,
    pub(crate) answer: Result<Option<T::Row>, Fault>,
    pub(crate) prepared: Option<Prepared>,
}

/// The first statement of a transaction, sent together with its beginning.
pub(crate) trait First: Sync {
    /// The statement, or the same as prepared on the connection.
    fn text<'t>(&self, transact: &'t Transact, prepared: Option<&'t Prepared>) -> Text<'t>;

    /// Its parameters.
    fn values(&self) -> Vec<Value<'_>>;
}

/// What begins and ends transactions.
pub(crate) trait Source: Pool + Send + Sync {
    /// Whether each transaction has a connection of its own.
    const RENEWS: bool = true;

    /// Begins a transaction and asks its first statement.
    fn open(
        &self,
        transact: &Transact,
        first: &impl First,
    ) -> impl Future<Output = Result<Opened<Self::Tx>, Fault>> + Send;

    /// Writes the outcome and commits; says how each of the two went.
    fn commit(
        ending: Ending<Self::Tx>,
    ) -> impl Future<Output = (Result<(), Fault>, Result<(), Fault>)> + Send;

    /// Sends the last statements and commits; says how each of the two went.
    fn end(
        tx: Self::Tx,
        last: &[Statement<'_>],
    ) -> impl Future<Output = (Result<(), Fault>, Result<(), Fault>)> + Send;

    /// Ends a transaction in which nothing ran, and waits until its locks are free.
    fn leave(tx: Self::Tx) -> impl Future<Output = Result<(), Fault>> + Send;
}

/// A pool that [`Transact::run_on`] takes connections from: an `sqlx::PgPool`, or whatever can
/// [`Lend`].
pub trait Pool {
    /// The transactions that begin on its connections.
    type Tx: super::Tx;
}

/// Lends connections of tokio-postgres, as a pool does.
///
/// A connection that comes back by being dropped may have a `ROLLBACK` on its way; it can be lent to
/// the next at once, since what is sent later is done later.
pub trait Lend: Send + Sync {
    /// A connection; dropping it gives it back.
    type Lent: Lent;
    /// Why none could be had.
    type Error: Into<Box<dyn StdError + Send + Sync>>;

    /// Lends a connection that nobody else uses meanwhile.
    fn lend(&self) -> impl Future<Output = Result<Self::Lent, Self::Error>> + Send;
}

async fn open<L: Lent>(
    lent: L,
    home: &Home<L>,
    transact: &Transact,
    first: &impl First,
) -> Result<Opened<Started<L>>, Fault> {
    let (tx, answer) = Started::begin(lent, home, transact, first).await?;
    let prepared = tx.prepared().cloned();
    Ok(Opened { tx, answer, prepared })
}

/// One connection, for one transaction after the other.
impl<L: Lent> Pool for Home<L> {
    type Tx = Started<L>;
}

impl<L: Lent> Source for Home<L> {
    const RENEWS: bool = false;

    async fn open(
        &self,
        transact: &Transact,
        first: &impl First,
    ) -> Result<Opened<Started<L>>, Fault> {
        let kept = || invalid("the work of a run kept its guard, and failed; drop the guard first");
        open(self.take().ok_or_else(kept)?, self, transact, first).await
    }

    async fn commit(ending: Ending<Started<L>>) -> (Result<(), Fault>, Result<(), Fault>) {
        ending.commit().await
    }

    async fn end(tx: Started<L>, last: &[Statement<'_>]) -> (Result<(), Fault>, Result<(), Fault>) {
        tx.end(last).await
    }

    async fn leave(tx: Started<L>) -> Result<(), Fault> {
        tx.commit().await
    }
}

/// A connection for each transaction.
impl<P: Lend> Pool for P {
    type Tx = Started<P::Lent>;
}

impl<P: Lend> Source for P {
    async fn open(
        &self,
        transact: &Transact,
        first: &impl First,
    ) -> Result<Opened<Started<P::Lent>>, Fault> {
        let lent = self.lend().await.map_err(|error| none(error.into()))?;
        open(lent, &Home::away(), transact, first).await
    }

    async fn commit(ending: Ending<Started<P::Lent>>) -> (Result<(), Fault>, Result<(), Fault>) {
        ending.commit().await
    }

    async fn end(
        tx: Started<P::Lent>,
        last: &[Statement<'_>],
    ) -> (Result<(), Fault>, Result<(), Fault>) {
        tx.end(last).await
    }

    async fn leave(tx: Started<P::Lent>) -> Result<(), Fault> {
        tx.commit().await
    }
}

fn none(error: Box<dyn StdError + Send + Sync>) -> StoreError {
    StoreError::new(StoreErrorKind::Busy, "no connection could be had").with_source(error)
}
