//! Three ways to have a row written once: leased with the row in a transaction of its own, and in one
//! transaction by each driver.

use semel::{Begun, Call, Engine, Error, Outcome, Record, Refusal, engine::Ended};
use semel_postgres::transact::{Guard, Lend, Lent, Ran, RunError, Started, Transact, Worked};
use semel_testkit::history::Told;
use sqlx::{PgPool, Postgres, Transaction};

use super::crowd::{Asker, Said};
use crate::transact::pool::Pool;

const BOOK: &str = "INSERT INTO ledger (key) VALUES ($1)";

/// By an engine on a store: the effect is outside of what the store writes.
pub(super) struct Leased {
    pub(super) engine: Engine,
    pub(super) ledger: Pool,
}

impl Asker for Leased {
    const FORM: &'static str = "leased";

    async fn ask(&self, call: &Call, outcome: Outcome) -> Said {
        let holder = match self.engine.begin(call.clone()).await {
            Ok(Begun::Replay(record)) => return replayed(&record),
            Ok(Begun::Refused(refusal)) => return refused(&refusal),
            Ok(Begun::Run(holder)) => holder,
            Err(error) => return erred(&error),
        };
        let Ok(client) = self.ledger.lend().await else {
            drop(holder.release("no connection").await);
            return Said::Again;
        };
        if let Err(error) = holder.start().await {
            return erred(&error);
        }
        if client.client().execute(BOOK, &[&call.id.key.as_str()]).await.is_err() {
            drop(holder.may_have_acted("the ledger did not answer").await);
            return Said::Again;
        }
        match holder.complete(outcome.clone()).await {
            Ok(Ended::Stored) => Said::Done(Told::from(&outcome)),
            Ok(Ended::Before(record)) => replayed(&record),
            Err(error) => erred(&error),
        }
    }
}

/// In one transaction, on connections of tokio-postgres.
pub(super) struct Atomic {
    pub(super) transact: Transact,
    pub(super) pool: Pool,
}

impl Asker for Atomic {
    const FORM: &'static str = "atomic";

    async fn ask(&self, call: &Call, outcome: Outcome) -> Said {
        let work = |guard| book(guard, call.id.key.as_str(), outcome.clone());
        told(self.transact.run_on(&self.pool, call, work).await, &outcome)
    }
}

async fn book<L: Lent>(
    guard: Guard<Started<L>>,
    key: &str,
    outcome: Outcome,
) -> Result<Worked<Started<L>, ()>, tokio_postgres::Error> {
    guard.execute(BOOK, &[&key]).await?;
    Ok(guard.done(outcome, ()))
}

/// In one transaction, by sqlx.
pub(super) struct BySqlx {
    pub(super) transact: Transact,
    pub(super) pool: PgPool,
}

impl Asker for BySqlx {
    const FORM: &'static str = "sqlx";

    async fn ask(&self, call: &Call, outcome: Outcome) -> Said {
        let work = |guard| book_by_sqlx(guard, call.id.key.as_str(), outcome.clone());
        told(self.transact.run_on(&self.pool, call, work).await, &outcome)
    }
}

async fn book_by_sqlx(
    mut guard: Guard<Transaction<'static, Postgres>>,
    key: &str,
    outcome: Outcome,
) -> Result<Worked<Transaction<'static, Postgres>, ()>, sqlx::Error> {
    sqlx::query(BOOK).bind(key).execute(&mut *guard).await?;
    Ok(guard.done(outcome, ()))
}

fn told<E: std::fmt::Debug>(ran: Result<Ran<()>, RunError<E>>, outcome: &Outcome) -> Said {
    match ran {
        Ok(Ran::Done(())) => Said::Done(Told::from(outcome)),
        Ok(Ran::Replay(record)) => replayed(&record),
        Ok(Ran::Refused(refusal)) => refused(&refusal),
        Err(RunError::Store(error)) => Said::of_error(&error),
        // Of the work's own statement: all was rolled back.
        Err(_) => Said::Again,
    }
}

fn replayed(record: &Record) -> Said {
    Said::Done(Told::from(record.outcome.as_ref().expect("the outcome is kept for a day")))
}

fn refused(refusal: &Refusal) -> Said {
    match refusal {
        Refusal::InProgress { .. } => Said::Again,
        Refusal::Unknown { .. } => Said::Unknown,
        other => panic!("nothing explains this refusal: {other:?}"),
    }
}

fn erred(error: &Error) -> Said {
    match error {
        Error::Stale => Said::Again,
        Error::Store(error) => Said::of_error(error),
        other => {
            assert!(other.is_retryable(), "{other:?}");
            Said::Again
        }
    }
}
