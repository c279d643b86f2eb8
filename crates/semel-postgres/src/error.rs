//! What the drivers say, turned into what the caller does next. The only match on SQLSTATEs.

use std::{error::Error as StdError, fmt, sync::Arc};

use semel::{StoreError, StoreErrorKind as Kind, codec::CodecError, store::moving::Closed};
use thiserror::Error as ThisError;

/// What a statement met.
#[derive(Debug, ThisError)]
pub(crate) enum Fault {
    /// A kept outcome cannot be read.
    #[error(transparent)]
    Outcome(#[from] CodecError),
    /// The driver of Semel's own connections failed.
    #[error(transparent)]
    Postgres(#[from] tokio_postgres::Error),
    /// Anything that is already said in full.
    #[error(transparent)]
    Said(#[from] StoreError),
    /// The server did not answer in time.
    #[error("the server did not answer in time")]
    Silent,
    /// The driver of the caller's transaction failed.
    #[cfg(feature = "sqlx")]
    #[error(transparent)]
    Sqlx(#[from] sqlx::Error),
}

impl Fault {
    /// The server's own code for what happened, if the server said anything.
    pub(crate) fn sqlstate(&self) -> Option<String> {
        match self {
            Self::Postgres(error) => error.code().map(|code| code.code().to_owned()),
            #[cfg(feature = "sqlx")]
            Self::Sqlx(error) => {
                error.as_database_error().and_then(|error| error.code()).map(Into::into)
            }
            Self::Outcome(_) | Self::Said(_) | Self::Silent => None,
        }
    }

    /// Whether the server itself undid the transaction for another's sake: a new one may succeed.
    pub(crate) fn undone(&self) -> bool {
        matches!(self.sqlstate().as_deref(), Some("40001" | "40P01"))
    }

    /// Whether the connection ended, so that nobody can tell from here what became of a commit.
    pub(crate) fn ends_connection(&self) -> bool {
        match (self, self.sqlstate().as_deref()) {
            (Self::Outcome(_) | Self::Said(_), _) => false,
            (_, None) => true,
            (_, Some(code)) => code.starts_with("08") || code.starts_with("57P"),
        }
    }

    /// Whether another transaction won: this one did nothing, and a new one decides anew.
    pub(crate) fn lost_race(&self) -> bool {
        matches!(self.sqlstate().as_deref(), Some("40001" | "40P01" | "23505"))
    }

    /// Whether a lock was not free in time.
    pub(crate) fn found_locked(&self) -> bool {
        self.sqlstate().as_deref() == Some("55P03")
    }

    /// Whether there is no such thing as was named, such as a replication slot, or nothing more is to be
    /// had of it.
    pub(crate) fn found_gone(&self) -> bool {
        matches!(self.sqlstate().as_deref(), Some("42704" | "55000"))
    }

    /// Whether another session has what was asked for to itself.
    pub(crate) fn found_used(&self) -> bool {
        self.sqlstate().as_deref() == Some("55006")
    }

    /// Whether there is already what was to be made.
    pub(crate) fn found_made(&self) -> bool {
        self.sqlstate().as_deref() == Some("42710")
    }

    /// Whether nothing was written and doing it again may succeed: another transaction won, a lock was
    /// not free in time, the server became a standby, or it no longer knows what was prepared.
    pub(crate) fn is_undone(&self) -> bool {
        let other = ["55P03", "25006", "0A000", "26000"];
        self.lost_race() || self.sqlstate().is_some_and(|code| other.contains(&&*code))
    }

    /// Whether the connection is of no use any more.
    pub(crate) fn breaks(&self) -> bool {
        match (self, self.sqlstate()) {
            (Self::Outcome(_) | Self::Said(_), _) => false,
            (_, None) => true,
            (_, Some(code)) => {
                let codes = ["25006", "0A000", "26000"];
                codes.contains(&&*code) || code.starts_with("08") || code.starts_with("57P")
            }
        }
    }
}

/// Whether an error, or a cause of it, is a driver's word that the server undid the transaction for
/// another's sake.
pub(crate) fn says_undone(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let code = error.downcast_ref::<tokio_postgres::Error>().and_then(|error| error.code());
        if code.is_some_and(|code| matches!(code.code(), "40001" | "40P01")) {
            return true;
        }
        #[cfg(feature = "sqlx")]
        if let Some(code) = error
            .downcast_ref::<sqlx::Error>()
            .and_then(sqlx::Error::as_database_error)
            .and_then(|error| error.code())
            && matches!(&*code, "40001" | "40P01")
        {
            return true;
        }
        cause = error.source();
    }
    false
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        let sqlstate = fault.sqlstate();
        match fault {
            Fault::Outcome(error) => outcome(error),
            Fault::Said(error) => error,
            Fault::Silent => server(None, Fault::Silent),
            Fault::Postgres(error) => server(sqlstate.as_deref(), error),
            #[cfg(feature = "sqlx")]
            Fault::Sqlx(error) => server(sqlstate.as_deref(), error),
        }
    }
}

/// One failure that several callers are told of.
pub(crate) struct Shared {
    kind: Kind,
    message: Box<str>,
    error: Arc<StoreError>,
}

impl Shared {
    pub(crate) fn new(error: StoreError) -> Self {
        Self { kind: error.kind(), message: error.to_string().into(), error: Arc::new(error) }
    }

    /// Tells one caller.
    pub(crate) fn tell(&self) -> StoreError {
        let told = StoreError::new(self.kind, self.message.clone());
        match self.error.source() {
            Some(_) => told.with_source(Cause(Arc::clone(&self.error))),
            None => told,
        }
    }
}

/// The cause of a shared failure.
#[derive(Debug)]
struct Cause(Arc<StoreError>);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.source().map_or(Ok(()), |source| fmt::Display::fmt(source, f))
    }
}

