//! The connections to one upstream: how many there may be, which are idle, who waits for one.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use semel::Monotonic;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::link::Link;

/// Keeps connections.
pub(super) struct Pool {
    slots: Arc<Semaphore>,
    state: Mutex<State>,
    idle_max: usize,
    idle_for: Duration,
}

#[derive(Default)]
struct State {
    /// The one used last stands last.
    idle: VecDeque<Box<Link>>,
    /// Exchanges that found every connection in use, the first come first.
    waiting: VecDeque<oneshot::Sender<Box<Link>>>,
}

/// What an exchange gets that needs a connection.
pub(super) enum Place {
    /// One that another exchange has just done with.
    Link(Box<Link>),
    /// Leave to open one.
    Slot(OwnedSemaphorePermit),
}

impl Pool {
    pub(super) fn new(connections_max: usize, idle_max: usize, idle_for: Duration) -> Self {
        let slots = Arc::new(Semaphore::new(connections_max));
        Self { slots, state: Mutex::default(), idle_max, idle_for }
    }

    /// Returns the connection that was idle for the shortest time, if that is at most `idle_max`.
    pub(super) fn take(&self, now: Monotonic, idle_max: Duration) -> Option<Box<Link>> {
        let idle_max = idle_max.min(self.idle_for);
        loop {
            let mut link = {
                let idle = &mut self.lock().idle;
                if now.since(idle.back()?.idle_since) > idle_max {
                    return None;
                }
                idle.pop_back()?
            };
            if link.is_ready() {
                return Some(link);
            }
        }
    }

    /// Gives a connection that is ready to whoever waits for one, else keeps it, or closes it if
    /// enough are kept.
    pub(super) fn put(&self, mut link: Box<Link>, now: Monotonic) {
        link.idle_since = now;
        let mut state = self.lock();
        while let Some(waiting) = state.waiting.pop_front() {
            match waiting.send(link) {
                Ok(()) => return,
                Err(back) => link = back,
            }
        }
        if state.idle.len() < self.idle_max {
            state.idle.push_back(link);
        }
    }

    /// Closes what was idle for too long, or closed by the upstream.
    pub(super) fn prune(&self, now: Monotonic) {
        let mut state = self.lock();
        state.waiting.retain(|waiting| !waiting.is_closed());
        let fits =
            |link: &mut Box<Link>| now.since(link.idle_since) <= self.idle_for && link.is_ready();
        state.idle.retain_mut(fits);
    }

    /// Waits for a connection, or for leave to open one; nothing if there never will be.
    ///
    /// # Cancel safety
    ///
    /// Whatever was got is given back.
    pub(super) async fn place(&self) -> Option<Place> {
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return Some(Place::Slot(slot));
        }
        let given = {
            let mut state = self.lock();
            // An idle connection that this exchange may not use makes room for one it may.
            drop(state.idle.pop_front());
            let (give, given) = oneshot::channel();
            state.waiting.push_back(give);
            given
        };
        tokio::select! {
            slot = Arc::clone(&self.slots).acquire_owned() => slot.ok().map(Place::Slot),
            Ok(link) = given => Some(Place::Link(link)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
