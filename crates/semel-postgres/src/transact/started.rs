//! Transactions that a run begins by itself: `BEGIN` and `COMMIT` share a round trip with the claim
//! and the completion.

use std::{
    future::Future,
    ops::Deref,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Waker},
};

use futures_util::future::join;
use semel::StoreError;
use tokio_postgres::{Client, Row};

use super::{
    Guard, Prepared, Transact,
    guard::{Ending, text},
    source::First,
    tokio_postgres::{ask, ask_all},
    tx::{Carry, Statement, Text},
};
use crate::{error::Fault, locked::in_order, value::Value};

/// A connection that a run may use alone: a client, or what a pool lends.
///
/// ```
/// # struct Object(tokio_postgres::Client);
/// use semel_postgres::transact::Lent;
///
/// struct OfMyPool(Object);
///
/// impl Lent for OfMyPool {
///     fn client(&self) -> &tokio_postgres::Client {
///         &self.0.0
///     }
/// }
/// ```
pub trait Lent: Send + Sync {
    /// Returns the client. Nothing else may use it meanwhile.
    fn client(&self) -> &Client;

    /// Returns what was prepared on this connection, if anything was.
    fn prepared(&self) -> Option<&Prepared> {
        None
    }
}

impl Lent for &mut Client {
    fn client(&self) -> &Client {
        self
    }
}

impl Lent for (&mut Client, &Prepared) {
    fn client(&self) -> &Client {
        self.0
    }

    fn prepared(&self) -> Option<&Prepared> {
        Some(self.1)
    }
}

impl Lent for Client {
    fn client(&self) -> &Client {
        self
    }
}

/// Where a connection comes back to from a transaction that ended, wherever that was dropped.
pub(crate) struct Home<L>(Arc<Mutex<Option<L>>>);

impl<L> Home<L> {
    pub(crate) fn new(lent: L) -> Self {
        Self(Arc::new(Mutex::new(Some(lent))))
    }

    /// For a connection that goes back elsewhere by being dropped.
    pub(crate) fn away() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn take(&self) -> Option<L> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, lent: Option<L>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = lent;
    }
}

/// A transaction that a run began. Dropping it rolls back.
pub struct Started<L: Lent> {
    lent: Option<L>,
    home: Home<L>,
    ended: bool,
}

impl<L: Lent> std::fmt::Debug for Started<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Started").finish_non_exhaustive()
    }
}

impl<L: Lent> Started<L> {
    /// Begins a transaction and claims in it, in one round trip.
    pub(super) async fn begin(
        lent: L,
        home: &Home<L>,
        transact: &Transact,
        first: &impl First,
    ) -> Result<(Self, Result<Option<Row>, Fault>), Fault> {
        // From here on a dropped future rolls back whatever of it was sent.
        let home = Home(Arc::clone(&home.0));
        let started = Self { lent: Some(lent), home, ended: false };
        let client = started.client();
        let begin = client.batch_execute(transact.inner.isolation.begin());
        let (claim, values) = (first.text(transact, started.prepared()), first.values());
        let (begun, answer) = join(begin, ask(client, claim, &values)).await;
        begun?;
        Ok((started, answer.map_err(Fault::from)))
    }

    pub(super) fn prepared(&self) -> Option<&Prepared> {
        self.lent().prepared()
    }

    pub(crate) fn client(&self) -> &Client {
        self.lent().client()
    }

    fn lent(&self) -> &L {
        self.lent.as_ref().expect("only dropping it takes it away")
    }

    /// Sends the last statements and commits, in one round trip. The commit does nothing if a statement
    /// before it failed.
    pub(super) async fn end(
        mut self,
        last: &[Statement<'_>],
    ) -> (Result<(), Fault>, Result<(), Fault>) {
        let client = self.client();
        let sent = last.iter().map(|statement| ask(client, statement.text, &statement.values));
        let (sent, committed) = join(in_order(sent), client.batch_execute("COMMIT")).await;
        self.ended = committed.is_ok();
        let sent: Result<(), _> = sent.into_iter().try_for_each(|sent| sent.map(drop));
        (sent.map_err(Fault::from), committed.map_err(Fault::from))
    }

    /// Commits what a refusal wrote, and waits until its locks are free.
    pub(super) async fn commit(mut self) -> Result<(), Fault> {
        self.client().batch_execute("COMMIT").await?;
        self.ended = true;
        Ok(())
    }
}

impl<L: Lent> Drop for Started<L> {
    fn drop(&mut self) {
        let lent = self.lent.take();
        if let Some(lent) = lent.as_ref().filter(|_| !self.ended) {
            // The first poll queues the statement; nobody waits for its answer.
            let rollback = pin!(lent.client().batch_execute("ROLLBACK"));
            drop(rollback.poll(&mut Context::from_waker(Waker::noop())));
        }
        self.home.put(lent);
    }
}

impl<L: Lent> Carry for Started<L> {
    type Row = Row;

    fn admit(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn ask(&mut self, what: Text<'_>, values: &[Value<'_>]) -> Result<Option<Row>, Fault> {
        Ok(ask(self.client(), what, values).await?)
    }

    async fn ask_all(&mut self, what: Text<'_>, values: &[Value<'_>]) -> Result<Vec<Row>, Fault> {
        Ok(ask_all(self.client(), what, values).await?)
    }
}

impl<L: Lent> Deref for Guard<Started<L>> {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.tx.client()
    }
}

impl<L: Lent> Ending<Started<L>> {
    /// Writes the outcome and commits, in one round trip. The commit does nothing if the statement
    /// before it failed.
    pub(super) async fn commit(mut self) -> (Result<(), Fault>, Result<(), Fault>) {
        let values = self.last.values();
        let text = text(&self.transact, self.prepared.as_ref(), &self.last);
        let client = self.tx.client();
        let statements = &self.transact.inner.statements;
        let (columns, made);
        let mut before = Vec::new();
        if let Some(reference) = self.last.reference() {
            before.push((&statements.reference_use, reference.to_vec()));
        }
        if !self.append.is_empty() {
            columns = self.append.columns();
            made = columns.made();
            before.push((&statements.outbox_append, columns.values(&made).to_vec()));
        }
        let before =
            before.iter().map(|(statement, values)| ask(client, (&***statement).into(), values));
        // Polled in this order, and so sent in it; the server does nothing behind one that failed.
        let before = in_order(before);
        let write = async {
            let (before, written) = join(before, ask(client, text, &values)).await;
            before.into_iter().collect::<Result<Vec<_>, _>>().and(written)
        };
        let (written, committed) = join(write, client.batch_execute("COMMIT")).await;
        self.tx.ended = committed.is_ok();
        (written.map(drop).map_err(Fault::from), committed.map_err(Fault::from))
    }
}
