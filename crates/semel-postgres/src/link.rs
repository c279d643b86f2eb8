//! The store's connections: lent to one batch at a time, and replaced when they break.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::join3;
use semel::{Clock, Monotonic, StoreError, StoreErrorKind as Kind, SystemClock};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_postgres::{Row, Statement};

use crate::{
    builder::{self, Settings},
    connect::{Connection, Connector},
    error::{Fault, away, busy},
    lock::LockSecret,
    migrate,
    names::Param,
    queries::Statements,
};

/// How often a batch is done again that another transaction, or a server that became a standby, kept
/// from being done.
const TRIES: u32 = 4;

/// How long a lost server is waited for before callers are told.
const PATIENCE: Duration = Duration::from_secs(3);

/// The pause before another try to connect, doubled up to the largest.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// All connections of a store.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) connector: Arc<Connector>,
    pub(crate) statements: Arc<Statements>,
    pub(crate) secret: LockSecret,
    pub(crate) settings: Settings,
    free: Mutex<Vec<Link>>,
    permits: Semaphore,
    /// Counts how often connections were given up: none from before is used again, since it may lead to
    /// a server that acknowledges nothing, which only a new one finds out.
    age: AtomicU64,
    trouble: Mutex<Trouble>,
    pub(crate) clock: SystemClock,
}

/// When the server was last found to be away.
#[derive(Clone, Copy, Debug, Default)]
struct Trouble {
    failures: u32,
    ask_at: Monotonic,
}

/// A connection and the statements that are prepared on it.
#[derive(Debug)]
struct Link {
    connection: Connection,
    age: u64,
    prepared: Mutex<HashMap<usize, Statement>>,
}

/// A connection that a batch has to itself.
struct Lent<'a> {
    links: &'a Links,
    link: Option<Link>,
    _permit: SemaphorePermit<'a>,
}

/// What is done on a connection. It may be done again after a rollback, so it must depend on nothing
/// but the step.
pub(crate) trait Work: Send + Sync {
    /// What comes out.
    type Done: Send + 'static;

    /// Does it.
    fn run(&self, step: Step<'_>) -> impl Future<Output = Result<Self::Done, Fault>> + Send;
}

/// What work is done with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<'a> {
    link: &'a Link,
    pub(crate) links: &'a Links,
}

impl Links {
    /// Begins with the connection that opened the store.
    pub(crate) fn new(
        connector: Arc<Connector>,
        statements: Arc<Statements>,
        secret: LockSecret,
        settings: Settings,
        first: Connection,
    ) -> Self {
        Self {
            connector,
            statements,
            secret,
            settings,
            free: Mutex::new(vec![Link::new(first, 0)]),
            permits: Semaphore::new(settings.connections),
            age: AtomicU64::new(0),
            trouble: Mutex::default(),
            clock: SystemClock::new(),
        }
    }

    /// Does something on a connection, within the time that the server has to answer; again if another
    /// transaction won or the server became a standby, since nothing was written then.
    ///
    /// What may have been written is never sent again from here: the caller is told that nobody knows,
    /// and asks again by the same token, which every verb recognises.
    pub(crate) async fn run<W: Work>(&self, work: &W) -> Result<W::Done, StoreError> {
        let mut tries = 1;
        loop {
            let mut lent = self.lend().await?;
            let fault = match lent.within(self.settings.answer_wait, work).await {
                Ok(done) => return Ok(done),
                Err(fault) => fault,
            };
            lent.mend(&fault).await;
            if tries >= TRIES || !fault.is_undone() {
                return Err(fault.into());
            }
            tries += 1;
        }
    }

