//! What operators said about a destination, as it is kept.

use super::{event::EventId, store::Destination};
use crate::clock::Timestamp;

/// What an operator said.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum OutboxAuditKind {
    /// To leave a parked row out with all that is parked behind it.
    Drop,
    /// To forget a destination.
    Forget,
    /// To send events again that the destination had.
    Replay,
    /// To send a parked row again.
    Retry,
    /// To leave a parked row out.
    Skip,
}

impl OutboxAuditKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Drop, Self::Forget, Self::Replay, Self::Retry, Self::Skip];

    /// Returns the word for this kind.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Forget => "forget",
            Self::Replay => "replay",
            Self::Retry => "retry",
            Self::Skip => "skip",
        }
    }

    /// Returns the kind that a word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// One row of the audit of an outbox: one for each parked row that was marked, one for each that was left
/// out with one that was dropped, one for each replay and for each destination that was forgotten.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OutboxAudit {
    /// Which destination it was said about.
    pub destination: Destination,
    /// When, in the store's time.
    pub at: Timestamp,
    /// What was said.
    pub kind: OutboxAuditKind,
    /// About which event, if about a single one.
    pub event: Option<EventId>,
    /// How many rows it changed: 1 for a parked row; for a replay, how many it parked; for a
    /// destination that was forgotten, how many parked rows went with it.
    pub rows: u64,
    /// Who said it.
    pub actor: Box<str>,
    /// Why.
    pub note: Box<str>,
}
