#![doc = include_str!("../../docs/transact.md")]

mod bridged;
mod claim;
mod guard;
mod held;
mod load;
mod publish;
pub(crate) mod run;
pub(crate) mod source;
#[cfg(feature = "sqlx")]
mod sqlx;
pub(crate) mod started;
mod tokio_postgres;
pub(crate) mod tx;
mod wait;

use std::{fmt, sync::Arc, time::Duration};

use semel::{
    Call, Clock, Record, Refusal, StoreError, SystemClock, Token,
    engine::waiter::{Peek, Waiters},
    entropy::{Entropy, PooledEntropy},
};

use self::{
    claim::{Asked, Decided, Lock},
    source::First,
    wait::ByStore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{
    guard::{Guard, Worked},
    load::Loader,
    run::{Isolation, Ran, RunError},
    source::{Lend, Pool},
    started::{Lent, Started},
    tokio_postgres::Prepared,
    tx::Tx,
};
use crate::{
    PostgresStore, error::Fault, lock::LockSecret, outbox::Hints, queries::Statements, row,
    value::Value,
};

/// Claims inside the caller's own transactions. Cheap to clone.
#[derive(Clone)]
pub struct Transact {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Clone)]
pub(crate) struct Inner {
    pub(crate) statements: Arc<Statements>,
    secret: LockSecret,
    body_max: usize,
    entropy: Arc<dyn Entropy>,
    clock: Arc<dyn Clock>,
    pub(crate) idle_timeout: Duration,
    isolation: Isolation,
    pub(crate) attempts_max: u32,
    pub(crate) keep: bool,
    waiters: Waiters,
    peek: Arc<dyn Peek>,
    pub(crate) hints: Arc<Hints>,
    #[cfg(feature = "sqlx")]
    tasks: TaskTracker,
}

/// What a claim inside a transaction meets.
#[must_use]
pub enum Atomic<T: Tx> {
    /// Neither run nor replay; the transaction comes back.
    Refused(T, Refusal),
    /// The kept outcome; the transaction comes back.
    Replay(T, Box<Record>),
    /// Another transaction won, and this one is rolled back. Begin a new one and claim again.
    Retry(StoreError),
    /// The caller is the holder, as long as the guard lives.
    Run(Guard<T>),
}

/// Makes room for those who wait for transactions.
pub(crate) fn waiters(tasks: &TaskTracker) -> Waiters {
    let clock = Arc::new(SystemClock::new());
    let (max, every) = (Waiters::MAX, Waiters::POLL_EVERY);
    Waiters::new(max, every, clock, tasks.clone(), CancellationToken::new())
}

impl PostgresStore {
    /// Returns what claims inside the caller's own transactions, on connections of any pool to this
    /// store's database.
    #[must_use]
    pub fn transact(&self) -> Transact {
        let links = &self.links;
        let (statements, body_max) = (Arc::clone(&links.statements), links.settings.body_max);
        let peek = Arc::new(ByStore(Arc::downgrade(&self.lanes.reads)));
        let waiters = self.waiters.clone();
        let mut transact = Transact::new(statements, links.secret, body_max, waiters, peek);
        Arc::make_mut(&mut transact.inner).hints = Arc::clone(&self.hints);
        transact
    }
}

impl Transact {
    /// The largest time that an idle transaction may hold a key, unless set otherwise.
    const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
    /// How often a run begins a transaction, unless set otherwise.
    const ATTEMPTS: u32 = 10;

    fn new(
        statements: Arc<Statements>,
        secret: LockSecret,
        body_max: usize,
        waiters: Waiters,
        peek: Arc<dyn Peek>,
    ) -> Self {
        let inner = Inner {
            statements,
            secret,
            body_max,
            entropy: Arc::new(PooledEntropy::new()),
            clock: Arc::new(SystemClock::new()),
            idle_timeout: Self::IDLE_TIMEOUT,
            isolation: Isolation::Default,
            attempts_max: Self::ATTEMPTS,
            keep: false,
            waiters,
            peek,
            hints: Arc::default(),
            #[cfg(feature = "sqlx")]
            tasks: TaskTracker::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Sets how long a transaction that holds a key may be idle until the server ends it, so that a
    /// client which vanished does not hold the key for ever; the default is 60 s. A shorter
    /// `idle_in_transaction_session_timeout` of the session stays. Between 10 ms and a day.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        let (min, max) = (Duration::from_millis(10), Duration::from_secs(24 * 60 * 60));
        Arc::make_mut(&mut self.inner).idle_timeout = timeout.clamp(min, max);
        self
    }

    /// Sets the isolation of the transactions that [`Transact::run`] begins.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        Arc::make_mut(&mut self.inner).isolation = isolation;
        self
    }

    /// Sets how many transactions [`Transact::run`] begins at most, because others won; the default
    /// is 10, the least is 1.
    #[must_use]
    pub fn attempts_max(mut self, attempts: u32) -> Self {
        Arc::make_mut(&mut self.inner).attempts_max = attempts.max(1);
        self
    }

    /// Sets whether sqlx keeps the statements of claims and completions prepared on its connections;
    /// the default is no. Say yes unless a pooler changes the server's session between transactions:
    /// it saves a round trip for each. For tokio-postgres, see [`Prepared`].
    #[must_use]
    pub fn prepared(mut self, prepared: bool) -> Self {
        Arc::make_mut(&mut self.inner).keep = prepared;
        self
    }