    async fn lend(&self) -> Result<Lent<'_>, StoreError> {
        // The semaphore is never closed.
        let permit = self.permits.acquire().await.map_err(|_| busy())?;
        let mut kept = self.take();
        while kept.as_ref().is_some_and(|link| self.is_over(link)) {
            kept = self.take();
        }
        let link = match kept {
            Some(link) => link,
            None => {
                let age = self.age.load(Ordering::Relaxed);
                Link::new(self.connect().await?, age)
            }
        };
        Ok(Lent { links: self, link: Some(link), _permit: permit })
    }

    fn is_over(&self, link: &Link) -> bool {
        link.age != self.age.load(Ordering::Relaxed) || link.connection.client.is_closed()
    }

    fn take(&self) -> Option<Link> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Connects; waits for a server that was just lost, and not for one that is known to be away.
    async fn connect(&self) -> Result<Connection, StoreError> {
        let began = self.clock.monotonic();
        let patience = if self.trouble().failures == 0 { PATIENCE } else { Duration::ZERO };
        loop {
            let (now, ask_at) = (self.clock.monotonic(), self.trouble().ask_at);
            if now < ask_at {
                if now.since(began) >= patience {
                    return Err(away());
                }
                self.clock.sleep_until(ask_at).await;
            }
            match self.admitted().await {
                Ok(connection) => return Ok(connection),
                Err(error) => {
                    let waits = matches!(error.kind(), Kind::Unavailable | Kind::ReadOnly);
                    if !waits || self.clock.monotonic().since(began) >= patience {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Makes a connection to a server that holds the same schema.
    async fn admitted(&self) -> Result<Connection, StoreError> {
        let made = async {
            let connection = self.connector.connect(&self.statements).await?;
            let meta = builder::meta(&connection.client, &self.statements);
            let meta = tokio::time::timeout(self.settings.answer_wait, meta).await;
            let (oldest, secret) = meta.map_err(|_| Fault::Silent)??;
            migrate::admit(migrate::current(), oldest)?;
            if secret != self.secret {
                return Err(StoreError::new(
                    Kind::Version,
                    "the schema was made anew while this store was open; start again",
                ));
            }
            Ok(connection)
        };
        let made = made.await;
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match &made {
            Ok(_) => {
                if trouble.failures > 0 {
                    tracing::info!("the store has a server again");
                }
                *trouble = Trouble::default();
            }
            Err(error) => {
                if trouble.failures == 0 {
                    tracing::warn!(%error, "the store lost its server");
                }
                let pause = PAUSE.saturating_mul(1 << trouble.failures.min(10)).min(PAUSE_MAX);
                trouble.failures = trouble.failures.saturating_add(1);
                trouble.ask_at = self.clock.monotonic().after(pause);
            }
        }
        made
    }

    fn trouble(&self) -> Trouble {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lent<'_> {
    async fn within<W: Work>(&self, wait: Duration, work: &W) -> Result<W::Done, Fault> {
        let link = self.link.as_ref().ok_or(Fault::Silent)?;
        let step = Step { link, links: self.links };
        tokio::time::timeout(wait, work.run(step)).await.unwrap_or(Err(Fault::Silent))
    }

    /// Makes the connection fit for the next batch, or drops it.
    async fn mend(&mut self, fault: &Fault) {
        let Some(link) = self.link.take() else { return };
        if !fault.breaks() {
            let rollback = link.connection.client.batch_execute("ROLLBACK");
            let rolled_back = tokio::time::timeout(PAUSE_MAX, rollback).await;
            if matches!(rolled_back, Ok(Ok(()))) {
                self.link = Some(link);
                return;
            }
        }
        self.links.age.fetch_add(1, Ordering::Relaxed);
        match fault {
            Fault::Silent => {
                link.connection.stop(&self.links.statements, self.links.settings.answer_wait);
            }
            _ => link.connection.end(),
        }
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(link) = self.link.take().filter(|link| !self.links.is_over(link)) {
            self.links.free.lock().unwrap_or_else(PoisonError::into_inner).push(link);
        }
    }
}

impl Link {
    fn new(connection: Connection, age: u64) -> Self {
        Self { connection, age, prepared: Mutex::default() }
    }
}

impl<'a> Step<'a> {
    pub(crate) fn client(&self) -> &'a tokio_postgres::Client {
        &self.link.connection.client
    }

    pub(crate) fn statements(&self) -> &'a Statements {
        &self.links.statements
    }

    /// Runs a statement in a transaction of its own and returns its rows. It is READ COMMITTED whatever
    /// the role's default, so that what another transaction just committed is seen and no error.
    pub(crate) async fn alone(
        &self,
        statement: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Fault> {
        if self.link.connection.read_committed {
            return self.rows(statement, params).await;
        }
        self.bounded(statement, params).await
    }

    /// As [`Step::alone`], and waits for no lock longer than the transaction's begin says.
    pub(crate) async fn bounded(
        &self,
        statement: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Fault> {
        if self.links.settings.prepared {
            // Else the end of the transaction would leave before its statement.
            self.prepared(statement, params).await?;
        }
        let (begin, client) = (&self.statements().transaction_begin, self.client());
        let rows = self.rows(statement, params);
        let (begun, rows, committed) =
            join3(client.batch_execute(begin), rows, client.batch_execute("COMMIT")).await;
        begun?;
        let rows = rows?;
        committed?;
        Ok(rows)
    }

    /// Runs a statement and returns its rows.
    pub(crate) async fn rows(
        &self,
        statement: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Fault> {
        let client = self.client();
        if !self.links.settings.prepared {
            return Ok(client.query_typed(statement, params).await?);
        }
        let prepared = self.prepared(statement, params).await?;
        let values: Vec<_> = params.iter().map(|(value, _)| *value).collect();
        Ok(client.query(&prepared, &values).await?)
    }

    async fn prepared(&self, statement: &str, params: &[Param<'_>]) -> Result<Statement, Fault> {
        // A statement lies at one address for as long as its store is open.
        let at = statement.as_ptr() as usize;
        let kept = || self.link.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prepared) = kept().get(&at) {
            return Ok(prepared.clone());
        }
        let types: Vec<_> = params.iter().map(|(_, kind)| kind.clone()).collect();
        let prepared = self.client().prepare_typed(statement, &types).await?;
        kept().insert(at, prepared.clone());
        Ok(prepared)
    }
}
