//! What every publisher promises, as one function per promise.
//!
//! A publisher stamps the suite with [`publisher_conformance!`](crate::publisher_conformance), inside a
//! module of its own. Its far end is real: what arrived is read where receivers read it, and what goes
//! wrong goes wrong there or on the way.

pub mod sending;
mod stamp;
pub mod trouble;

use std::{any::Any, fmt, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use semel::{
    entropy::SystemEntropy,
    outbox::{Destination, Event, EventId, Lane, Message, Publisher, Sent},
};

pub use crate::receiver::Trouble;

/// A publisher that keeps the promises.
#[async_trait]
pub trait PublisherUnderTest: Send + Sync + 'static {
    /// Makes a publisher to a far end at which nothing has arrived. Its `publish_wait` had better be
    /// short: a promise about a far end that is mute waits for it.
    async fn fresh() -> FreshPublisher;
}

/// Makes what one promise is asked of.
#[doc(hidden)]
pub async fn fresh<T: PublisherUnderTest>() -> FreshPublisher {
    T::fresh().await
}

/// A copy of an event, as receivers see it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Seen {
    /// What receivers know copies by.
    pub id: EventId,
    /// What it is ordered by.
    pub lane_id: Box<str>,
    /// What it tells.
    pub payload: Option<Bytes>,
    /// What came beside it; names in any case, and more than the event had.
    pub headers: Vec<(Box<str>, Bytes)>,
}

/// Where events arrive.
#[async_trait]
pub trait FarEnd: Send + Sync + 'static {
    /// Everything that arrived so far: what was confirmed before this is asked, at least; in the order
    /// of each lane.
    async fn arrived(&self) -> Vec<Seen>;

    /// Misbehaves from now on, or says that it cannot do so.
    async fn trouble(&self, trouble: Trouble) -> bool;

    /// Behaves from now on: returns when it can be reached again.
    async fn mend(&self);
}

/// A publisher, its far end, and what it declares about itself.
pub struct FreshPublisher {
    /// The publisher.
    pub publisher: Arc<dyn Publisher>,
    /// Where its events arrive.
    pub far: Arc<dyn FarEnd>,
    /// Whether receivers can tell a tombstone from an empty payload.
    pub tombstones: bool,
    guard: Option<Box<dyn Any + Send + Sync>>,
}

impl FreshPublisher {
    /// Declares a publisher whose tombstones look like empty payloads.
    #[must_use]
    pub fn new(publisher: Arc<dyn Publisher>, far: Arc<dyn FarEnd>) -> Self {
        Self { publisher, far, tombstones: false, guard: None }
    }

    /// Declares that receivers can tell a tombstone from an empty payload.
    #[must_use]
    pub const fn with_tombstones(mut self) -> Self {
        self.tombstones = true;
        self
    }

    /// Keeps something, such as a server, for as long as the publisher is used.
    #[must_use]
    pub fn with_guard(mut self, guard: impl Any + Send + Sync) -> Self {
        self.guard = Some(Box::new(guard));
        self
    }

    /// Sends messages in batches that the publisher may be given, one after the other.
    async fn send(&self, messages: &[Message]) -> Vec<Sent> {
        let mut sent = Vec::new();
        for batch in self.batches(messages) {
            let answers = self.publisher.publish(batch.clone()).await;
            assert_eq!(answers.len(), batch.len(), "each message has its outcome");
            sent.extend(answers);
        }
        sent
    }

    /// Splits messages, in their order, into batches that the publisher may be given.
    fn batches(&self, messages: &[Message]) -> Vec<Vec<Message>> {
        let capabilities = self.publisher.capabilities();
        let mut batches: Vec<Vec<Message>> = Vec::new();
        for message in messages {
            let fits = |batch: &&mut Vec<Message>| {
                let lane = |other: &Message| other.event.lane == message.event.lane;
                batch.len() < capabilities.batch_max
                    && (capabilities.pipelined || !batch.iter().any(lane))
            };
            match batches.last_mut().filter(fits) {
                Some(batch) => batch.push(message.clone()),
                None => batches.push(vec![message.clone()]),
            }
        }
        batches
    }

    /// Sends one message that must be confirmed.
    async fn goes_on(&self) {
        let probe = message("probe", "goes on");
        assert_eq!(self.send(std::slice::from_ref(&probe)).await, [Sent::Confirmed]);
        assert_eq!(self.copies(&probe).await, 1);
    }

    /// How many copies of a message arrived.
    async fn copies(&self, message: &Message) -> usize {
        let arrived = self.far.arrived().await;
        arrived.iter().filter(|seen| seen.id == message.event.id).count()
    }
}

impl fmt::Debug for FreshPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FreshPublisher")
            .field("publisher", &self.publisher)
            .field("tombstones", &self.tombstones)
            .field("guard", &self.guard.is_some())
            .finish_non_exhaustive()
    }
}

/// Makes the first copy of a new event of a lane.
fn message(lane_id: &str, told: &str) -> Message {
    let lane = Lane::new("order", lane_id).expect("a lane of the suite is a name");
    // Its destination may outlive the test, and with it what arrived there.
    let id = EventId::new(&semel::SystemClock::new(), &SystemEntropy);
    let event = Event::new(id, lane, "OrderPlaced", Some(Bytes::from(told.to_owned())));
    Message {
        destination: Destination::new("under-test").expect("it is a name"),
        event: Arc::new(event.expect("an event of the suite keeps its bounds")),
        copies: 0,
    }
}

/// Changes the event of a message.
fn with(mut message: Message, change: impl FnOnce(&mut Event)) -> Message {
    let mut event = (*message.event).clone();
    change(&mut event);
    message.event = Arc::new(event);
    message
}

/// Makes `n` messages, in turn of so many lanes.
fn messages(n: usize, lanes: usize) -> Vec<Message> {
    (0..n).map(|at| message(&format!("lane {}", at % lanes), &format!("message {at}"))).collect()
}
