//! The short form: begin, claim, mutate, complete, commit; and again after a lost race.

use std::{error::Error as StdError, future::Future, time::Duration};

use semel::{Call, Record, Refusal, StoreError, Token};
use thiserror::Error;

use super::{
    Atomic, Guard, Lent, Started, Transact, Worked,
    claim::Asked,
    source::{Opened, Source},
    started::Home,
    tx::Tx,
};
use crate::error::{Fault, says_undone};

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
    /// The server could not be asked, or the commit failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The work failed, and everything was rolled back.
    #[error("the work inside the transaction failed")]
    Work(#[source] E),
}

impl<E> From<Fault> for RunError<E> {
    fn from(fault: Fault) -> Self {
        Self::Store(fault.into())
    }
}

/// The isolation of a transaction.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Isolation {
    /// What the session says: `default_transaction_isolation`.
    #[default]
    Default,
    /// Each statement sees what is committed when it begins.
    ReadCommitted,
    /// All statements see what was committed when the first began.
    RepeatableRead,
    /// As if one transaction ran after the other.
    Serializable,
}

impl Isolation {
    pub(super) const fn begin(self) -> &'static str {
        match self {
            Self::Default => "BEGIN",
            Self::ReadCommitted => "BEGIN ISOLATION LEVEL READ COMMITTED",
            Self::RepeatableRead => "BEGIN ISOLATION LEVEL REPEATABLE READ",
            Self::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE",
        }
    }
}

/// How one transaction of a run ended.
pub(super) enum Once<T, E> {
    Ran(Ran<T>),
    /// Another transaction won; all of this one is undone.
    Again(RunError<E>),
    /// The answer to the commit was lost: it may be there.
    Lost(T, StoreError),
}

impl Transact {
    /// Runs `work` in a transaction of its own, unless the intent was done before, and commits it
    /// together with the outcome that `work` gives back by [`Guard::done`](Guard::done). `BEGIN` and the claim are
    /// one round trip, the completion and `COMMIT` another. After a lost race it decides anew in a new
    /// transaction, a bounded number of times. While another holder works on it, it says so at once;
    /// [`Transact::run_on`] waits.
    ///
    /// `client` is a `&mut Client`, with [`Prepared`](super::Prepared) statements beside it if there are
    /// any, or whatever else is [`Lent`]. It must be in no transaction that was begun by text: the server
    /// would go on in that one, and its commit be this run's.
    ///
    /// `work` may run more than once, each time after all that it did was rolled back: it must call
    /// nothing outside. A lost race of its own statements is known by the causes of its error.
    ///
    /// # Errors
    ///
    /// Fails with the error of `work`, with everything rolled back; or with the store's. An error of
    /// kind `Unavailable` says that the commit may or may not be there: call again with the same
    /// intent.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the transaction is rolled back, unless its commit was sent: call again
    /// with the same intent. The client can be used on.
    pub async fn run<L, T, E, W>(
        &self,
        client: L,
        call: &Call,
        mut work: impl FnMut(Guard<Started<L>>) -> W,
    ) -> Result<Ran<T>, RunError<E>>
    where
        L: Lent,
        E: StdError + 'static,
        W: Future<Output = Result<Worked<Started<L>, T>, E>>,
    {
        self.repeat(&Home::new(client), call, &mut work).await
    }

    /// Runs one transaction after the other, until one tells what became of the intent.
    pub(super) async fn repeat<S, T, E, W>(
        &self,
        source: &S,
        call: &Call,
        work: &mut impl FnMut(Guard<S::Tx>) -> W,
    ) -> Result<Ran<T>, RunError<E>>
    where
        S: Source,
        E: StdError + 'static,
        W: Future<Output = Result<Worked<S::Tx, T>, E>>,
    {
        let token = self.token();
        let mut lost = None;
        for attempt in 1.. {
            let again = match self.once(source, call, token, work).await {
                Ok(Once::Ran(Ran::Replay(record))) if record.token == token => {
                    // The commit whose answer was lost is there.
                    return Ok(lost.map_or(Ran::Replay(record), |(value, _)| Ran::Done(value)));
                }
                Ok(Once::Ran(ran)) => return Ok(ran),
                Ok(Once::Again(error)) => Some(error),
                Ok(Once::Lost(value, doubt)) => {
                    lost = Some((value, doubt));
                    None
                }
                // It says nothing of the commit whose answer was lost.
                Err(RunError::Store(_)) if lost.is_some() => None,
                Err(error) => return Err(error),
            };
            if attempt >= self.inner.attempts_max || (lost.is_some() && !S::RENEWS) {
                let doubt = lost.map(|(_, doubt)| doubt.into());
                return Err(doubt.or(again).expect("there is a doubt, or another one won"));
            }
            self.pause(attempt).await;
        }
        unreachable!("the attempts are bounded")
    }

