//! What a store keeps for consumers, beside the transactions of their effects.
//!
//! That a consumer had a message is committed in one transaction with the effect, by the module
//! `inbox` of a store, in whatever transaction the caller's driver has. Here is what happens outside of
//! it: attempts are counted before a message runs again, since what a transaction counts is rolled back
//! with it; a message that cannot be handled is parked with a copy; positions are read.
//!
//! Rules that hold for every store:
//!
//! - (consumer, source, id) is unique, by a constraint that the store itself keeps and [`check`]s, and
//!   for as long as the message is remembered: not per day, partition or state.
//! - Whoever is parked is remembered for ever, even after it was left out: an operator, or another
//!   system's dead letters, may bring it back years later.
//! - Parking and an effect exclude each other: of the two, one is committed.
//! - Nothing here waits for a caller's open transaction for longer than a second: then it is
//!   [`Busy`](crate::StoreErrorKind::Busy).
//!
//! [`check`]: InboxStore::check

use std::{collections::BTreeSet, fmt};

use async_trait::async_trait;
use bytes::Bytes;

use super::{
    message::{Consumer, Delivery, LogId, MessageId, Position},
    receive::{invalid, no_position},
    source::Receipt,
};
use crate::{clock::Timestamp, error::StoreError, fingerprint::Fingerprint, outbox::EventId};

/// The largest number of messages, logs or rows in one call.
pub const READ_MAX: usize = 10_000;

/// Refuses a call of more messages or logs than [`READ_MAX`].
///
/// # Errors
///
/// Returns an error of kind `Invalid`.
pub fn within_read(count: usize) -> Result<(), StoreError> {
    match count > READ_MAX {
        true => Err(invalid("more messages or logs than one call takes")),
        false => Ok(()),
    }
}

/// The messages of a call in the order of their names, each once: a name that stands there twice is one
/// message, whose attempt is counted and given back once.
#[must_use]
pub fn each_once(messages: &[MessageId]) -> BTreeSet<&MessageId> {
    messages.iter().collect()
}

/// What is remembered of a message that a consumer had.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Recorded {
    /// The digest of what it told.
    pub fingerprint: Fingerprint,
    /// What became of it.
    pub standing: Standing,
    /// What the run answered, to be sent again to whoever asks again; the caller's own format.
    pub answer: Option<Bytes>,
    /// The events that the run published.
    pub events: Vec<EventId>,
    /// When it was handled or parked, in the store's time.
    pub at: Timestamp,
}

impl Recorded {
    /// The largest answer, in bytes.
    pub const ANSWER_MAX: usize = 1024 * 1024;
    /// The largest number of events of one run.
    pub const EVENTS_MAX: usize = 10_000;

    /// Whether a copy of the message has something to send again.
    #[must_use]
    pub fn is_sent_again(&self) -> bool {
        self.answer.is_some() || !self.events.is_empty()
    }

    /// Whether what came under its name is another message. Digests of different plans say nothing
    /// about each other.
    #[must_use]
    pub fn is_of_another(&self, came: &Fingerprint) -> bool {
        self.fingerprint.plan() == came.plan() && self.fingerprint != *came
    }
}

/// What became of a message.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Standing {
    /// Its effect is committed.
    Done,
    /// It was left out, as an operator said.
    LeftOut,
    /// It lies parked.
    Parked,
}

impl Standing {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Done, Self::LeftOut, Self::Parked];

    /// Returns the word for this standing.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::LeftOut => "left-out",
            Self::Parked => "parked",
        }
    }

    /// Returns the standing that a word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|standing| standing.as_str() == word)
    }
}

/// How often a message was run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Attempts {
    /// How often, as far as it was counted.
    pub count: u32,
    /// When the first was counted; the store's time if none was.
    pub first_at: Timestamp,
    /// The store's time.
    pub now: Timestamp,
}

/// Why attempts are no longer counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Uncount {
    /// The message is done with: nothing of them is kept, nor the copy of one that was parked and is
    /// done.
    Ended,
    /// The last one did not come to its end through no fault of the message, such as at a shutdown: it
    /// is given back.
    GivenBack,
}

/// A message to be parked.
#[derive(Clone, Debug, PartialEq)]
pub struct Park {
    /// Whose it is.
    pub consumer: Consumer,
    /// The message, of which a copy is kept.
    pub delivery: Delivery,
    /// The digest by which it is known again.
    pub fingerprint: Fingerprint,
    /// Whether the consumer knows copies by positions: then its position moves behind the message in the
    /// same transaction.
    pub moves: bool,
    /// How often it was run.
    pub attempts: u32,
    /// Why: at most [`Park::WHY_MAX`] bytes.
    pub why: Box<str>,
}

impl Park {
    /// The largest reason, in bytes.
    pub const WHY_MAX: usize = 1_000;

    /// Refuses a reason that breaks its bound, and a message without a position behind which one is to
    /// move.
    ///
    /// # Errors
    ///
    /// Returns an error of kind `Invalid` that says which.
    pub fn check(&self) -> Result<(), StoreError> {
        if self.why.len() > Self::WHY_MAX {
            return Err(invalid("the reason why a message is parked is too long"));
        }
        if self.moves && self.delivery.position.is_none() {
            return Err(no_position());
        }
        Ok(())
    }
}

/// The answer to whoever parks a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ParkAnswer {
    /// Nothing was parked: it was done, left out, or passed by its position meanwhile.
    Ended,
    /// It is parked, or already was.
    Parked,
}

