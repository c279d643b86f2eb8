//! Names of messages and consumers, and what a source delivers.

use std::{fmt, sync::Arc};

use bytes::Bytes;

use crate::{
    clock::Timestamp,
    fingerprint::Fingerprint,
    key::{NameError, name},
};

use super::source::Receipt;

name! {
    /// Who handles messages, by an explicit name such as `billing.on-order-placed`: 1 to 128 ASCII
    /// letters, digits, `.`, `_`, `-`, `:` and `/`. Two handlers of one message are two consumers.
    Consumer, "consumer", 128,
    |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':' | '/')
}

name! {
    /// Where messages come from and inside which their ids are unique, such as `kafka:orders`: 1 to
    /// 255 bytes of text without control characters.
    SourceName, "source", 255, |c: char| !c.is_control()
}

name! {
    /// An ordered log with positions, such as a partition of one incarnation of a topic: 1 to 300 bytes
    /// of text without control characters. A log that was deleted and made again has another id.
    LogId, "log", 300, |c: char| !c.is_control()
}

/// The name of a message: the same in every copy that its source or its producer makes.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct MessageId {
    /// Where it is unique.
    pub source: SourceName,
    id: Arc<str>,
}

impl MessageId {
    /// The largest id, in bytes.
    pub const MAX: usize = 255;

    /// Names a message inside a source: 1 to 255 bytes of text without control characters.
    ///
    /// # Errors
    ///
    /// Returns a [`NameError`] if the text is empty, too long, or holds a control character.
    pub fn new(source: SourceName, id: impl AsRef<str>) -> Result<Self, NameError> {
        let id = id.as_ref();
        crate::key::check("message id", id, Self::MAX, |c: char| !c.is_control())?;
        Ok(Self { source, id: id.into() })
    }

    /// Returns the id inside the source.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.source, self.id)
    }
}

/// Whether a message may have been delivered before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Redelivered {
    /// The source says that it was not.
    No,
    /// The source cannot say: it is counted as if it was.
    Unknown,
    /// The source says that it was, and how often if it counts.
    Yes(Option<u32>),
}

/// A place in an ordered log: the message at `offset`, the first of a log being 0.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Position {
    /// Which log.
    pub log: LogId,
    /// Which message of it.
    pub offset: u64,
}

/// One copy of a message, as a source hands it out.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Delivery {
    /// Its name.
    pub message: MessageId,
    /// What this copy is settled by.
    pub receipt: Receipt,
    /// What it tells; `None` is a tombstone.
    pub payload: Option<Bytes>,
    /// What goes beside it.
    pub headers: Vec<(Box<str>, Bytes)>,
    /// What it is ordered by, such as the id of an aggregate.
    pub key: Option<Bytes>,
    /// Whether it may have been delivered before.
    pub redelivered: Redelivered,
    /// Where it lies, if its source is an ordered log.
    pub position: Option<Position>,
    /// When its producer or broker says it was sent.
    pub sent_at: Option<Timestamp>,
    /// Whether it is no delivery of a source, but a parked message that is run again.
    pub parked: bool,
}

impl Delivery {
    /// Makes a delivery of a name, a receipt and a payload.
    #[must_use]
    pub const fn new(message: MessageId, receipt: Receipt, payload: Option<Bytes>) -> Self {
        Self {
            message,
            receipt,
            payload,
            headers: Vec::new(),
            key: None,
            redelivered: Redelivered::Unknown,
            position: None,
            sent_at: None,
            parked: false,
        }
    }

    /// The digest of what it tells, by which other content under one name is found out.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_bytes(self.payload.as_deref().unwrap_or_default())
    }
}