    /// Runs one transaction.
    async fn once<S, T, E, W>(
        &self,
        source: &S,
        call: &Call,
        token: Token,
        work: &mut impl FnMut(Guard<S::Tx>) -> W,
    ) -> Result<Once<T, E>, RunError<E>>
    where
        S: Source,
        E: StdError + 'static,
        W: Future<Output = Result<Worked<S::Tx, T>, E>>,
    {
        let asked = Asked::new(self, call, token)?;
        let Opened { tx, answer, prepared } = source.open(self, &asked).await?;
        let guard = match self.met(tx, asked, answer, prepared.as_ref()).await {
            Ok(Atomic::Run(guard)) => guard,
            Ok(Atomic::Replay(mut tx, record)) => {
                if record.token == token {
                    self.confirm(&mut tx).await?;
                }
                S::leave(tx).await?;
                return Ok(Once::Ran(Ran::Replay(record)));
            }
            Ok(Atomic::Refused(tx, refusal)) => {
                // A lost holder may have been written down as unknown.
                S::leave(tx).await?;
                return Ok(Once::Ran(Ran::Refused(refusal)));
            }
            Ok(Atomic::Retry(error)) => return Ok(Once::Again(error.into())),
            Err(fault) if fault.undone() => return Ok(Once::Again(fault.into())),
            Err(fault) => return Err(fault.into()),
        };
        match work(guard).await {
            Ok(worked) => {
                let (mut ending, value) = worked.ending()?;
                let wake = ending.wake.take();
                let publishes = !ending.append.is_empty();
                let judged = judge(S::commit(ending).await, value);
                if publishes && !matches!(judged, Ok(Once::Again(_)) | Err(_)) {
                    self.inner.hints.committed();
                }
                if let (Ok(Once::Ran(Ran::Done(_))), Some(wake)) = (&judged, wake) {
                    wake.all();
                }
                judged
            }
            Err(error) if says_undone(&error) => Ok(Once::Again(RunError::Work(error))),
            Err(error) => Err(RunError::Work(error)),
        }
    }

    /// Has the end of a transaction wait for the standbys as if it wrote: if a session is ended while its
    /// commit waits for them, all see what they may never get.
    async fn confirm<T: Tx>(&self, tx: &mut T) -> Result<(), Fault> {
        tx.ask((*self.inner.statements.transact_confirm).into(), &[]).await.map(drop)
    }

    /// Waits a random while, longer with each attempt, so that those who met do not meet again.
    pub(crate) async fn pause(&self, attempt: u32) {
        let longest = FIRST_PAUSE_MS.saturating_mul(1 << attempt.min(6));
        let drawn = u64::from_be_bytes(first_eight(self.inner.entropy.bytes()));
        let pause = Duration::from_micros(drawn % (longest * 1_000));
        self.inner.clock.sleep_until(self.inner.clock.monotonic().after(pause)).await;
    }
}

/// Judges how the completion and the commit went.
fn judge<T, E>(
    (written, committed): (Result<(), Fault>, Result<(), Fault>),
    value: T,
) -> Result<Once<T, E>, RunError<E>> {
    match (written, committed) {
        (Ok(()), Ok(())) => Ok(Once::Ran(Ran::Done(value))),
        (Err(fault), _) if fault.lost_race() => Ok(Once::Again(fault.into())),
        (Ok(()), Err(fault)) if fault.undone() => Ok(Once::Again(fault.into())),
        // Without a word of the server's the commit may be there, even if the statement before it was
        // not answered.
        (Err(fault), _) | (Ok(()), Err(fault)) if fault.ends_connection() => {
            Ok(Once::Lost(value, fault.into()))
        }
        (Err(fault), _) | (Ok(()), Err(fault)) => Err(fault.into()),
    }
}

const FIRST_PAUSE_MS: u64 = 4;

fn first_eight(bytes: [u8; 16]) -> [u8; 8] {
    let mut first = [0; 8];
    first.copy_from_slice(&bytes[..8]);
    first
}
