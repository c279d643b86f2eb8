//! The short form: begin, receive, do the effect, commit; and again while the file is held.

use std::error::Error as StdError;

use bytes::Bytes;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use semel::{
    StoreError,
    inbox::{
        Delivery, Failed, Handled,
        receive::{Ran, Verdict},
    },
};

use super::{Batch, Handling, Inbox, Receive, ReceiveAll, RunError};
use crate::{
    error::{commit, driver, is_busy},
    transact::ATTEMPTS_MAX,
};

/// What the file could not do is no fault of the message, unless it refused a value.
impl<E: StdError + Send + Sync + 'static> From<RunError<E>> for Failed {
    fn from(error: RunError<E>) -> Self {
        match error {
            RunError::Store(error) => error.into(),
            RunError::Work(error) => Self::Message(error.into()),
        }
    }
}

/// What one transaction came to.
enum Once<T> {
    /// The file was held by another.
    Busy(StoreError),
    Ended(T),
}

impl Inbox {
    /// Runs `work` in a transaction of its own, unless the consumer had the message before, and commits
    /// it with the fact that it had it. While another connection holds the file's lock it begins anew, a
    /// bounded number of times. `work` returns what a copy is answered with, if anything, and a value.
    ///
    /// `work` may run more than once, each time after all that it did was rolled back: it must call
    /// nothing outside.
    ///
    /// # Errors
    ///
    /// Fails with the error of `work`, with everything rolled back; or with the store's. An error of kind
    /// `Unavailable` says that the commit may or may not be there: the next copy finds out.
    pub fn run<T, E>(
        &self,
        conn: &mut Connection,
        delivery: &Delivery,
        mut work: impl FnMut(&Handling<'_>) -> Result<(Option<Bytes>, T), E>,
    ) -> Result<Ran<T>, RunError<E>> {
        repeat(conn, |tx| {
            let handling = match self.receive(tx, delivery)? {
                Receive::First(handling) => handling,
                Receive::Duplicate(_, recorded) => {
                    return Ok(Once::Ended(Ran::Duplicate(recorded)));
                }
                Receive::Mismatch(_, recorded) => return Ok(Once::Ended(Ran::Mismatch(recorded))),
            };
            let (answer, value) = work(&handling).map_err(RunError::Work)?;
            let (tx, recorded) = handling.end(answer)?;
            Ok(committed(tx, Ran::First(value, recorded))?)
        })
    }

    /// Runs `work` in a transaction of its own for all messages of a batch that are new, and commits
    /// their effects with the fact that the consumer had them; returns what became of each message, in
    /// the order given. `work` is not called if none is new. If it fails, everything is rolled back: run
    /// the messages one by one then.
    ///
    /// # Errors
    ///
    /// As [`Inbox::run`].
    pub fn run_all<E>(
        &self,
        conn: &mut Connection,
        deliveries: &[Delivery],
        mut work: impl FnMut(&Batch<'_>) -> Result<(), E>,
    ) -> Result<Vec<Handled>, RunError<E>> {
        repeat(conn, |tx| {
            let batch = match self.receive_all(tx, deliveries)? {
                ReceiveAll::Some(batch) => batch,
                ReceiveAll::None(_, verdicts) => {
                    return Ok(Once::Ended(verdicts.into_iter().map(Verdict::handled).collect()));
                }
            };
            work(&batch).map_err(RunError::Work)?;
            let (tx, handled) = batch.end()?;
            Ok(committed(tx, handled)?)
        })
    }
}

fn committed<T>(tx: Transaction<'_>, value: T) -> Result<Once<T>, StoreError> {
    match tx.commit() {
        Ok(()) => Ok(Once::Ended(value)),
        Err(error) if is_busy(&error) => Ok(Once::Busy(driver(error))),
        Err(error) => Err(commit(error)),
    }
}

/// Begins one transaction after the other while the file is held, a bounded number of times.
fn repeat<T, E>(
    conn: &mut Connection,
    mut once: impl FnMut(Transaction<'_>) -> Result<Once<T>, RunError<E>>,
) -> Result<T, RunError<E>> {
    let mut attempt = 1;
    loop {
        let busy = match conn.transaction_with_behavior(TransactionBehavior::Immediate) {
            Ok(tx) => match once(tx)? {
                Once::Ended(value) => return Ok(value),
                Once::Busy(error) => error,
            },
            Err(error) if is_busy(&error) => driver(error),
            Err(error) => return Err(driver(error).into()),
        };
        if attempt >= ATTEMPTS_MAX {
            return Err(busy.into());
        }
        attempt += 1;
    }
}