    /// Sets the clock that waits; the default is the system's. What decides anything is always the
    /// server's.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        Arc::make_mut(&mut self.inner).clock = clock;
        self
    }

    /// Sets the source of tokens; the default is the system's.
    #[must_use]
    pub fn entropy(mut self, entropy: Arc<dyn Entropy>) -> Self {
        Arc::make_mut(&mut self.inner).entropy = entropy;
        self
    }

    /// Claims an intent inside `tx`, in one statement that waits for nobody.
    ///
    /// # Errors
    ///
    /// Fails, and rolls `tx` back, if it is not what the [module](self) asks for, or the server cannot
    /// be asked.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, `tx` is rolled back.
    pub async fn claim<T: Tx>(&self, tx: T, call: &Call) -> Result<Atomic<T>, StoreError> {
        self.claim_with(tx, call, None).await
    }

    /// As [`Transact::claim`], by statements that were prepared on the connection of `tx`: faster.
    ///
    /// # Errors
    ///
    /// As [`Transact::claim`]; also if `prepared` is of another connection.
    ///
    /// # Cancel safety
    ///
    /// As [`Transact::claim`].
    pub async fn claim_prepared<T: Tx>(
        &self,
        tx: T,
        call: &Call,
        prepared: &Prepared,
    ) -> Result<Atomic<T>, StoreError> {
        self.claim_with(tx, call, Some(prepared)).await
    }

    async fn claim_with<T: Tx>(
        &self,
        mut tx: T,
        call: &Call,
        prepared: Option<&Prepared>,
    ) -> Result<Atomic<T>, StoreError> {
        let asked = Asked::new(self, call, self.token())?;
        tx.admit()?;
        let answer = tx.ask(asked.text(self, prepared), &asked.values()).await;
        match self.met(tx, asked, answer, prepared).await {
            Ok(atomic) => Ok(atomic),
            Err(fault) if fault.undone() => Ok(Atomic::Retry(fault.into())),
            Err(fault) => Err(fault.into()),
        }
    }

    /// Returns how many callers wait for another transaction now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.inner.waiters.len()
    }

    fn token(&self) -> Token {
        Token::from_bytes(self.inner.entropy.bytes())
    }

    /// Does what the answer to a claim says.
    async fn met<T: Tx>(
        &self,
        mut tx: T,
        asked: Asked<'_>,
        answer: Result<Option<T::Row>, Fault>,
        prepared: Option<&Prepared>,
    ) -> Result<Atomic<T>, Fault> {
        let answer = answer?.ok_or_else(claim::no_answer)?;
        let mark = asked.mark().to_owned();
        let (lock, decided) = asked.decide(&answer)?;
        let refusal = match decided {
            Decided::Run(held) => {
                return Ok(Atomic::Run(Guard::new(tx, self.clone(), prepared.cloned(), held)));
            }
            Decided::Replay(record) => return Ok(Atomic::Replay(tx, record)),
            Decided::Refused(refusal) => refusal,
            Decided::Lose(record, refusal) => {
                self.lose(&mut tx, &record).await?;
                refusal
            }
            Decided::Rewind(record, refusal) => {
                self.rewind(&mut tx, &record).await?;
                refusal
            }
        };
        if lock == Lock::Taken {
            let text = (*self.inner.statements.transact_unmark).into();
            tx.ask(text, &[Value::Text(Some(&mark))]).await?;
        }
        Ok(Atomic::Refused(tx, refusal))
    }

    async fn lose<T: Tx>(&self, tx: &mut T, lost: &Record) -> Result<(), Fault> {
        let scope = &lost.id.scope;
        let values = [
            Value::Text(Some(scope.tenant.as_str())),
            Value::Text(Some(scope.operation.as_str())),
            Value::Text(Some(lost.id.key.as_str())),
            Value::Bytes(Some(row::facet(&lost.id))),
            Value::Bigint(lost.settled_at.map(row::micros)),
            Value::Text(lost.reason.as_deref()),
            Value::Bytes(Some(lost.token.as_bytes())),
            Value::Bigint(Some(row::number(lost.fence))),
        ];
        tx.ask((*self.inner.statements.transact_lose).into(), &values).await.map(drop)
    }

    async fn rewind<T: Tx>(&self, tx: &mut T, record: &Record) -> Result<(), Fault> {
        let values = [
            Value::Bytes(Some(record.token.as_bytes())),
            Value::Bigint(Some(row::number(record.fence))),
            Value::Bigint(Some(row::micros(record.lease.renewed_at))),
            Value::Bigint(Some(row::span(record.lease.length))),
        ];
        tx.ask((*self.inner.statements.transact_rewind).into(), &values).await.map(drop)
    }
}

impl<T: Tx> fmt::Debug for Atomic<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(_, refusal) => f.debug_tuple("Refused").field(refusal).finish(),
            Self::Replay(_, record) => f.debug_tuple("Replay").field(record).finish(),
            Self::Retry(error) => f.debug_tuple("Retry").field(error).finish(),
            Self::Run(guard) => f.debug_tuple("Run").field(guard).finish(),
        }
    }
}

impl fmt::Debug for Transact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transact")
            .field("isolation", &self.inner.isolation)
            .field("idle_timeout", &self.inner.idle_timeout)
            .finish_non_exhaustive()
    }
}
