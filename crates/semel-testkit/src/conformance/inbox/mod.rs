//! What every inbox promises, as one function per promise.
//!
//! A store stamps the suite with one line, inside a module of its own, and gets one named test per
//! promise:
//!
//! ```text
//! mod inbox {
//!     use super::MyInbox; // implements `InboxUnderTest`
//!     semel_testkit::inbox_conformance!(MyInbox);
//! }
//! ```
//!
//! What differs from driver to driver, the transaction of the effects, is behind a [`Worker`]. What a
//! store can do beyond is declared in [`FreshInbox`], as data.

pub mod attempts;
pub mod batching;
pub mod bounds;
pub mod concurrency;
pub mod cut;
pub mod inspect;
pub mod marking;
pub mod parking;
pub mod positions;
pub mod receiving;
pub mod reopening;
mod stamp;
pub mod sweeping;
mod verbs;

use std::{any::Any, fmt, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use semel::{
    inbox::{
        Delivery, Failed, Handled, InboxInspect, InboxPolicy, InboxStore, InboxSweep, MessageId,
    },
    outbox::{Event, OutboxHints, OutboxInspect},
};

use super::{Later, MoveTime};

/// Opens the messages of a [`FreshInbox`] again, as a restarted process does.
pub type OpenInbox = Arc<dyn Fn() -> Later<FreshInbox> + Send + Sync>;

/// An inbox that keeps the promises.
#[async_trait]
pub trait InboxUnderTest: Send + Sync + 'static {
    /// Makes an empty inbox that shares nothing with any other.
    async fn fresh() -> FreshInbox;
}

/// Makes what one promise is asked of.
#[doc(hidden)]
pub async fn fresh<T: InboxUnderTest>() -> FreshInbox {
    T::fresh().await
}

/// Handles messages by the module `inbox` of a store, each in a transaction with one effect that can be
/// counted, on a connection that nobody else uses meanwhile.
#[async_trait]
pub trait Worker: Send + Sync + 'static {
    /// Handles one message.
    ///
    /// # Errors
    ///
    /// Fails if the work is told to fail, or the store refuses something; the effect is rolled back then.
    async fn handle(
        &self,
        policy: InboxPolicy,
        delivery: Delivery,
        work: Work,
    ) -> Result<Handled, Failed>;

    /// Handles several messages in one transaction; there is one `work` for each.
    ///
    /// # Errors
    ///
    /// Fails if the work of a new message is told to fail, or the store refuses something; all effects
    /// are rolled back then.
    async fn batch(
        &self,
        policy: InboxPolicy,
        deliveries: Vec<Delivery>,
        work: Vec<Work>,
    ) -> Result<Vec<Handled>, Failed>;

    /// The ids of the messages whose effects are committed, one for each effect.
    async fn effects(&self) -> Vec<String>;
}

/// What is done about one message that is new, beside its effect.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// What copies are answered with.
    pub answer: Option<Bytes>,
    /// What it publishes.
    pub events: Vec<Event>,
    /// Whether it fails after its effect and before its transaction ends.
    pub fails: bool,
}

/// Returns what an effect is named by: the id of its message.
#[must_use]
pub fn effect(message: &MessageId) -> String {
    message.id().to_owned()
}

/// An empty inbox, and what it declares about itself.
pub struct FreshInbox {
    /// The store.
    pub store: Arc<dyn InboxStore>,
    /// Its reads and words for operators.
    pub inspect: Arc<dyn InboxInspect>,
    /// Its retention.
    pub sweep: Arc<dyn InboxSweep>,
    /// Who handles messages.
    pub worker: Arc<dyn Worker>,
    /// What moves its time.
    pub time: Arc<dyn MoveTime>,
    /// Where the events are that its runs publish, if they can.
    pub outbox: Option<Arc<dyn OutboxInspect>>,
    /// What hints at commits of such runs, if there is such a thing.
    pub hints: Option<Arc<dyn OutboxHints>>,
    /// Opens the same messages after this inbox is gone; called when everything else was dropped.
    pub reopen: Option<OpenInbox>,
    guard: Option<Box<dyn Any + Send + Sync>>,
}

impl FreshInbox {
    /// Declares an inbox whose runs publish nothing, and that is lost with its process.
    #[must_use]
    pub fn new<T>(store: Arc<T>, worker: Arc<dyn Worker>, time: Arc<dyn MoveTime>) -> Self
    where
        T: InboxStore + InboxInspect + InboxSweep,
    {
        let (inspect, sweep) = (store.clone(), store.clone());
        Self {
            store,
            inspect,
            sweep,
            worker,
            time,
            outbox: None,
            hints: None,
            reopen: None,
            guard: None,
        }
    }

    /// Declares that runs publish events, and says where they are.
    #[must_use]
    pub fn with_outbox(mut self, outbox: Arc<dyn OutboxInspect>) -> Self {
        self.outbox = Some(outbox);
        self
    }

    /// Declares that runs which publish are hinted at.
    #[must_use]
    pub fn with_hints(mut self, hints: Arc<dyn OutboxHints>) -> Self {
        self.hints = Some(hints);
        self
    }

    /// Says how its messages are opened after it is gone.
    #[must_use]
    pub fn with_reopen(mut self, open: impl Fn() -> Later<Self> + Send + Sync + 'static) -> Self {
        self.reopen = Some(Arc::new(open));
        self
    }

    /// Keeps something, such as a folder, for as long as the inbox is used.
    #[must_use]
    pub fn with_guard(mut self, guard: impl Any + Send + Sync) -> Self {
        self.guard = Some(Box::new(guard));
        self
    }
}

impl fmt::Debug for FreshInbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FreshInbox")
            .field("store", &self.store)
            .field("outbox", &self.outbox.is_some())
            .field("hints", &self.hints.is_some())
            .field("reopen", &self.reopen.is_some())
            .field("guard", &self.guard.is_some())
            .finish_non_exhaustive()
    }
}
