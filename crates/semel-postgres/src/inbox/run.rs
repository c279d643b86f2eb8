//! The short form: begin, receive, do the effect, commit; and again after a lost race.

use std::{error::Error as StdError, future::Future};

use semel::{
    StoreError, StoreErrorKind,
    inbox::{
        Delivery, Failed, Handled, Recorded,
        receive::{Ran, Verdict},
    },
};

use super::{
    Batch, Finished, FinishedAll, Handling, Inbox,
    batch::Told as ToldAll,
    form::{Form, Met},
    guard::Ending,
    receive::{Asked, Told},
};
use crate::{
    error::{Fault, says_undone},
    outbox::Append,
    transact::{
        Lent, Pool, RunError, Started,
        source::{Opened, Source},
        started::Home,
    },
};

/// What the database could not do is no fault of the message, unless it refused a value.
impl<E: StdError + Send + Sync + 'static> From<RunError<E>> for Failed {
    fn from(error: RunError<E>) -> Self {
        match error {
            RunError::Store(error) => error.into(),
            RunError::Work(error) if says_undone(&error) => Self::Away(error.into()),
            RunError::Work(error) => Self::Message(error.into()),
        }
    }
}

impl Inbox {
    /// Runs `work` in a transaction of its own, unless the consumer had the message before, and commits
    /// it with the fact that it had it. `BEGIN` and the receipt are one round trip, `COMMIT` and what is
    /// recorded another. After a lost race it receives anew in a new transaction, a bounded number of
    /// times.
    ///
    /// `client` is as in [`Transact::run`](crate::transact::Transact::run). `work` may run more than
    /// once, each time after all that it did was rolled back: it must call nothing outside.
    ///
    /// # Errors
    ///
    /// Fails with the error of `work`, with everything rolled back; or with the store's. An error of
    /// kind `Unavailable` says that the commit may or may not be there: the next copy finds out.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the transaction is rolled back, unless its commit was sent: the next copy
    /// finds out. The client can be used on.
    pub async fn run<L, V, E, W>(
        &self,
        client: L,
        delivery: &Delivery,
        work: impl FnMut(Handling<Started<L>>) -> W,
    ) -> Result<Ran<V>, RunError<E>>
    where
        L: Lent,
        E: StdError + 'static,
        W: Future<Output = Result<Finished<Started<L>, V>, E>>,
    {
        self.repeat(&Home::new(client), delivery, work).await
    }

    /// Runs `work` as [`Inbox::run`] does, on connections of a pool: an `sqlx::PgPool`, or whatever can
    /// [`Lend`](crate::transact::Lend). If the answer to a commit was lost, it finds out on another
    /// connection what became of it.
    ///
    /// # Errors
    ///
    /// As [`Inbox::run`].
    ///
    /// # Cancel safety
    ///
    /// As [`Inbox::run`].
    #[expect(private_bounds, reason = "sealed: what a pool is asked is this crate's own affair")]
    pub async fn run_on<P, V, E, W>(
        &self,
        pool: &P,
        delivery: &Delivery,
        work: impl FnMut(Handling<P::Tx>) -> W,
    ) -> Result<Ran<V>, RunError<E>>
    where
        P: Pool + Source,
        E: StdError + 'static,
        W: Future<Output = Result<Finished<P::Tx, V>, E>>,
    {
        self.repeat(pool, delivery, work).await
    }

    /// Runs `work` in a transaction of its own for all messages of a batch that are new, in the order
    /// given, and commits their effects with the fact that the consumer had them; returns what became of
    /// each message, in the order given. `work` is not called if none is new. If it fails, everything is
    /// rolled back: run the messages one by one then.
    ///
    /// # Errors
    ///
    /// As [`Inbox::run`].
    ///
    /// # Cancel safety
    ///
    /// As [`Inbox::run`].
    #[expect(private_bounds, reason = "sealed: what a pool is asked is this crate's own affair")]
    pub async fn run_all_on<P, E, W>(
        &self,
        pool: &P,
        deliveries: &[Delivery],
        mut work: impl FnMut(Batch<P::Tx>) -> W,
    ) -> Result<Vec<Handled>, RunError<E>>
    where
        P: Pool + Source,
        E: StdError + 'static,
        W: Future<Output = Result<FinishedAll<P::Tx>, E>>,
    {
        let mut doubt: Option<StoreError> = None;
        for attempt in 1.. {
            let asked = self.asked_all(deliveries)?;
            let again = match self.begin(pool, asked).await {
                Ok(Met::Told(tx, ToldAll(verdicts))) => {
                    P::leave(tx).await?;
                    return Ok(verdicts.into_iter().map(Verdict::handled).collect());
                }
                Ok(Met::Run(batch)) => match work(batch).await {
                    Ok(finished) => {
                        let (tx, last) = finished.parts();
                        let columns = last.append.columns();
                        let made = columns.made();
                        let ended = P::end(tx, &last.statements(&columns, &made)).await;
                        match self.heard(&last.append, judge(ended)?) {
                            Ended::Committed => return Ok(last.handled),
                            Ended::Again(error) => error.into(),
                            Ended::Lost(error) => {
                                let again = RunError::Store(error);
                                doubt.get_or_insert_with(lost);
                                again
                            }
                        }
                    }
                    Err(error) if says_undone(&error) => RunError::Work(error),
                    Err(error) => return Err(RunError::Work(error)),
                },
                Ok(Met::Retry(error)) => error.into(),
                Err(fault) if fault.lost_race() || doubt.is_some() => fault.into(),
                Err(fault) => return Err(fault.into()),
            };
            if attempt >= self.transact.inner.attempts_max || (doubt.is_some() && !P::RENEWS) {
                return Err(doubt.map_or(again, RunError::Store));
            }
            self.transact.pause(attempt).await;
        }
        unreachable!("the attempts are bounded")
    }

