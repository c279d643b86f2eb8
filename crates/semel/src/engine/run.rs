//! The typed form, for plain functions.

use std::fmt;

use bytes::Bytes;
use thiserror::Error as ThisError;

use super::{Begun, Call, Engine, Holder, holder::Ended};
use crate::{
    decide::Refusal,
    error::Error,
    outcome::{Body, Outcome},
    record::{Record, State},
};

/// A value that can be kept as an outcome. Unit, `None`, zero and empty are values too.
pub trait Kept: Sized {
    /// Returns the bytes to keep.
    fn to_kept(&self) -> Vec<u8>;

    /// Reads what was kept; `None` if the bytes are not of this type.
    fn from_kept(bytes: &[u8]) -> Option<Self>;
}

impl Kept for () {
    fn to_kept(&self) -> Vec<u8> {
        Vec::new()
    }

    fn from_kept(bytes: &[u8]) -> Option<Self> {
        bytes.is_empty().then_some(())
    }
}

impl Kept for String {
    fn to_kept(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }

    fn from_kept(bytes: &[u8]) -> Option<Self> {
        Self::from_utf8(bytes.to_vec()).ok()
    }
}

impl Kept for Vec<u8> {
    fn to_kept(&self) -> Vec<u8> {
        self.clone()
    }

    fn from_kept(bytes: &[u8]) -> Option<Self> {
        Some(bytes.to_vec())
    }
}

impl Kept for Bytes {
    fn to_kept(&self) -> Vec<u8> {
        self.to_vec()
    }

    fn from_kept(bytes: &[u8]) -> Option<Self> {
        Some(Self::copy_from_slice(bytes))
    }
}

macro_rules! as_text {
    ($($type:ty),*) => {$(
        impl Kept for $type {
            fn to_kept(&self) -> Vec<u8> {
                self.to_string().into_bytes()
            }

            fn from_kept(bytes: &[u8]) -> Option<Self> {
                std::str::from_utf8(bytes).ok()?.parse().ok()
            }
        }
    )*};
}

as_text!(bool, char, i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize);

impl<T: Kept> Kept for Option<T> {
    fn to_kept(&self) -> Vec<u8> {
        match self {
            None => vec![0],
            Some(value) => [&[1], value.to_kept().as_slice()].concat(),
        }
    }

    fn from_kept(bytes: &[u8]) -> Option<Self> {
        match bytes.split_first()? {
            (0, []) => Some(None),
            (1, rest) => T::from_kept(rest).map(Some),
            _ => None,
        }
    }
}

/// How work failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fail<E> {
    /// For good: the failure is kept, and a repeat gets it again.
    Final(E),
    /// Nobody can tell whether the effect happened; the operation's `on_lost` decides.
    MayHaveActed(E),
    /// Without any effect: a repeat runs again.
    NoEffect(E),
}

/// What a run returns.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ran<T> {
    /// What the work returned, now or the first time.
    pub value: T,
    /// Whether it was the first time.
    pub replayed: bool,
}

/// Why a run returns no value.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum RunError<E> {
    /// The engine could not ask or store.
    #[error(transparent)]
    Engine(#[from] Error),
    /// The work failed, now or (for [`Fail::Final`]) the first time.
    #[error("the work failed")]
    Failed {
        /// How it failed.
        fail: Fail<E>,
        /// Whether it failed the first time and is replayed.
        replayed: bool,
    },
    /// Neither run nor replay.
    #[error("refused: {}", .0.code())]
    Refused(Refusal),
    /// What was kept is not a value of this type.
    #[error("the kept outcome is of another type, or was not kept")]
    Type,
}

impl Engine {
    /// Runs `work` once for the intent of `call`; a repeat gets what the first run returned.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// use semel::{
    ///     Call, Engine, Fail, Fingerprint, Key, Operation, Policy, Scope, Tenant,
    ///     store::memory::MemoryStore,
    /// };
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let engine = Engine::builder(Arc::new(MemoryStore::new())).build();
    /// let scope = Scope::new(Tenant::new("acme")?, Operation::new("mail.send")?);
    /// let policy = Arc::new(Policy { durable: false, ..Policy::default() });
    /// let call = Call::new(scope.intent(Key::new("order-7")?), Fingerprint::of_bytes(b"to: ada"), policy);
    ///
    /// let first = engine.run(call.clone(), async |_| Ok::<_, Fail<()>>(42_u64)).await?;
    /// let again = engine.run(call, async |_| Err::<u64, Fail<()>>(Fail::Final(()))).await?;
    /// assert_eq!((first.value, first.replayed), (42, false));
    /// assert_eq!((again.value, again.replayed), (42, true));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the intent is refused, the work fails, or the store cannot be asked.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped while the work runs, nobody can tell whether the effect happened, and
    /// the operation's `on_lost` decides. Spawn it where the caller may go away.
    pub async fn run<T, E, F>(&self, call: Call, work: F) -> Result<Ran<T>, RunError<E>>
    where
        T: Kept,
        E: Kept,
        F: AsyncFnOnce(&Holder) -> Result<T, Fail<E>>,
    {
        let holder = match self.begin(call).await? {
            Begun::Refused(refusal) => return Err(RunError::Refused(refusal)),
            Begun::Replay(record) => return replayed(&record),
            Begun::Run(holder) => holder,
        };
        holder.start().await?;
        let worked = work(&holder).await;
        let fail = match worked {
            Ok(value) => {
                let ended = holder.complete(Outcome::new(0, value.to_kept())).await?;
                return match ended {
                    Ended::Stored => Ok(Ran { value, replayed: false }),
                    Ended::Before(record) => replayed(&record),
                };
            }
            Err(fail) => fail,
        };
        match &fail {
            Fail::Final(error) => {
                holder.fail(Outcome::new(0, error.to_kept())).await?;
            }
            Fail::MayHaveActed(_) => holder.may_have_acted("work-failed").await?,
            Fail::NoEffect(_) => holder.release("no-effect").await?,
        }
        Err(RunError::Failed { fail, replayed: false })
    }
}

fn replayed<T: Kept, E: Kept>(record: &Record) -> Result<Ran<T>, RunError<E>> {
    let Some(Outcome { body: Body::Kept(bytes), .. }) = &record.outcome else {
        return Err(RunError::Type);
    };
    if record.state == State::Failed {
        let error = E::from_kept(bytes).ok_or(RunError::Type)?;
        return Err(RunError::Failed { fail: Fail::Final(error), replayed: true });
    }
    let value = T::from_kept(bytes).ok_or(RunError::Type)?;
    Ok(Ran { value, replayed: true })
}

impl<T: fmt::Display> fmt::Display for Ran<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}
