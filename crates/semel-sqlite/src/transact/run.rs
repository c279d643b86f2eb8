//! The short form: begin, claim, mutate, complete, commit; and again after a lost race.

use rusqlite::{Connection, TransactionBehavior};
use semel::{Call, Outcome, Record, Refusal, StoreError, Token};
use thiserror::Error;

use super::{Atomic, Guard, Transact};
use crate::{
    error::{commit, driver, is_busy},
    reader, verb,
};

/// How often a transaction is begun before the store is said to be busy.
pub(crate) const ATTEMPTS_MAX: usize = 3;

/// How a run in a transaction of its own ended.
#[derive(Debug)]
#[must_use]
pub enum Ran<T> {
    /// It was done and committed now.
    Done(T),
    /// Neither run nor replay.
    Refused(Refusal),
    /// It was done before; this is what was kept.
    Replay(Box<Record>),
}

/// Why a run in a transaction of its own is not committed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError<E> {
    /// The store could not be asked, or the commit failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The work failed, and everything was rolled back.
    #[error("the work inside the transaction failed")]
    Work(#[source] E),
}

impl Transact {
    /// Runs `work` in a transaction of its own, unless the intent was done before, and commits it
    /// together with the outcome that `work` returns. While another connection holds the file's lock
    /// it decides anew, and begins another transaction, a bounded number of times.
    ///
    /// `work` may run more than once, each time after all that it did was rolled back: it must call
    /// nothing outside.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use rusqlite::Connection;
    /// # use semel::{Call, Fingerprint, Key, Operation, Outcome, Policy, Scope, Tenant};
    /// # use semel_sqlite::{SqliteStore, transact::Ran};
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("shop.db");
    /// # let store = SqliteStore::builder(&path).open()?;
    /// # let mut conn = Connection::open(&path)?;
    /// # conn.execute_batch("CREATE TABLE payment (amount INTEGER)")?;
    /// # let scope = Scope::new(Tenant::new("acme")?, Operation::new("payments.create")?);
    /// # let intent = scope.intent(Key::new("order-7")?);
    /// # let call = Call::new(intent, Fingerprint::of_bytes(b""), Arc::new(Policy::default()));
    /// let pay = |guard: &semel_sqlite::transact::Guard<'_>| {
    ///     guard.execute("INSERT INTO payment VALUES (10)", [])?;
    ///     Ok::<_, rusqlite::Error>((Outcome::new(201, "paid"), guard.last_insert_rowid()))
    /// };
    /// assert!(matches!(store.transact().run(&mut conn, &call, pay)?, Ran::Done(1)));
    /// assert!(matches!(store.transact().run(&mut conn, &call, pay)?, Ran::Replay(_)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails with the error of `work`, with everything rolled back; or with the store's. An error of
    /// kind `Unavailable` says that the commit failed and may or may not be there: call again with the
    /// same intent.
    pub fn run<T, E>(
        &self,
        conn: &mut Connection,
        call: &Call,
        mut work: impl FnMut(&Guard<'_>) -> Result<(Outcome, T), E>,
    ) -> Result<Ran<T>, RunError<E>> {
        let token = self.token();
        let mut attempt = 1;
        loop {
            if let Some(ran) = self.look(conn, call, token)? {
                return Ok(ran);
            }
            let tx = match conn.transaction_with_behavior(TransactionBehavior::Immediate) {
                Err(error) if is_busy(&error) && attempt < ATTEMPTS_MAX => {
                    attempt += 1;
                    continue;
                }
                tx => tx.map_err(driver)?,
            };
            let guard = match self.claim_as(tx, call, token)? {
                Atomic::Run(guard) => guard,
                Atomic::Replay(_, record) => return Ok(Ran::Replay(record)),
                Atomic::Refused(tx, refusal) => {
                    // A lost holder may have been written down as unknown.
                    tx.commit().map_err(commit)?;
                    return Ok(Ran::Refused(refusal));
                }
            };
            let (outcome, value) = work(&guard).map_err(RunError::Work)?;
            match guard.complete(outcome)?.commit() {
                Err(error) if is_busy(&error) && attempt < ATTEMPTS_MAX => attempt += 1,
                committed => {
                    return committed.map(|()| Ran::Done(value)).map_err(|e| commit(e).into());
                }
            }
        }
    }

    /// Answers by the committed record alone, without the write lock, if that is enough.
    fn look<T>(
        &self,
        conn: &Connection,
        call: &Call,
        token: Token,
    ) -> Result<Option<Ran<T>>, StoreError> {
        let seen = reader::one(conn, &self.time, &call.id)?;
        let answered = verb::answered(&call.ask(token), seen, self.time.now());
        Ok(answered.and_then(|claimed| match claimed.answer {
            semel::store::ClaimAnswer::Replay(record) => Some(Ran::Replay(record)),
            // With older plans to compare by, only the claim itself can say.
            semel::store::ClaimAnswer::Refused(Refusal::Incomparable { .. }) => None,
            semel::store::ClaimAnswer::Refused(refusal) => Some(Ran::Refused(refusal)),
            _ => None,
        }))
    }
}
