//! What every source promises, as one function per promise.
//!
//! A source stamps the suite with [`source_conformance!`](crate::source_conformance), inside a module of
//! its own. Messages are sent where producers send them.

pub mod delivering;
pub mod logs;
pub mod settling;
mod stamp;

use std::{any::Any, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use semel::inbox::{Acked, Delivery, LogId, Receipt, Received, Settlement, Source, SourceError};
use tokio::time::{Instant, timeout_at};

/// How long whatever is promised may take on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long one receive waits.
const WAIT: Duration = Duration::from_millis(500);

/// A source that keeps the promises.
#[async_trait]
pub trait SourceUnderTest: Send + Sync + 'static {
    /// Makes a place that holds no message, and of which nobody has received; a source with logs has
    /// two of them at least.
    async fn fresh() -> FreshSource;
}

/// Makes what one promise is asked of.
#[doc(hidden)]
pub async fn fresh<T: SourceUnderTest>() -> FreshSource {
    T::fresh().await
}

/// Where messages lie, and how they are sent there.
#[async_trait]
pub trait Place: Send + Sync + 'static {
    /// Opens another source, for the same group of consumers.
    async fn open(&self) -> Arc<dyn Source>;

    /// Sends a message as a producer does, and returns the id that its copies are delivered under.
    /// Messages with one key lie in one log, in the order in which they were sent.
    async fn send(
        &self,
        key: &str,
        payload: Option<Bytes>,
        headers: Vec<(Box<str>, Bytes)>,
    ) -> Box<str>;

    /// Breaks the connections that are open, or says that it cannot; later ones hold.
    async fn cut(&self) -> bool;
}

/// A place of messages, and what it declares about itself.
pub struct FreshSource {
    /// The place.
    pub place: Arc<dyn Place>,
    /// Whether consumers can tell a tombstone from an empty payload.
    pub tombstones: bool,
    guard: Option<Box<dyn Any + Send + Sync>>,
}

impl FreshSource {
    /// Declares a place whose tombstones look like empty payloads.
    #[must_use]
    pub fn new(place: Arc<dyn Place>) -> Self {
        Self { place, tombstones: false, guard: None }
    }

    /// Declares that consumers can tell a tombstone from an empty payload.
    #[must_use]
    pub const fn with_tombstones(mut self) -> Self {
        self.tombstones = true;
        self
    }

    /// Keeps something, such as a server, for as long as the place is used.
    #[must_use]
    pub fn with_guard(mut self, guard: impl Any + Send + Sync) -> Self {
        self.guard = Some(Box::new(guard));
        self
    }

    async fn open(&self) -> Member {
        Member { source: self.place.open().await, held: Vec::new(), revoked: Vec::new() }
    }

    /// Sends `n` messages in turn of so many keys, and returns their ids.
    async fn send(&self, n: usize, keys: usize) -> Vec<Box<str>> {
        let mut ids = Vec::new();
        for at in 0..n {
            let told = Some(Bytes::from(format!("message {at}")));
            ids.push(self.place.send(&format!("key {}", at % keys), told, Vec::new()).await);
        }
        ids
    }

    /// Expects that nothing is left but what is sent from now on.
    async fn nothing_is_left(&self) {
        let mut member = self.open().await;
        // In each log, so that whatever lies before it would come first.
        let markers = self.send(16, 16).await;
        let came = member.take(markers.len()).await;
        assert_eq!(sorted(&ids(&came)), sorted(&markers), "more was left than nothing");
        member.ack(&came).await;
        member.close().await;
    }
}

impl fmt::Debug for FreshSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FreshSource")
            .field("tombstones", &self.tombstones)
            .field("guard", &self.guard.is_some())
            .finish_non_exhaustive()
    }
}

/// A consumer of the group.
struct Member {
    source: Arc<dyn Source>,
    /// Logs that are this member's.
    held: Vec<LogId>,
    /// Logs that were.
    revoked: Vec<LogId>,
}

impl Member {
    /// Receives once, and begins with every log that it is given where the group is.
    async fn receive(&mut self, max: usize) -> Vec<Delivery> {
        let received = self.received(self.source.receive(max, WAIT).await).await;
        assert!(received.len() <= max, "{} of at most {max}", received.len());
        received
    }

    async fn received(&mut self, received: Result<Received, SourceError>) -> Vec<Delivery> {
        let received = match received {
            Ok(received) => received,
            Err(error) if error.retryable => return Vec::new(),
            Err(error) => panic!("it is received in vain: {error}"),
        };
        self.held.retain(|log| !received.revoked.contains(log));
        self.revoked.extend(received.revoked);
        if !received.assigned.is_empty() {
            let start = received.assigned.iter().map(|log| (log.clone(), None)).collect();
            self.source.start(start).await.expect("a log that was assigned begins");
            self.held.extend(received.assigned);
        }
        received.deliveries
    }

    /// Receives `n` deliveries.
    async fn take(&mut self, n: usize) -> Vec<Delivery> {
        let by = Instant::now() + PATIENCE;
        let mut came = Vec::new();
        while came.len() < n {
            let left = n - came.len();
            let next = timeout_at(by, self.receive(left)).await;
            came.extend(next.unwrap_or_else(|_| panic!("only {} of {n} ever came", came.len())));
        }
        came
    }

    async fn settle(&self, settlements: Vec<(Receipt, Settlement)>) -> Vec<Acked> {
        let n = settlements.len();
        let acked = self.source.settle(settlements).await.expect("deliveries are settled");
        assert_eq!(acked.len(), n, "each settlement has its answer");
        acked
    }

    async fn ack(&self, came: &[Delivery]) {
        let acks = came.iter().map(|delivery| (delivery.receipt, Settlement::Ack)).collect();
        let acked = self.settle(acks).await;
        assert!(acked.iter().all(|acked| *acked == Acked::Confirmed), "{acked:?}");
    }

    async fn close(self) {
        self.source.close().await.expect("a source closes");
    }
}

fn ids(came: &[Delivery]) -> Vec<Box<str>> {
    came.iter().map(|delivery| delivery.message.id().into()).collect()
}

fn sorted(ids: &[Box<str>]) -> Vec<Box<str>> {
    let mut ids = ids.to_vec();
    ids.sort();
    ids
}
