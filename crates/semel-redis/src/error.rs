//! The only match on what the server and the driver say: what each answer means, and what is done next.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use semel::{
    StoreError, StoreErrorKind,
    codec::CodecError,
    store::moving::{Closed, not_arriving},
};

/// What is done about an answer that is none.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Next {
    /// It passes, and nothing was done: asked again after a while.
    Again,
    /// Nothing was done: another node has it already, and wants to be told that we know.
    Ask(String, u16),
    /// Nothing was done: this server is no primary any more, or not yet. Another connection is looked for.
    Elsewhere,
    /// The caller is told.
    Fail,
    /// Nobody knows whether it was done, nor what becomes of whatever else is asked on this connection.
    GiveUp,
    /// Nothing was done: whoever is behind the connection may lose what it acknowledges.
    GrantNothing,
    /// The server does not know the script: it is sent whole.
    Load,
    /// Nobody knows whether it was done, and this connection cannot say.
    Reconnect,
}

/// An error, and what is done about it.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) error: StoreError,
    pub(crate) next: Next,
}

impl Fault {
    /// A record that a newer version wrote.
    pub(crate) fn version(version: u8) -> Self {
        let message = format!("a stored record has version {version}; upgrade semel");
        StoreError::new(StoreErrorKind::Version, message).into()
    }

    /// The same, where something may have been written all the same.
    pub(crate) fn unsure(self) -> Self {
        if self.error.kind().is_definite() {
            let error = unavailable(self.error.to_string()).with_source(self.error);
            return Self { error, next: self.next };
        }
        self
    }

    fn new(kind: StoreErrorKind, message: &str, next: Next, source: RedisError) -> Self {
        Self { error: StoreError::new(kind, message).with_source(source), next }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self { error, next: Next::Fail }
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        fault.error
    }
}

impl From<CodecError> for Fault {
    fn from(error: CodecError) -> Self {
        let kind = match error {
            CodecError::Version(_) => StoreErrorKind::Version,
            _ => StoreErrorKind::Damaged,
        };
        StoreError::new(kind, error.to_string()).with_source(error).into()
    }
}

/// Every refusal that is named here comes before the script's first write: a server that lets the first write
/// pass lets all of them. So nothing was written; of anything else nobody knows.
impl From<RedisError> for Fault {
    fn from(error: RedisError) -> Self {
        match error.kind() {
            ErrorKind::Server(kind) => told(kind, error),
            ErrorKind::Extension => coded(error),
            ErrorKind::AuthenticationFailed => Self::new(
                StoreErrorKind::ReadOnly,
                "the server does not accept the user or the password; correct the URL",
                Next::Fail,
                error,
            ),
            ErrorKind::ClusterConnectionNotFound => Self::new(
                StoreErrorKind::Unavailable,
                "no node of the cluster serves this part of the keys now",
                Next::Reconnect,
                error,
            ),
            _ if is_about_certificates(&error) => Self::new(
                StoreErrorKind::Unavailable,
                "no TLS with the server: its certificate is not vouched for by ca, is another host's, or it \
                 asks for one that it does not get",
                Next::Reconnect,
                error,
            ),
            _ if error.is_connection_refusal() => Self::new(
                StoreErrorKind::Unavailable,
                "the server takes no connections; it is away, or not at this address",
                Next::Reconnect,
                error,
            ),
            _ => Self::new(
                StoreErrorKind::Unavailable,
                "the server did not answer; nobody knows whether it did what was asked",
                Next::Reconnect,
                error,
            ),
        }
    }
}

/// Says whether an end of TLS was not believed: only the text of the error tells.
fn is_about_certificates(error: &RedisError) -> bool {
    let text = error.to_string().to_ascii_lowercase();
    ["certificate", "received fatal alert"].iter().any(|word| text.contains(word))
}