impl StdError for Cause {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source().and_then(StdError::source)
    }
}

fn server(sqlstate: Option<&str>, error: impl StdError + Send + Sync + 'static) -> StoreError {
    match sqlstate {
        Some("SM012") => return Closed::Away.refusal().with_source(error),
        Some("SM013") => return Closed::Arriving.refusal().with_source(error),
        _ => {}
    }
    let (kind, message) = told(sqlstate);
    match sqlstate.filter(|_| message == COULD_NOT) {
        // A code says more than nothing, where there is no sentence for it.
        Some(code) => StoreError::new(kind, format!("{message} (SQLSTATE {code})")),
        None => StoreError::new(kind, message),
    }
    .with_source(error)
}

const COULD_NOT: &str = "the server could not do it; ask again";

/// Says what the caller does about a code of the server, as listed in appendix A of PostgreSQL's
/// manual.
fn told(sqlstate: Option<&str>) -> (Kind, &'static str) {
    let Some(code) = sqlstate else {
        return (Kind::Unavailable, "the server did not answer; ask again");
    };
    match code {
        "23505" | "40001" | "40P01" => {
            (Kind::Busy, "another transaction won; begin a new transaction and try again")
        }
        "55P03" => (Kind::Busy, "a lock was not free in time; try again"),
        "57014" => (Kind::Busy, "the statement was cancelled or took too long; try again"),
        "25006" => (Kind::ReadOnly, READ_ONLY),
        "42501" => (
            Kind::ReadOnly,
            "the role may not use Semel's schema; grant it what semel migrate --print-roles lists",
        ),
        "3F000" | "42P01" | "42703" | "42704" | "42883" => {
            (Kind::Version, "the schema lacks something; migrate it with semel migrate")
        }
        "25P02" => (
            Kind::Invalid,
            "a statement of the transaction failed and was not undone; nothing is committed",
        ),
        _ if code.starts_with("08") || code.starts_with("57P") => {
            (Kind::Unavailable, "the server ended the connection; ask again")
        }
        "53300" => (
            Kind::Unavailable,
            "the server has no connection left; make pools smaller, or ask again",
        ),
        "53100" => (Kind::Full, "the server's disk is full; make room"),
        "XX001" | "XX002" => (Kind::Damaged, "the server says that data is damaged; restore it"),
        "SM001" | "SM009" => (
            Kind::Invalid,
            "the permit has ended, so nothing is committed: somebody else decides about this intent",
        ),
        _ if code.starts_with("SM") => (Kind::Invalid, refused(code)),
        _ if code.starts_with("22") || code.starts_with("23") => {
            (Kind::Invalid, "the server refused a value")
        }
        _ => (Kind::Unavailable, COULD_NOT),
    }
}

/// Says what the functions of the schema mean by their own codes.
fn refused(code: &str) -> &'static str {
    match code {
        "SM002" => "the text is not a permit; pass it exactly as it was given",
        "SM003" => "the permit is for another tenant or operation than this code serves",
        "SM004" => {
            "the transaction claimed an intent and did not complete it; nothing is committed"
        }
        "SM005" => {
            "this is not the transaction that claimed, or the claim was undone; claim and complete in \
             one transaction, and end it by nothing else"
        }
        "SM006" => "the claim stands inside a savepoint; claim before the first one",
        "SM008" => "this transaction already holds the key; claim a key once",
        "SM009" => "another transaction has finished by this permit; roll back and claim again",
        "SM011" => {
            "the sequence semel.outbox_pos was changed or set back, and events may be passed over: it must \
             have CACHE 1 and INCREMENT 1; mend it, end the sessions that appended meanwhile, and replay \
             what they appended"
        }
        "SM010" => "the destination is led; stop its relay first",
        _ => "a value breaks a bound of Semel's schema",
    }
}

const READ_ONLY: &str =
    "the server can only be read; connect to the primary, or name all hosts in the URL";

/// The server is a standby, or its role may only read.
pub(crate) fn read_only() -> StoreError {
    StoreError::new(Kind::ReadOnly, READ_ONLY)
}

fn outcome(error: CodecError) -> StoreError {
    match error {
        CodecError::Version(_) => StoreError::new(
            Kind::Version,
            "a kept outcome was written by a newer version; upgrade semel",
        ),
        _ => damaged("a kept outcome is damaged; restore a backup"),
    }
    .with_source(error)
}

/// Says what to do where the role may not do what was asked, which is not a store's everyday work.
pub(crate) fn forbidden(fault: Fault, message: &'static str) -> StoreError {
    match fault.sqlstate().as_deref() {
        Some("42501") => StoreError::new(Kind::ReadOnly, message).with_source(fault),
        _ => fault.into(),
    }
}

/// The caller broke a bound.
pub(crate) fn invalid(message: &'static str) -> StoreError {
    StoreError::new(Kind::Invalid, message)
}

/// Somebody else had the key's lock for too long.
pub(crate) fn busy() -> StoreError {
    StoreError::new(Kind::Busy, "an open transaction holds the key; try again")
}

/// A server that was just away is not asked at once.
pub(crate) fn away() -> StoreError {
    StoreError::new(Kind::Unavailable, "the server was away a moment ago; ask again")
}

/// More waits for the store than it may let wait.
pub(crate) fn full_queue() -> StoreError {
    StoreError::new(Kind::Busy, "too many verbs wait for the store; try again")
}

/// The task that would have answered has ended with its runtime.
pub(crate) fn ended() -> StoreError {
    StoreError::new(Kind::Unavailable, "the store is closing; ask again")
}

/// What is stored is not what this version writes.
pub(crate) fn damaged(message: &'static str) -> StoreError {
    StoreError::new(Kind::Damaged, message)
}
