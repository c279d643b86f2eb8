//! The seam to brokers: a batch of messages out, one of three outcomes back for each.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{event::Event, store::Destination};

/// One event on its way to one destination.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Where it goes.
    pub destination: Destination,
    /// What is sent: the publisher names the copy by the id of the event, in whatever way its
    /// receivers know copies by.
    pub event: Arc<Event>,
    /// How many copies of it may be there already: 0 on the first send.
    pub copies: u32,
}

/// Whose fault it is that a message was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// The destination's: it is away, overloaded, or refuses whatever comes. It spends no attempt; the
    /// destination's circuit opens.
    Destination {
        /// When the destination asked to be tried again.
        retry_after: Option<Duration>,
    },
    /// The message's: the same message will hardly be taken later, and others will. It spends an
    /// attempt.
    Message,
}

/// What became of one message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Sent {
    /// The destination has it, as durable as the publisher's module says. Only a definite answer of
    /// the destination about this very message is a confirmation.
    Confirmed,
    /// The destination does not have it, and will not get it from this call.
    Refused {
        /// Whose fault it is.
        fault: Fault,
        /// Why, as one lower-case sentence without secrets.
        why: Box<str>,
    },
    /// Nobody can say: it may be there, or still come there later. Its lane stays shut until a copy
    /// is confirmed.
    Unknown {
        /// Why, as one lower-case sentence without secrets.
        why: Box<str>,
    },
}

/// What a publisher can do, as plain data.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct PublisherCapabilities {
    /// Its name, such as `kafka`.
    pub name: &'static str,
    /// Whether several messages of one lane may be in one batch: it then keeps their order, and of a
    /// message that is not confirmed no later one of its lane in that batch is confirmed. Else a
    /// batch has one message of each lane.
    pub pipelined: bool,
    /// The largest number of messages in one batch.
    pub batch_max: usize,
    /// The largest number of batches at once.
    pub batches_max: usize,
    /// How long [`Publisher::publish`] takes at most: every message has its outcome by then, and what
    /// is not confirmed is never sent later than that by it.
    pub publish_wait: Duration,
    /// The largest payload it takes, in bytes.
    pub payload_max: usize,
}

impl PublisherCapabilities {
    /// Makes the capabilities of a publisher that sends one message at a time within 30 s.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            pipelined: false,
            batch_max: 1,
            batches_max: 1,
            publish_wait: Duration::from_secs(30),
            payload_max: Event::PAYLOAD_MAX,
        }
    }
}

/// Sends events to a broker, or anywhere else.
///
/// Rules that hold for every publisher:
///
/// - It never retries by itself what may have arrived, unless the destination knows copies of one
///   send: the relay owns every retry, and sends the same id again.
/// - It waits for the answer of the destination for each message; a message that was only handed to
///   a socket or a buffer is [`Sent::Unknown`].
/// - A connection that breaks fails nobody for good: the next call connects again.
/// - Whatever it is given at once is bounded by its [`PublisherCapabilities`].
///
/// # Cancel safety
///
/// When the future of [`Publisher::publish`] is dropped, each message may or may not arrive, and none
/// later than [`PublisherCapabilities::publish_wait`] after the call.
#[async_trait]
pub trait Publisher: fmt::Debug + Send + Sync + 'static {
    /// Says what this publisher can do.
    fn capabilities(&self) -> PublisherCapabilities;

    /// Sends a batch, and returns the outcome of each message in the order given.
    async fn publish(&self, batch: Vec<Message>) -> Vec<Sent>;
}
