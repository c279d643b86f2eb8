//! What every outbox promises, as one function per promise.
//!
//! A store stamps the suite with one line, inside a module of its own, and gets one named test per
//! promise:
//!
//! ```text
//! mod outbox {
//!     use super::MyOutbox; // implements `OutboxUnderTest`
//!     semel_testkit::outbox_conformance!(MyOutbox);
//! }
//! ```
//!
//! What a store can do beyond the verbs is declared in [`FreshOutbox`], as data. A store that does not
//! declare [`FreshOutbox::open_at_once`] is shown not to have two open transactions that append.

pub mod bounds;
pub mod concurrency;
pub mod cut;
pub mod forgetting;
pub mod hinting;
pub mod inspect;
pub mod leading;
pub mod marking;
pub mod parking;
pub mod passes;
pub mod reading;
pub mod replaying;
pub mod retention;
pub mod settling;
mod stamp;
pub mod transactions;
pub(super) mod verbs;

use std::{any::Any, error, fmt, sync::Arc};

use async_trait::async_trait;
use semel::outbox::{Event, OutboxHints, OutboxInspect, OutboxRetain, OutboxStore};

use super::{Later, MoveTime};

/// Opens the events of a [`FreshOutbox`] again, as another process or a restarted one does.
pub type OpenOutbox = Arc<dyn Fn() -> Later<Arc<dyn OutboxStore>> + Send + Sync>;

/// An outbox that keeps the promises.
#[async_trait]
pub trait OutboxUnderTest: Send + Sync + 'static {
    /// Makes an empty outbox that shares nothing with any other.
    async fn fresh() -> FreshOutbox;
}

/// Makes what one promise is asked of.
#[doc(hidden)]
pub async fn fresh<T: OutboxUnderTest>() -> FreshOutbox {
    T::fresh().await
}

/// Begins transactions of an application, each on a connection of its own.
#[async_trait]
pub trait Producer: Send + Sync + 'static {
    /// Begins a transaction; where only one can write, this or the first append waits for its turn.
    async fn begin(&self) -> Box<dyn Producing>;
}

/// An open transaction of an application.
#[async_trait]
pub trait Producing: Send {
    /// Appends events, in this order.
    ///
    /// # Errors
    ///
    /// Fails if one of them breaks a bound; the transaction is only good for rolling back then.
    async fn append(
        &mut self,
        events: Vec<Event>,
    ) -> Result<(), Box<dyn error::Error + Send + Sync>>;

    /// Commits it.
    async fn commit(self: Box<Self>);

    /// Rolls it back.
    async fn roll_back(self: Box<Self>);
}

/// An empty outbox, and what it declares about itself.
pub struct FreshOutbox {
    /// The store.
    pub store: Arc<dyn OutboxStore>,
    /// Its reads and words for operators.
    pub inspect: Arc<dyn OutboxInspect>,
    /// Who appends.
    pub producer: Arc<dyn Producer>,
    /// What moves its time.
    pub time: Arc<dyn MoveTime>,
    /// Whether several transactions that append can be open at once, and commit in another order than
    /// that in which they appended. What is in a pass is then settled when the pass is opened; else
    /// what was committed since may be in it too, behind the rest.
    pub open_at_once: bool,
    /// Its hints, if it has any.
    pub hints: Option<Arc<dyn OutboxHints>>,
    /// Commits an event in the way that is hinted at, if that is not every one of its producer.
    pub hinted: Option<Arc<dyn Fn(Event) -> Later<()> + Send + Sync>>,
    /// Its retention, if it has one.
    pub retain: Option<Arc<dyn OutboxRetain>>,
    /// Opens the same events once more while this outbox is open.
    pub second: Option<OpenOutbox>,
    /// Opens the same events after this outbox is gone; called when everything else was dropped.
    pub reopen: Option<OpenOutbox>,
    writes: Option<Arc<dyn Fn() -> Later<u64> + Send + Sync>>,
    guard: Option<Box<dyn Any + Send + Sync>>,
}

impl FreshOutbox {
    /// Declares an outbox with one writer, without hints and retention, that cannot be opened twice.
    #[must_use]
    pub fn new(
        store: Arc<dyn OutboxStore>,
        inspect: Arc<dyn OutboxInspect>,
        producer: Arc<dyn Producer>,
        time: Arc<dyn MoveTime>,
    ) -> Self {
        Self {
            store,
            inspect,
            producer,
            time,
            open_at_once: false,
            hints: None,
            hinted: None,
            retain: None,
            second: None,
            reopen: None,
            writes: None,
            guard: None,
        }
    }

    /// Declares that several transactions that append can be open at once.
    #[must_use]
    pub const fn with_open_at_once(mut self) -> Self {
        self.open_at_once = true;
        self
    }

    /// Declares that commits through its producer are hinted at.
    #[must_use]
    pub fn with_hints(mut self, hints: Arc<dyn OutboxHints>) -> Self {
        self.hints = Some(hints);
        self
    }

    /// Declares that those commits are hinted at which `commit` makes, such as of runs that the store
    /// itself ends: it hears of no other.
    #[must_use]
    pub fn with_hints_of(
        mut self,
        hints: Arc<dyn OutboxHints>,
        commit: impl Fn(Event) -> Later<()> + Send + Sync + 'static,
    ) -> Self {
        self.hints = Some(hints);
        self.hinted = Some(Arc::new(commit));
        self
    }

    /// Declares that it drops what every destination has.
    #[must_use]
    pub fn with_retain(mut self, retain: Arc<dyn OutboxRetain>) -> Self {
        self.retain = Some(retain);
        self
    }

    /// Says how many rows, or whatever else it counts by, this outbox has written so far.
    #[must_use]
    pub fn with_writes(mut self, writes: impl Fn() -> Later<u64> + Send + Sync + 'static) -> Self {
        self.writes = Some(Arc::new(writes));
        self
    }

    /// Says how its events are opened once more while it is open.
    #[must_use]
    pub fn with_second(
        mut self,
        open: impl Fn() -> Later<Arc<dyn OutboxStore>> + Send + Sync + 'static,
    ) -> Self {
        self.second = Some(Arc::new(open));
        self
    }

    /// Says how its events are opened after it is gone.
    #[must_use]
    pub fn with_reopen(
        mut self,
        open: impl Fn() -> Later<Arc<dyn OutboxStore>> + Send + Sync + 'static,
    ) -> Self {
        self.reopen = Some(Arc::new(open));
        self
    }

    /// Keeps something, such as a folder, for as long as the outbox is used.
    #[must_use]
    pub fn with_guard(mut self, guard: impl Any + Send + Sync) -> Self {
        self.guard = Some(Box::new(guard));
        self
    }
}

impl fmt::Debug for FreshOutbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FreshOutbox")
            .field("store", &self.store)
            .field("open_at_once", &self.open_at_once)
            .field("hints", &self.hints.is_some())
            .field("hinted", &self.hinted.is_some())
            .field("retain", &self.retain.is_some())
            .field("second", &self.second.is_some())
            .field("reopen", &self.reopen.is_some())
            .field("writes", &self.writes.is_some())
            .field("guard", &self.guard.is_some())
            .finish_non_exhaustive()
    }
}