/// What a parked message waits for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ParkedState {
    /// For an operator's word.
    Failed,
    /// To be run again, as an operator said.
    Retry,
    /// For nothing: an operator left it out. Its copy stays for as long as nobody drops it.
    Skipped,
}

impl ParkedState {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Failed, Self::Retry, Self::Skipped];

    /// Returns the word for this state.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Retry => "retry",
            Self::Skipped => "skipped",
        }
    }

    /// Returns the state that a word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// A message that could not be handled, with a copy of all that was delivered.
#[derive(Clone, Debug, PartialEq)]
pub struct ParkedMessage {
    /// Whose it is.
    pub consumer: Consumer,
    /// Its name.
    pub message: MessageId,
    /// What it tells; `None` is a tombstone.
    pub payload: Option<Bytes>,
    /// What went beside it.
    pub headers: Vec<(Box<str>, Bytes)>,
    /// What it is ordered by.
    pub key: Option<Bytes>,
    /// Where it lay, if its source is an ordered log.
    pub position: Option<Position>,
    /// When its producer or broker says it was sent.
    pub sent_at: Option<Timestamp>,
    /// What it waits for.
    pub state: ParkedState,
    /// How often it was run.
    pub attempts: u32,
    /// Why it was parked.
    pub why: Box<str>,
    /// When it was parked last, in the store's time.
    pub parked_at: Timestamp,
}

impl ParkedMessage {
    /// The message as a delivery, to be run again. Its receipt settles nothing.
    #[must_use]
    pub fn delivery(&self) -> Delivery {
        let mut delivery =
            Delivery::new(self.message.clone(), Receipt(u64::MAX), self.payload.clone());
        delivery.headers.clone_from(&self.headers);
        delivery.key.clone_from(&self.key);
        delivery.position.clone_from(&self.position);
        delivery.sent_at = self.sent_at;
        delivery.parked = true;
        delivery
    }
}

/// A message that came with other content than before.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mismatch {
    /// Whose it is.
    pub consumer: Consumer,
    /// The name that both have.
    pub message: MessageId,
    /// The digest of what is remembered.
    pub recorded: Fingerprint,
    /// The digest of what came.
    pub came: Fingerprint,
}

impl Mismatch {
    /// What the audit tells of it: both digests.
    #[must_use]
    pub fn note(&self) -> String {
        let hex = |of: &Fingerprint| -> String {
            of.digest().iter().map(|byte| format!("{byte:02x}")).collect()
        };
        format!("remembered {}, came {}", hex(&self.recorded), hex(&self.came))
    }
}

/// What a runner of consumers needs of a store.
///
/// # Errors
///
/// Every verb fails with a [`StoreError`] whose kind says what the caller does next.
///
/// # Cancel safety
///
/// A verb whose future is dropped may or may not have happened; each may be asked again.
#[async_trait]
pub trait InboxStore: fmt::Debug + Send + Sync + 'static {
    /// Proves that the store itself keeps (consumer, source, id) unique, and a position per consumer and
    /// log. Without, it fails with kind `Damaged`, and nothing may be consumed: a look-up alone lets
    /// two copies pass that come at one instant.
    async fn check(&self) -> Result<(), StoreError>;

    /// Reads how often messages were run, in the order asked for.
    async fn attempts(
        &self,
        consumer: Consumer,
        messages: Vec<MessageId>,
    ) -> Result<Vec<Attempts>, StoreError>;

    /// Counts an attempt of each of these messages, before it runs, and returns how often each was run
    /// with this one, in the order asked for. A message that is named twice is counted once.
    async fn count(
        &self,
        consumer: Consumer,
        messages: Vec<MessageId>,
    ) -> Result<Vec<Attempts>, StoreError>;

    /// Counts attempts no longer.
    async fn uncount(
        &self,
        consumer: Consumer,
        messages: Vec<MessageId>,
        why: Uncount,
    ) -> Result<(), StoreError>;

    /// Parks a message with a copy, forgets its attempts and remembers its name, in one transaction; one
    /// that is parked already waits for an operator again.
    async fn park(&self, park: Park) -> Result<ParkAnswer, StoreError>;

    /// Lists parked messages in state [`ParkedState::Retry`], the oldest first, at most `limit`.
    async fn due(&self, consumer: Consumer, limit: usize)
    -> Result<Vec<ParkedMessage>, StoreError>;

    /// Reads up to where a consumer has each log: the first offset that it has not handled; `None` if it
    /// never had anything of it.
    async fn positions(
        &self,
        consumer: Consumer,
        logs: Vec<LogId>,
    ) -> Result<Vec<Option<u64>>, StoreError>;

    /// Writes a mismatch to the audit.
    async fn report(&self, mismatch: Mismatch) -> Result<(), StoreError>;
}

/// What one step of an inbox's sweep did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct InboxSwept {
    /// Messages that are no longer remembered.
    pub messages: u64,
    /// Counts of attempts that nobody asks for any more.
    pub attempts: u64,
    /// Whether more is due now.
    pub more: bool,
}

/// Forgets what is no longer remembered, in bounded steps.
#[async_trait]
pub trait InboxSweep: Send + Sync + 'static {
    /// Does one bounded step: forgets messages whose time is over, none that was ever parked, and
    /// attempts of messages that were handled or did not come again for [`ATTEMPTS_KEPT`].
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    async fn sweep_inbox(&self, limit: u32) -> Result<InboxSwept, StoreError>;
}

/// How long after the last attempt its count is kept of a message that never came to an end here: longer
/// than any pause before a message runs again.
pub const ATTEMPTS_KEPT: std::time::Duration = std::time::Duration::from_secs(30 * 24 * 60 * 60);
