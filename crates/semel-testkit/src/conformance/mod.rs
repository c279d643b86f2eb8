//! What every store promises, as one function per promise.
//!
//! A store stamps the whole suite with one line, and gets one named test per promise:
//!
//! ```
//! use std::sync::Arc;
//! use semel::store::memory::MemoryStore;
//! use semel_testkit::{Fresh, ManualClock, StoreUnderTest};
//!
//! struct Memory;
//!
//! #[async_trait::async_trait]
//! impl StoreUnderTest for Memory {
//!     async fn fresh() -> Fresh {
//!         let clock = ManualClock::new();
//!         let store = Arc::new(MemoryStore::with_clock(clock.clone()));
//!         Fresh::new(store.clone(), store.clone(), clock).with_sweep(store)
//!     }
//! }
//!
//! semel_testkit::conformance!(Memory);
//! # fn main() {}
//! ```
//!
//! What a store can do beyond the verbs is declared in [`Fresh`], as data. A promise that needs a
//! power which is not declared shows that the store does not have it.

pub mod bridge;
pub mod cancel;
pub mod claim;
pub mod concurrency;
pub mod expiry;
pub mod fencing;
pub mod hints;
pub mod inbox;
pub mod inspect;
pub mod lease;
pub mod limits;
pub mod moving;
pub mod outbox;
pub mod outcome;
pub mod powers;
pub mod publisher;
pub mod refusal;
pub mod release;
pub mod resolve;
pub mod scope;
pub mod source;
mod stamp;
pub mod sweep;
mod verbs;

use std::{any::Any, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use semel::{
    Store, Timestamp,
    store::{
        capability::{Bridge, Inspect, Notify, Sweep},
        moving::Move,
    },
};

use crate::clock::ManualClock;

/// A boxed future that owns what it needs.
pub type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Opens the records of a [`Fresh`] again, as another process or a restarted one does.
pub type Open = Arc<dyn Fn() -> Later<Arc<dyn Store>> + Send + Sync>;

/// A store that keeps the promises.
#[async_trait]
pub trait StoreUnderTest: Send + Sync + 'static {
    /// Makes an empty store that shares nothing with any other.
    async fn fresh() -> Fresh;
}

/// How a test moves the time that a store decides by.
#[async_trait]
pub trait MoveTime: Send + Sync + 'static {
    /// Moves it forward.
    async fn advance(&self, by: Duration);

    /// Turns back whatever clock the store reads.
    async fn turn_back(&self, by: Duration);
}

#[async_trait]
impl MoveTime for ManualClock {
    async fn advance(&self, by: Duration) {
        Self::advance(self, by);
    }

    /// Sets the wall alone: the monotonic count of a machine never turns back.
    async fn turn_back(&self, by: Duration) {
        use semel::Clock;
        let wall = self.wall().as_micros();
        let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.set_wall(Timestamp::from_micros(wall.saturating_sub(by)));
    }
}

/// What a store does when the clock that it reads is turned back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TurnedBack {
    /// Its time goes back too, as that of a promoted standby.
    Follows,
    /// Its time goes on, as that of an embedded store.
    GoesOn,
}

/// An empty store, and what it declares about itself.
pub struct Fresh {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Its reads for operators.
    pub inspect: Arc<dyn Inspect>,
    /// Its bridge, if it has one.
    pub bridge: Option<Arc<dyn Bridge>>,
    /// How records are taken out of it and into it, if they can be.
    pub mover: Option<Arc<dyn Move>>,
    /// How it hints at the ends of runs, if it does.
    pub notify: Option<Arc<dyn Notify>>,
    /// Its sweep, if it has one.
    pub sweep: Option<Arc<dyn Sweep>>,
    /// What moves its time.
    pub time: Arc<dyn MoveTime>,
    /// What it does when its clock is turned back.
    pub turned_back: TurnedBack,
    /// Opens the same records once more while this store is open.
    pub second: Option<Open>,
    /// Opens the same records after this store is gone; called when `store` was dropped.
    pub reopen: Option<Open>,
    guard: Option<Box<dyn Any + Send + Sync>>,
}

impl Fresh {
    /// Declares a store that cannot be opened twice and does not sweep.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, inspect: Arc<dyn Inspect>, time: Arc<dyn MoveTime>) -> Self {
        Self {
            store,
            inspect,
            bridge: None,
            mover: None,
            notify: None,
            sweep: None,
            time,
            turned_back: TurnedBack::GoesOn,
            second: None,
            reopen: None,
            guard: None,
        }
    }

    /// Declares that what runs behind a permit may end the run.
    #[must_use]
    pub fn with_bridge(mut self, bridge: Arc<dyn Bridge>) -> Self {
        self.bridge = Some(bridge);
        self
    }

    /// Declares that records can be taken out of it and into it.
    #[must_use]
    pub fn with_move(mut self, mover: Arc<dyn Move>) -> Self {
        self.mover = Some(mover);
        self
    }

    /// Declares that it hints at the ends of runs.
    #[must_use]
    pub fn with_notify(mut self, notify: Arc<dyn Notify>) -> Self {
        self.notify = Some(notify);
        self
    }

    /// Declares that it sweeps.
    #[must_use]
    pub fn with_sweep(mut self, sweep: Arc<dyn Sweep>) -> Self {
        self.sweep = Some(sweep);
        self
    }

    /// Declares what it does when its clock is turned back.
    #[must_use]
    pub const fn when_turned_back(mut self, turned_back: TurnedBack) -> Self {
        self.turned_back = turned_back;
        self
    }

    /// Says how its records are opened once more while it is open.
    #[must_use]
    pub fn with_second(
        mut self,
        open: impl Fn() -> Later<Arc<dyn Store>> + Send + Sync + 'static,
    ) -> Self {
        self.second = Some(Arc::new(open));
        self
    }

    /// Says how its records are opened after it is gone.
    #[must_use]
    pub fn with_reopen(
        mut self,
        open: impl Fn() -> Later<Arc<dyn Store>> + Send + Sync + 'static,
    ) -> Self {
        self.reopen = Some(Arc::new(open));
        self
    }

    /// Keeps something, such as a folder, for as long as the store is used.
    #[must_use]
    pub fn with_guard(mut self, guard: impl Any + Send + Sync) -> Self {
        self.guard = Some(Box::new(guard));
        self
    }
}

impl fmt::Debug for Fresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fresh")
            .field("store", &self.store)
            .field("bridge", &self.bridge.is_some())
            .field("mover", &self.mover.is_some())
            .field("notify", &self.notify.is_some())
            .field("sweep", &self.sweep.is_some())
            .field("turned_back", &self.turned_back)
            .field("second", &self.second.is_some())
            .field("reopen", &self.reopen.is_some())
            .field("guard", &self.guard.is_some())
            .finish_non_exhaustive()
    }
}
