//! What can go wrong, named by what the caller does next.

use std::{error::Error as StdError, fmt};

use thiserror::Error as ThisError;

use crate::policy::PolicyError;

/// A boxed cause.
pub type Source = Box<dyn StdError + Send + Sync>;

/// What the caller of a store does next.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// Another writer holds the store; nothing was written; ask again soon.
    Busy,
    /// The stored bytes are damaged; nothing was written; an operator must act.
    Damaged,
    /// The disk or the configured bound is full; nothing was written; an operator must act.
    Full,
    /// The caller broke a bound; nothing was written; asking again changes nothing.
    Invalid,
    /// The store can only be read; nothing was written; an operator must act.
    ReadOnly,
    /// The store did not answer; the write may or may not be there; ask again by the same token.
    Unavailable,
    /// The store was made by another version; nothing was written; migrate or upgrade.
    Version,
}

impl StoreErrorKind {
    /// Returns the stable code of this kind.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Busy => "store-busy",
            Self::Damaged => "store-damaged",
            Self::Full => "store-full",
            Self::Invalid => "store-invalid",
            Self::ReadOnly => "store-read-only",
            Self::Unavailable => "store-unavailable",
            Self::Version => "store-version",
        }
    }

    /// Says whether asking again may succeed without anybody acting.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::Busy | Self::Unavailable)
    }

    /// Says whether it is certain that nothing was written.
    #[must_use]
    pub const fn is_definite(self) -> bool {
        !matches!(self, Self::Unavailable)
    }
}

/// A store could not do what was asked.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: Box<str>,
    source: Option<Source>,
}

impl StoreError {
    /// Makes an error of a kind and one lower-case sentence that says what to do.
    #[must_use]
    pub fn new(kind: StoreErrorKind, message: impl Into<Box<str>>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns the kind.
    #[must_use]
    pub const fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.kind.code()
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// What the engine could not do.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The engine was shut down; nothing ran.
    #[error("the engine is shut down")]
    Closed,
    /// The end of the run could not be stored within its bound; the outcome is unknown to the
    /// caller, who asks again with the same key.
    #[error("the end of the run could not be stored")]
    NotStored(#[source] StoreError),
    /// The policy of the call cannot be used with this engine's store; nothing ran.
    #[error("the policy cannot be used")]
    Policy(#[from] PolicyError),
    /// The permit has ended: somebody else was granted the intent, or it was resolved.
    #[error("the permit has ended")]
    Stale,
    /// The store could not be asked; nothing ran.
    #[error("the store could not be asked")]
    Store(#[from] StoreError),
}

impl Error {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::NotStored(_) => "not-stored",
            Self::Policy(error) => error.code(),
            Self::Stale => "stale-permit",
            Self::Store(error) => error.code(),
        }
    }

    /// Says whether asking again with the same key may succeed without anybody acting.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Closed | Self::NotStored(_) => true,
            Self::Policy(_) | Self::Stale => false,
            Self::Store(error) => error.kind.is_retryable(),
        }
    }
}