    /// Begins a transaction and receives in it.
    async fn begin<S, F>(
        &self,
        source: &S,
        asked: F,
    ) -> Result<Met<S::Tx, F::Guard, F::Told>, Fault>
    where
        S: Source,
        F: Form<S::Tx>,
    {
        let Opened { tx, answer, .. } = source.open(&self.transact, &asked).await?;
        asked.met(self, tx, answer).await
    }

    /// Runs one transaction after the other, until one tells what became of the message.
    async fn repeat<S, V, E, W>(
        &self,
        source: &S,
        delivery: &Delivery,
        mut work: impl FnMut(Handling<S::Tx>) -> W,
    ) -> Result<Ran<V>, RunError<E>>
    where
        S: Source,
        E: StdError + 'static,
        W: Future<Output = Result<Finished<S::Tx, V>, E>>,
    {
        let mut lost: Option<(V, Recorded, StoreError)> = None;
        for attempt in 1.. {
            let asked = self.asked(delivery)?;
            let again = match self.once(source, asked, &mut work).await {
                Ok(Once::Ran(Ran::Duplicate(Some(recorded)))) => {
                    return Ok(match lost {
                        // The commit whose answer was lost is there.
                        Some((value, ours, _)) if ours == recorded => Ran::First(value, ours),
                        _ => Ran::Duplicate(Some(recorded)),
                    });
                }
                Ok(Once::Ran(ran)) => return Ok(ran),
                Ok(Once::Again(error)) => error,
                Ok(Once::Lost(value, recorded, error)) => {
                    lost = Some((value, recorded, error));
                    RunError::Store(self::lost())
                }
                // It says nothing of the commit whose answer was lost.
                Err(error @ RunError::Store(_)) if lost.is_some() => error,
                Err(error) => return Err(error),
            };
            if attempt >= self.transact.inner.attempts_max || (lost.is_some() && !S::RENEWS) {
                return Err(lost.map_or(again, |(_, _, error)| RunError::Store(error)));
            }
            self.transact.pause(attempt).await;
        }
        unreachable!("the attempts are bounded")
    }

    /// Runs one transaction.
    async fn once<S, V, E, W>(
        &self,
        source: &S,
        asked: Asked,
        work: &mut impl FnMut(Handling<S::Tx>) -> W,
    ) -> Result<Once<V, E>, RunError<E>>
    where
        S: Source,
        E: StdError + 'static,
        W: Future<Output = Result<Finished<S::Tx, V>, E>>,
    {
        let guard = match self.begin(source, asked).await {
            Ok(Met::Run(guard)) => guard,
            Ok(Met::Told(tx, told)) => {
                S::leave(tx).await?;
                return Ok(Once::Ran(match told {
                    Told::Duplicate(recorded) => Ran::Duplicate(recorded),
                    Told::Mismatch(recorded) => Ran::Mismatch(recorded),
                }));
            }
            Ok(Met::Retry(error)) => return Ok(Once::Again(error.into())),
            Err(fault) if fault.lost_race() => return Ok(Once::Again(fault.into())),
            Err(fault) => return Err(fault.into()),
        };
        match work(guard).await {
            Ok(finished) => {
                let Ending { tx, last, value } = finished.ending()?;
                let columns = last.append.columns();
                let made = columns.made();
                let ended = S::end(tx, &last.statements(&columns, &made)).await;
                Ok(match self.heard(&last.append, judge(ended)?) {
                    Ended::Committed => Once::Ran(Ran::First(value, last.recorded)),
                    Ended::Again(error) => Once::Again(error.into()),
                    Ended::Lost(error) => Once::Lost(value, last.recorded, error),
                })
            }
            Err(error) if says_undone(&error) => Ok(Once::Again(RunError::Work(error))),
            Err(error) => Err(RunError::Work(error)),
        }
    }
}

impl Inbox {
    /// Hints at events that are committed, or may be.
    fn heard(&self, append: &Append, ended: Ended) -> Ended {
        if !append.is_empty() && !matches!(ended, Ended::Again(_)) {
            self.transact.inner.hints.committed();
        }
        ended
    }
}

/// How one transaction of a run ended.
enum Once<V, E> {
    /// Another transaction won; all of this one is undone.
    Again(RunError<E>),
    /// The answer to the commit was lost: it may be there.
    Lost(V, Recorded, StoreError),
    Ran(Ran<V>),
}

/// How the end of a transaction went.
enum Ended {
    Again(StoreError),
    Committed,
    Lost(StoreError),
}

fn judge(
    (written, committed): (Result<(), Fault>, Result<(), Fault>),
) -> Result<Ended, StoreError> {
    match (written, committed) {
        (Ok(()), Ok(())) => Ok(Ended::Committed),
        (Err(fault), _) | (Ok(()), Err(fault)) if fault.undone() => Ok(Ended::Again(fault.into())),
        // Without a word of the server's the commit may be there.
        (Err(fault), _) | (Ok(()), Err(fault)) if fault.ends_connection() => {
            Ok(Ended::Lost(fault.into()))
        }
        (Err(fault), _) | (Ok(()), Err(fault)) => Err(fault.into()),
    }
}

fn lost() -> StoreError {
    StoreError::new(
        StoreErrorKind::Unavailable,
        "the answer to a commit was lost; the next copy of the message finds out",
    )
}
