//! What can go wrong, named by what the caller does next.

use std::{error::Error as StdError, fmt};

use rdkafka::{error::KafkaError, types::RDKafkaErrorCode};
use semel::inbox::SourceError;

/// What the caller does next.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The transaction was undone, and nothing of it will be seen: do it again from its beginning.
    Aborted,
    /// The brokers did not answer, or are not ready: ask again.
    Away,
    /// Another of the same name has taken over: stop, or open anew.
    Fenced,
    /// A setting, a name or a use is wrong: nothing was done, and asking again changes nothing.
    Invalid,
    /// What was received is no longer this caller's: leave it, it comes again to somebody.
    Lost,
    /// Nobody can say whether it happened: ask again by the same call.
    Unknown,
}

/// Something could not be done.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: Box<str>,
    source: Option<KafkaError>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<Box<str>>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    pub(crate) fn invalid(message: impl Into<Box<str>>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// Sorts an error of the client by what it means for whoever asks the brokers something.
    pub(crate) fn asking(what: &str, source: KafkaError) -> Self {
        let kind = match &source {
            KafkaError::ClientConfig(..) | KafkaError::ClientCreation(_) | KafkaError::Nul(_) => {
                ErrorKind::Invalid
            }
            other => match other.rdkafka_error_code() {
                Some(
                    RDKafkaErrorCode::TopicAuthorizationFailed
                    | RDKafkaErrorCode::GroupAuthorizationFailed
                    | RDKafkaErrorCode::ClusterAuthorizationFailed
                    | RDKafkaErrorCode::TransactionalIdAuthorizationFailed
                    | RDKafkaErrorCode::InvalidTopic,
                ) => ErrorKind::Invalid,
                _ => ErrorKind::Away,
            },
        };
        Self { kind, message: format!("{what}: {source}").into(), source: Some(source) }
    }

    pub(crate) fn with_source(mut self, source: KafkaError) -> Self {
        self.source = Some(source);
        self
    }

    /// Returns what the caller does next.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Says whether asking again may succeed without anybody acting.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self.kind, ErrorKind::Aborted | ErrorKind::Away | ErrorKind::Unknown)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| source as &(dyn StdError + 'static))
    }
}

impl From<Error> for SourceError {
    fn from(error: Error) -> Self {
        Self::new(error.to_string(), error.is_retryable()).with_source(error)
    }
}
