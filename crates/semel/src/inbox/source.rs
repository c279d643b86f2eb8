//! The seam to brokers: deliveries in, acknowledgements out.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use thiserror::Error;

use super::message::{Delivery, LogId};

/// What one delivery is settled by, inside the source that made it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Receipt(pub u64);

/// What is to become of a delivery.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Settlement {
    /// It is done with: it need not come again.
    Ack,
    /// It is to come again, not before this time is over where the source can wait. An ordered log
    /// hands it out again before anything behind it.
    Again(Duration),
}

/// What a settlement met.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Acked {
    /// The source confirmed it, as durable as its module says. An ordered log may confirm when the
    /// next settlement, a close or an interval has taken it to the broker; its module says so.
    Confirmed,
    /// The delivery is no longer this caller's, such as after a rebalance or past its time: it may
    /// come again, here or elsewhere.
    Lost,
}

/// What came.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Received {
    /// Deliveries, in the order of each log.
    pub deliveries: Vec<Delivery>,
    /// Logs that are newly this caller's. Nothing of them is delivered before [`Source::start`].
    pub assigned: Vec<LogId>,
    /// Logs that are no longer this caller's: whatever of them is in work is somebody else's too, and
    /// cannot be settled any more.
    pub revoked: Vec<LogId>,
}

/// What a source can do, as plain data.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct SourceCapabilities {
    /// Its name, such as `kafka`.
    pub name: &'static str,
    /// Whether its messages lie in ordered logs with positions.
    pub logs: bool,
    /// How long after its first delivery a message may still come again; `None`: for ever, such as
    /// from a log without retention. A memory that is shorter is refused.
    pub horizon: Option<Duration>,
    /// The largest number of deliveries in one [`Source::receive`].
    pub batch_max: usize,
}

impl SourceCapabilities {
    /// Makes the capabilities of a source without logs that may repeat for ever.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, logs: false, horizon: None, batch_max: 500 }
    }
}

/// What a source could not do; the next call begins anew.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct SourceError {
    message: Box<str>,
    /// Whether asking again may succeed without anybody acting.
    pub retryable: bool,
    source: Option<crate::error::Source>,
}

impl SourceError {
    /// Makes an error of one lower-case sentence that says what to do.
    #[must_use]
    pub fn new(message: impl Into<Box<str>>, retryable: bool) -> Self {
        Self { message: message.into(), retryable, source: None }
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<crate::error::Source>) -> Self {
        self.source = Some(source.into());
        self
    }
}

/// Hands out messages, each at least once, until they are acknowledged.
///
/// Rules that hold for every source:
///
/// - It never acknowledges by itself: not at receipt, not when it is dropped, not by time.
/// - What was not acknowledged comes again, to this caller or another.
/// - A lost connection fails nobody for good: the next call connects again.
/// - What it holds in memory is bounded.
#[async_trait]
pub trait Source: fmt::Debug + Send + Sync + 'static {
    /// Says what this source can do.
    fn capabilities(&self) -> SourceCapabilities;

    /// Waits for deliveries, at most `wait`, and returns at most `max`.
    ///
    /// # Errors
    ///
    /// Fails with a [`SourceError`] that says whether to ask again.
    ///
    /// # Cancel safety
    ///
    /// What was taken from the broker and not returned is returned by the next call.
    async fn receive(&self, max: usize, wait: Duration) -> Result<Received, SourceError>;

    /// Begins to deliver a log that was assigned: from this offset on, or from where the broker
    /// remembers this group of consumers to be.
    ///
    /// # Errors
    ///
    /// Fails with a [`SourceError`] that says whether to ask again.
    async fn start(&self, logs: Vec<(LogId, Option<u64>)>) -> Result<(), SourceError>;

    /// Settles deliveries, in any order; a log remembers the longest run of settled ones from its
    /// beginning.
    ///
    /// # Errors
    ///
    /// Fails with a [`SourceError`]; each may or may not be settled then, and may come again.
    async fn settle(
        &self,
        settlements: Vec<(Receipt, Settlement)>,
    ) -> Result<Vec<Acked>, SourceError>;

    /// Gives everything back that is not settled, and ends.
    ///
    /// # Errors
    ///
    /// Fails with a [`SourceError`] if what was settled could not be confirmed.
    async fn close(&self) -> Result<(), SourceError>;
}
