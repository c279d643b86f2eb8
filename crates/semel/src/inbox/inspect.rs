//! What operators see of consumers, and what they may say.

use async_trait::async_trait;

use super::{
    message::{Consumer, LogId, MessageId},
    store::{Attempts, ParkedMessage, ParkedState, Recorded},
};
use crate::{clock::Timestamp, error::StoreError, store::Actor};

/// How many rows one answer has at most.
pub const LIST_MAX: u32 = 1_000;
/// Up to how many messages are counted.
pub const COUNT_MAX: u32 = 10_000;

/// A consumer as an operator sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConsumerState {
    /// Its name.
    pub consumer: Consumer,
    /// How many messages it remembers; counted up to [`COUNT_MAX`].
    pub remembered: u64,
    /// Up to where it has each log that it knows by positions.
    pub positions: Vec<(LogId, u64)>,
    /// How many messages are parked and wait for an operator.
    pub failed: u64,
    /// How many parked messages are to be run again.
    pub retry: u64,
    /// When the oldest was parked that waits for an operator.
    pub oldest_failed: Option<Timestamp>,
    /// How many messages have been run and have not come to an end.
    pub attempted: u64,
    /// The store's time.
    pub now: Timestamp,
}

/// A message that a consumer had.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Had {
    /// Who.
    pub consumer: Consumer,
    /// Which.
    pub message: MessageId,
    /// What is remembered of it.
    pub recorded: Recorded,
}

/// Which parked messages to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParkedFilter {
    /// Only of this consumer.
    pub consumer: Option<Consumer>,
    /// Only in this state.
    pub state: Option<ParkedState>,
    /// Only behind this one, in the order of consumers and messages: for the next page.
    pub after: Option<(Consumer, MessageId)>,
    /// How many at most; bounded by [`LIST_MAX`].
    pub limit: u32,
}

/// All that is known of one message of one consumer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MessageState {
    /// What is remembered; `None` if it was never handled, or is forgotten.
    pub recorded: Option<Recorded>,
    /// Its copy, if it is parked.
    pub parked: Option<ParkedMessage>,
    /// How often it was run without an end, if that is counted.
    pub attempts: Option<Attempts>,
}

/// What an operator says about a parked message.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Mark {
    /// Leave it out and throw its copy away. Its name stays known for ever.
    Drop,
    /// Run it again.
    Retry,
    /// Leave it out and keep its copy.
    Skip,
}

impl Mark {
    /// Returns the word for this mark.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Retry => "retry",
            Self::Skip => "skip",
        }
    }
}

/// What an audit row of an inbox tells of.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum InboxAuditKind {
    /// An operator said it of a parked message.
    Marked(Mark),
    /// A message came with other content than before; it was not run.
    Mismatch,
}

impl InboxAuditKind {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Marked(Mark::Drop),
        Self::Marked(Mark::Retry),
        Self::Marked(Mark::Skip),
        Self::Mismatch,
    ];

    /// Returns the word for this kind.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Marked(mark) => mark.as_str(),
            Self::Mismatch => "mismatch",
        }
    }

    /// Returns the kind that a word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// One row of the audit of an inbox.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InboxAudit {
    /// Whose message.
    pub consumer: Consumer,
    /// Which.
    pub message: MessageId,
    /// When, in the store's time.
    pub at: Timestamp,
    /// What was said, or happened.
    pub kind: InboxAuditKind,
    /// Who said it; empty if it happened by itself.
    pub actor: Box<str>,
    /// Why; for a mismatch, both digests.
    pub note: Box<str>,
}

/// Reads for operators, and their words.
#[async_trait]
pub trait InboxInspect: Send + Sync + 'static {
    /// Lists the consumers that anything is known of, in the order of their names, at most
    /// [`LIST_MAX`].
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    async fn consumers(&self) -> Result<Vec<ConsumerState>, StoreError>;

    /// Lists the messages that a consumer remembers, behind `after` in the order of their names, at most
    /// `limit`, bounded by [`LIST_MAX`].
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    async fn had(
        &self,
        consumer: Consumer,
        after: Option<MessageId>,
        limit: u32,
    ) -> Result<Vec<Had>, StoreError>;

    /// Reads all that is known of one message of one consumer.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    async fn message(
        &self,
        consumer: Consumer,
        message: MessageId,
    ) -> Result<MessageState, StoreError>;

    /// Finds who had a message of this id, from whatever source: where the chain of an event goes on.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    async fn chain(&self, id: Box<str>) -> Result<Vec<Had>, StoreError>;

    /// Lists parked messages in the order of consumers and messages.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    async fn parked(&self, filter: ParkedFilter) -> Result<Vec<ParkedMessage>, StoreError>;

    /// Marks a parked message, with a row of the audit in the same transaction; says whether it is
    /// there. What is marked is done by whoever runs the consumer.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    async fn mark(
        &self,
        consumer: Consumer,
        message: MessageId,
        mark: Mark,
        actor: Actor,
    ) -> Result<bool, StoreError>;

    /// Reads the audit, newest first; of one consumer, or of all; at most `limit`, bounded by
    /// [`LIST_MAX`].
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    async fn inbox_audit(
        &self,
        consumer: Option<Consumer>,
        limit: u32,
    ) -> Result<Vec<InboxAudit>, StoreError>;
}