fn told(kind: ServerErrorKind, error: RedisError) -> Fault {
    let (store, message, next) = match kind {
        ServerErrorKind::NoScript => (StoreErrorKind::Busy, "the script was unloaded", Next::Load),
        ServerErrorKind::BusyLoading => {
            (StoreErrorKind::Busy, "the server is loading its data", Next::Again)
        }
        ServerErrorKind::Moved => {
            (StoreErrorKind::Busy, "the cluster is moving this part of the keys", Next::Again)
        }
        ServerErrorKind::Ask => {
            let node = error.redirect_node().map(|(node, _)| node.to_owned());
            let node = node.as_deref().and_then(|node| node.rsplit_once(':'));
            let next = node
                .and_then(|(host, port)| Some(Next::Ask(host.to_owned(), port.parse().ok()?)))
                .unwrap_or(Next::Again);
            (StoreErrorKind::Busy, "the cluster is moving this part of the keys", next)
        }
        ServerErrorKind::TryAgain => {
            (StoreErrorKind::Busy, "the cluster is moving this part of the keys", Next::Again)
        }
        ServerErrorKind::ClusterDown => {
            (StoreErrorKind::Busy, "the cluster does not serve all of its slots", Next::Again)
        }
        ServerErrorKind::MasterDown => {
            (StoreErrorKind::Busy, "the primary is down", Next::Elsewhere)
        }
        ServerErrorKind::ReadOnly => (
            StoreErrorKind::ReadOnly,
            "the server is a replica and can only be read; name the primary, or its sentinels",
            Next::Elsewhere,
        ),
        ServerErrorKind::NoPerm => (StoreErrorKind::ReadOnly, FORBIDDEN, Next::Fail),
        _ => return coded(error),
    };
    Fault::new(store, message, next, error)
}

const FORBIDDEN: &str =
    "the user may not do this; allow EVAL, EVALSHA and the keys of the store's prefix";

/// What the driver has no word for.
fn coded(error: RedisError) -> Fault {
    match error.code() {
        Some("ARRIVING") => return Closed::Arriving.refusal().with_source(error).into(),
        Some("AWAY") => return Closed::Away.refusal().with_source(error).into(),
        Some("CLOSEDFIRST") => return not_arriving().with_source(error).into(),
        _ => {}
    }
    let (kind, message, next) = match error.code().unwrap_or_default() {
        "OOM" => (
            StoreErrorKind::Full,
            "the server holds as much as maxmemory allows; raise it",
            Next::Fail,
        ),
        "MISCONF" => (
            StoreErrorKind::Full,
            "the server cannot write to its disk and takes no writes; look into its log",
            Next::Fail,
        ),
        "NOREPLICAS" => (
            StoreErrorKind::Busy,
            "the server has fewer replicas than it needs to take writes",
            Next::Again,
        ),
        // A script says so, where a command says MASTERDOWN.
        "ERR" if error.detail().is_some_and(|detail| detail.contains("stale replica")) => {
            (StoreErrorKind::Busy, "the primary is down", Next::Elsewhere)
        }
        "BUSY" => (StoreErrorKind::Busy, "the server is busy with a script", Next::Again),
        "NOAUTH" | "WRONGPASS" => (
            StoreErrorKind::ReadOnly,
            "the server does not accept the user or the password; correct the URL",
            Next::Fail,
        ),
        "WRONGTYPE" => {
            (StoreErrorKind::Damaged, "a key of the store's prefix is not the store's", Next::Fail)
        }
        _ => (
            StoreErrorKind::Unavailable,
            "the server answered with an error that the store does not know",
            Next::Fail,
        ),
    };
    Fault::new(kind, message, next, error)
}

/// Says whether a server does not let its settings be read.
pub(crate) fn is_forbidden(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::NoPerm) => true,
        ErrorKind::Server(_) | ErrorKind::Extension => {
            error.detail().is_some_and(|detail| detail.contains("unknown command"))
        }
        _ => false,
    }
}

pub(crate) fn invalid(message: impl Into<Box<str>>) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, message)
}

pub(crate) fn damaged(message: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Damaged, message)
}

pub(crate) fn unavailable(message: impl Into<Box<str>>) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, message)
}

/// An answer of another shape than the scripts give.
pub(crate) fn odd() -> Fault {
    let message = "the server gave an answer of another shape; is it Redis 7 or Valkey?";
    Fault { error: unavailable(message), next: Next::Reconnect }
}
