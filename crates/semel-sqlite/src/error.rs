//! What the driver says, turned into what the caller does next. The only match on driver codes.

use std::{io, path::Path};

use rusqlite::{Error, ErrorCode, ffi};
use semel::{StoreError, StoreErrorKind as Kind, codec::CodecError, store::moving::Closed};
use thiserror::Error as ThisError;

/// What a step met.
#[derive(Debug, ThisError)]
pub(crate) enum Fault {
    /// The driver failed.
    #[error(transparent)]
    Driver(#[from] Error),
    /// A kept outcome cannot be read.
    #[error(transparent)]
    Outcome(#[from] CodecError),
    /// Anything that is already said in full.
    #[error(transparent)]
    Said(#[from] StoreError),
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Driver(error) => driver(error),
            Fault::Outcome(error) => outcome(error),
            Fault::Said(error) => error,
        }
    }
}

/// Says what the caller does about an error of a statement: nothing of its transaction is written.
pub(crate) fn driver(error: Error) -> StoreError {
    if let Some(why) = closed(&error) {
        return why.refusal().with_source(error);
    }
    let (kind, message) = told(&error);
    StoreError::new(kind, message).with_source(error)
}

/// Says why the store is closed, if its trigger said so.
fn closed(error: &Error) -> Option<Closed> {
    let Error::SqliteFailure(failure, Some(message)) = error else { return None };
    let is_trigger = failure.extended_code == ffi::SQLITE_CONSTRAINT_TRIGGER;
    match &**message {
        "semel: the store is closed (arriving)" if is_trigger => Some(Closed::Arriving),
        "semel: the store is closed (away)" if is_trigger => Some(Closed::Away),
        _ => None,
    }
}

fn told(error: &Error) -> (Kind, &'static str) {
    let Some(failure) = error.sqlite_error() else {
        return (Kind::Damaged, "a stored value is not what this version writes; restore a backup");
    };
    match failure.code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => (
            Kind::Busy,
            "the file is locked by another program or a long transaction; try again, or close it",
        ),
        ErrorCode::DiskFull => (
            Kind::Full,
            "the disk or the page bound of the file is full; make room or raise the bound",
        ),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => {
            (Kind::ReadOnly, "the file or its folder can only be read; grant this process to write")
        }
        ErrorCode::CannotOpen => (
            Kind::ReadOnly,
            "the file or its journal cannot be opened; check that it exists and may be written",
        ),
        ErrorCode::DatabaseCorrupt => {
            (Kind::Damaged, "the file is damaged; stop, keep a copy of it and restore a backup")
        }
        ErrorCode::NotADatabase => (
            Kind::Damaged,
            "the file is damaged or no SQLite file; name another or restore a backup",
        ),
        ErrorCode::TooBig => (Kind::Invalid, "a value is larger than SQLite keeps; send less"),
        ErrorCode::ConstraintViolation => {
            (Kind::Damaged, "a record breaks a rule of the schema; keep a copy of the file")
        }
        ErrorCode::SystemIoFailure => {
            (Kind::Unavailable, "the disk did not do what was asked; check it, then try again")
        }
        _ if failure.extended_code == ffi::SQLITE_ERROR => {
            (Kind::Version, "the file's schema is not this version's; migrate it or upgrade")
        }
        _ => (Kind::Unavailable, "sqlite did not do what was asked; try again"),
    }
}

/// Says what the caller does about a failed commit.
///
/// In general it is ambiguous: when the flush failed, the commit record may be on the disk and come
/// back after a power cut. A full disk is not: the commit record is the last thing that is written to
/// the log, so a write that found no room came before it was whole.
pub(crate) fn commit(error: Error) -> StoreError {
    match told(&error) {
        (Kind::Full, _) => driver(error),
        _ => StoreError::new(Kind::Unavailable, "the commit failed; ask again").with_source(error),
    }
}

/// Says why an event was not appended.
pub(crate) fn append(error: Error) -> StoreError {
    let unique = ffi::SQLITE_CONSTRAINT_UNIQUE;
    if error.sqlite_error().is_some_and(|failure| failure.extended_code == unique) {
        let message = "an event of this id was appended before; draw a new id for a new event";
        return StoreError::new(Kind::Invalid, message).with_source(error);
    }
    driver(error)
}

/// Says why a file cannot be opened as a store, in words about the path where that helps.
pub(crate) fn open(path: &Path, error: Error) -> StoreError {
    if path.is_dir() {
        let message = format!("{} is a folder; name a file in it", path.display());
        return StoreError::new(Kind::Invalid, message).with_source(error);
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.is_dir()) {
        let message = format!("the folder {} does not exist; make it first", parent.display());
        return StoreError::new(Kind::Invalid, message).with_source(error);
    }
    let (kind, message) = told(&error);
    StoreError::new(kind, format!("{}: {message}", path.display())).with_source(error)
}

/// Says that a path cannot be resolved.
pub(crate) fn path(path: &Path, error: io::Error) -> StoreError {
    let message = format!("{} cannot be resolved; check the path", path.display());
    StoreError::new(Kind::Invalid, message).with_source(error)
}

/// Says that the disk does not tell what stands at a path.
pub(crate) fn away(path: &Path, error: io::Error) -> StoreError {
    let message = format!("{} cannot be looked at; check its disk", path.display());
    StoreError::new(Kind::Unavailable, message).with_source(error)
}

fn outcome(error: CodecError) -> StoreError {
    let (kind, message) = match error {
        CodecError::Version(_) => (Kind::Version, "a kept outcome is newer than this version"),
        _ => (Kind::Damaged, "a kept outcome is damaged; restore a backup or resolve the intent"),
    };
    StoreError::new(kind, message).with_source(error)
}

/// Says that nothing was written, since a bound is broken.
pub(crate) fn invalid(message: impl Into<Box<str>>) -> StoreError {
    StoreError::new(Kind::Invalid, message)
}

/// Says that the bounded file takes no new intents.
pub(crate) fn full() -> StoreError {
    let message = "the file has as many pages as it may; sweep it, or raise the page bound";
    StoreError::new(Kind::Full, message)
}

/// Says that stored bytes are not what any version writes.
pub(crate) fn damaged(message: impl Into<Box<str>>) -> StoreError {
    StoreError::new(Kind::Damaged, message)
}

/// Says that the queue before a thread of this store is full.
pub(crate) fn queue_full() -> StoreError {
    StoreError::new(Kind::Busy, "too much work waits for the store; try again, or ask for less")
}

/// Says that the store was closed, or the thread that worked on it gave up.
pub(crate) fn gone() -> StoreError {
    StoreError::new(
        Kind::Unavailable,
        "the store was closed before it answered; ask again by token",
    )
}

/// Says that a step panicked.
pub(crate) fn panicked() -> StoreError {
    StoreError::new(Kind::Unavailable, "a step of the store panicked; report it and ask again")
}

/// Says the same to one more caller of a group.
pub(crate) fn again(error: &StoreError) -> StoreError {
    let again = StoreError::new(error.kind(), error.to_string());
    match std::error::Error::source(error) {
        Some(source) => again.with_source(source.to_string()),
        None => again,
    }
}

/// Says whether somebody else held the lock, so that a new transaction may succeed.
pub(crate) fn is_busy(error: &Error) -> bool {
    told(error).0 == Kind::Busy
}
