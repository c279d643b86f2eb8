//! Waiting for another holder, without holding anything: no connection, no lock, no task.
//!
//! Whoever ends an intent in this process wakes its waiters. Where other processes share the store,
//! one poll per process reads all awaited keys in one batch. The number of waiters is bounded, so
//! that they cannot starve the holder they wait for.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use super::Engine;
use crate::{
    key::IntentId,
    record::{Phase, Record, State},
    store::{BATCH_MAX, Reading},
};

#[derive(Debug)]
pub(super) struct Waiters {
    max: usize,
    poll_every: Duration,
    keys: Mutex<Keys>,
}

#[derive(Debug, Default)]
struct Keys {
    waiting: usize,
    polling: bool,
    by_id: HashMap<IntentId, Awaited>,
}

#[derive(Debug)]
struct Awaited {
    notify: Arc<Notify>,
    waiters: usize,
}

/// A place among the waiters; dropping it gives the place back.
#[derive(Debug)]
pub(super) struct Place {
    engine: Engine,
    id: IntentId,
    notify: Arc<Notify>,
}

impl Waiters {
    pub(super) fn new(max: usize, poll_every: Duration) -> Self {
        Self { max, poll_every, keys: Mutex::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.lock().waiting
    }

    /// Wakes everybody who waits for `id`: it has ended.
    pub(super) fn wake_all(&self, id: &IntentId) {
        if let Some(awaited) = self.lock().by_id.get(id) {
            awaited.notify.notify_waiters();
        }
    }

    /// Wakes one who waits for `id`: it can be claimed. If that one goes away, the next is woken.
    pub(super) fn wake_one(&self, id: &IntentId) {
        if let Some(awaited) = self.lock().by_id.get(id) {
            awaited.notify.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Takes a place among the waiters for `id`; `None` if all places are taken.
    pub(super) fn place(&self, id: &IntentId) -> Option<Place> {
        let waiters = &self.inner.waiters;
        let mut keys = waiters.lock();
        if keys.waiting >= waiters.max {
            return None;
        }
        keys.waiting += 1;
        let awaited = keys
            .by_id
            .entry(id.clone())
            .or_insert_with(|| Awaited { notify: Arc::default(), waiters: 0 });
        awaited.waiters += 1;
        let notify = Arc::clone(&awaited.notify);
        if !keys.polling && self.inner.store.capabilities().shared {
            keys.polling = true;
            let engine = self.clone();
            self.inner.tasks.spawn(async move { engine.poll().await });
        }
        drop(keys);
        Some(Place { engine: self.clone(), id: id.clone(), notify })
    }

    /// Reads all awaited keys in one batch, again and again while somebody waits. An idle poll slows
    /// down to ten times its period.
    async fn poll(&self) {
        let waiters = &self.inner.waiters;
        let mut pause = waiters.poll_every;
        loop {
            tokio::select! {
                () = self.inner.clock.sleep_until(self.now().after(pause)) => {}
                () = self.inner.closing.cancelled() => {}
            }
            let ids: Vec<IntentId> = {
                let mut keys = waiters.lock();
                if keys.by_id.is_empty() || self.inner.closing.is_cancelled() {
                    keys.polling = false;
                    return;
                }
                keys.by_id.keys().cloned().collect()
            };
            let woken = self.poll_once(&ids).await;
            pause = if woken { waiters.poll_every } else { pause.mul_f32(1.25) };
            pause = pause.min(waiters.poll_every * 10);
        }
    }

    async fn poll_once(&self, ids: &[IntentId]) -> bool {
        let mut woken = false;
        for ids in ids.chunks(BATCH_MAX) {
            let store = Arc::clone(&self.inner.store);
            let asked = ids.to_vec();
            let until = self.now().after(super::ASK_FOR);
            // A poll that fails is a poll that saw nothing: waiters have their own bound.
            let Ok(Reading { records, now }) =
                self.owned_until(until, async move { store.read(asked).await }).await
            else {
                continue;
            };
            for (id, record) in ids.iter().zip(&records) {
                woken |= match found(record.as_ref(), now) {
                    Found::Claimable => {
                        self.inner.waiters.wake_one(id);
                        true
                    }
                    Found::Ended => {
                        self.inner.waiters.wake_all(id);
                        true
                    }
                    Found::Held => false,
                };
            }
        }
        woken
    }
}

enum Found {
    Claimable,
    Ended,
    Held,
}

fn found(record: Option<&Record>, now: crate::clock::Timestamp) -> Found {
    match record.map(|record| (record, record.phase(now))) {
        None | Some((_, Phase::Absent | Phase::Stored(State::Open))) => Found::Claimable,
        Some((record, Phase::Stored(State::Running))) if record.lapsed(now) => Found::Claimable,
        Some((_, Phase::Stored(State::Running))) => Found::Held,
        Some(_) => Found::Ended,
    }
}

impl Place {
    /// Returns what is woken when the intent ends or can be claimed.
    pub(super) fn notify(&self) -> &Arc<Notify> {
        &self.notify
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut keys = self.engine.inner.waiters.lock();
        keys.waiting = keys.waiting.saturating_sub(1);
        if let Some(awaited) = keys.by_id.get_mut(&self.id) {
            awaited.waiters -= 1;
            if awaited.waiters == 0 {
                keys.by_id.remove(&self.id);
            }
        }
    }
}
