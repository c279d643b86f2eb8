//! Waiting for another holder, without holding anything: no connection, no lock, no task.
//!
//! Whoever ends an intent in this process wakes its waiters. Where other processes share the store,
//! one poll per process reads all awaited keys in one batch, and a store that hints at ends elsewhere
//! spares it the pause. The number of waiters is bounded, so that they cannot starve the holder they
//! wait for.
//!
//! The engine waits so for leases. A store waits so for transactions that hold an intent.

mod poll;

use std::{
    collections::BTreeMap,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::{Notify, broadcast, futures::OwnedNotified};
use tokio_util::sync::CancellationToken;

use super::Tasks;
use crate::{
    clock::Clock,
    error::StoreError,
    key::IntentId,
    store::{Reading, capability::Hint},
};

/// Those who wait for other holders in this process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Waiters {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    max: usize,
    poll_every: Duration,
    clock: Arc<dyn Clock>,
    tasks: Tasks,
    closing: CancellationToken,
    keys: Mutex<Keys>,
    /// Tells the poll of a key that nobody awaited before.
    fresh: Notify,
}

#[derive(Debug, Default)]
struct Keys {
    waiting: usize,
    polling: bool,
    by_id: BTreeMap<IntentId, Awaited>,
}

#[derive(Debug)]
struct Awaited {
    notify: Arc<Notify>,
    waiters: usize,
}

/// Reads awaited records for the poll.
#[async_trait]
pub trait Peek: fmt::Debug + Send + Sync + 'static {
    /// Reads records and the store's time, in the order asked, without a lock and in bounded time.
    ///
    /// # Errors
    ///
    /// A poll that fails is a poll that saw nothing.
    async fn peek(&self, ids: Vec<IntentId>) -> Result<Reading, StoreError>;

    /// Returns the hints from now on, if whoever has the records hints at ends.
    fn hints(&self) -> Option<broadcast::Receiver<Hint>> {
        None
    }

    /// Reads as [`Peek::peek`] does, and asks that ends from then on be hinted at.
    ///
    /// # Errors
    ///
    /// A poll that fails is a poll that saw nothing.
    async fn watch(&self, ids: Vec<IntentId>) -> Result<Reading, StoreError> {
        self.peek(ids).await
    }
}

/// A place among the waiters; dropping it gives the place back.
#[derive(Debug)]
pub struct Place {
    waiters: Waiters,
    id: IntentId,
    notify: Arc<Notify>,
}

/// What a waiter waits for: the next wake-up since it was made.
pub type Woken = Pin<Box<OwnedNotified>>;

impl Waiters {
    /// How often awaited keys are read, unless set otherwise.
    pub const POLL_EVERY: Duration = Duration::from_millis(50);
    /// How many may wait, unless set otherwise.
    pub const MAX: usize = 1_000;

    /// Makes room for `max` waiters. Their polls run on `tasks` until `closing`.
    #[must_use]
    pub fn new(
        max: usize,
        poll_every: Duration,
        clock: Arc<dyn Clock>,
        tasks: impl Into<Tasks>,
        closing: CancellationToken,
    ) -> Self {
        let (tasks, keys, fresh) = (tasks.into(), Mutex::default(), Notify::new());
        Self { inner: Arc::new(Inner { max, poll_every, clock, tasks, closing, keys, fresh }) }
    }

    /// Returns how many wait now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().waiting
    }

    /// Returns whether nobody waits now.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Wakes everybody who waits for `id`: it has ended.
    pub fn wake_all(&self, id: &IntentId) {
        if let Some(awaited) = self.lock().by_id.get(id) {
            awaited.notify.notify_waiters();
        }
    }

    /// Wakes one who waits for `id`: it can be claimed. If that one goes away, the next is woken.
    pub fn wake_one(&self, id: &IntentId) {
        if let Some(awaited) = self.lock().by_id.get(id) {
            awaited.notify.notify_one();
        }
    }

    /// Takes a place among the waiters for `id`; `None` if all places are taken. Where other processes
    /// share the records, `peek` reads them for a poll.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    #[must_use]
    pub fn place(&self, id: &IntentId, peek: Option<&Arc<dyn Peek>>) -> Option<Place> {
        let mut keys = self.lock();
        if keys.waiting >= self.inner.max {
            return None;
        }
        keys.waiting += 1;
        let awaited = keys.by_id.entry(id.clone()).or_insert_with(|| {
            self.inner.fresh.notify_one();
            Awaited { notify: Arc::default(), waiters: 0 }
        });
        awaited.waiters += 1;
        let notify = Arc::clone(&awaited.notify);
        if let Some(peek) = peek.filter(|_| !keys.polling) {
            keys.polling = true;
            let (waiters, peek) = (self.clone(), Arc::clone(peek));
            self.inner.tasks.spawn(async move { waiters.poll(&*peek).await });
        }
        drop(keys);
        Some(Place { waiters: self.clone(), id: id.clone(), notify })
    }

    /// Returns the turn of a waiter for `id`.
    #[must_use]
    pub fn turn<'a>(&'a self, id: &'a IntentId) -> Turn<'a> {
        Turn { waiters: self, id, mine: false }
    }

    fn lock(&self) -> MutexGuard<'_, Keys> {
        self.inner.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Returns the next wake-up from now on: it is kept until it is waited for.
    #[must_use]
    pub fn woken(&self) -> Woken {
        let mut woken = Box::pin(Arc::clone(&self.notify).notified_owned());
        woken.as_mut().enable();
        woken
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut keys = self.waiters.lock();
        keys.waiting = keys.waiting.saturating_sub(1);
        if let Some(awaited) = keys.by_id.get_mut(&self.id) {
            awaited.waiters -= 1;
            if awaited.waiters == 0 {
                keys.by_id.remove(&self.id);
            }
        }
    }
}

/// The turn of a waiter that was woken alone. Unless it becomes the holder or meets one, who will wake
/// the next, it passes the turn on.
#[derive(Debug)]
pub struct Turn<'a> {
    waiters: &'a Waiters,
    id: &'a IntentId,
    mine: bool,
}

impl Turn<'_> {
    /// Notes that it was woken.
    pub const fn begins(&mut self) {
        self.mine = true;
    }

    /// Notes that it became the holder or met one.
    pub const fn ends(&mut self) {
        self.mine = false;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.mine {
            self.waiters.wake_one(self.id);
        }
    }
}
