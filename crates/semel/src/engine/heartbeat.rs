//! Keeping leases alive while the work runs, and telling the work when one is lost.
//!
//! One task renews every lease of the engine, in batches, three times in a lease. A holder's own
//! deadline is the instant before its claim or last renewal was sent, plus the lease: past it the
//! holder is told that its lease is lost, whether or not anybody else was granted the intent.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{Engine, abandon::Copies};
use crate::{
    clock::Monotonic,
    error::{StoreError, StoreErrorKind},
    record::{Permit, Record, State},
    store::{BATCH_MAX, Renew, Renewed},
    telemetry::count,
};

/// How long the task stays while nothing is held.
const IDLE: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Heartbeat {
    beats: Mutex<Beats>,
    /// An earlier renewal is due than before.
    earlier: Notify,
    /// Nothing is held.
    empty: Notify,
}

#[derive(Debug, Default)]
struct Beats {
    /// Ordered by when the renewal is due; the number keeps equal instants apart.
    due: BTreeMap<(Monotonic, u64), Arc<Beat>>,
    holders: usize,
    next: u64,
    running: bool,
    /// When the task looks again by itself.
    wakes_at: Monotonic,
}

/// One lease that is kept alive.
#[derive(Debug)]
pub(super) struct Beat {
    pub(super) permit: Permit,
    pub(super) lease: Duration,
    pub(super) lost: CancellationToken,
    /// Which copies of the claim may still arrive.
    pub(super) copies: Copies,
    state: Mutex<BeatState>,
}

#[derive(Debug)]
struct BeatState {
    deadline: Monotonic,
    place: Option<(Monotonic, u64)>,
    /// The last renewal was not answered.
    failing: bool,
    /// The work has ended, and its end is being stored.
    ending: bool,
    over: bool,
}

impl Beat {
    /// Returns until when the holder may believe in its lease.
    pub(super) fn deadline(&self) -> Monotonic {
        self.lock().deadline
    }

    fn lock(&self) -> MutexGuard<'_, BeatState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn renewed(&self, sent: Monotonic) {
        let mut state = self.lock();
        state.deadline = state.deadline.max(sent.after(self.lease));
        state.failing = false;
    }

    /// Says that the work has ended: a renewal that meets its end tells nobody.
    pub(super) fn ends(&self) {
        self.lock().ending = true;
    }

    /// Returns until when a renewal sent at `sent` is waited for: never past the deadline, at which
    /// the holder must be told.
    fn patience(&self, sent: Monotonic) -> Monotonic {
        let (deadline, patience) = (self.deadline(), sent.after(self.lease / 4));
        if deadline > sent { patience.min(deadline) } else { patience }
    }

    /// Says whether the deadline has come while renewals fail. A deadline that was missed for another
    /// reason, as by a machine that slept, is none: the renewal decides then.
    fn is_out_of_time(&self, now: Monotonic) -> bool {
        let state = self.lock();
        state.failing && now >= state.deadline
    }
}

impl Heartbeat {
    fn lock(&self) -> MutexGuard<'_, Beats> {
        self.beats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> usize {
        self.lock().holders
    }

    /// Waits until nothing is held.
    pub(super) async fn drained(&self) {
        loop {
            let empty = self.empty.notified();
            tokio::pin!(empty);
            empty.as_mut().enable();
            if self.len() == 0 {
                return;
            }
            empty.await;
        }
    }

    /// Wakes the task, which sleeps until a renewal is due that nobody needs any more.
    pub(super) fn look_again(&self) {
        self.earlier.notify_waiters();
    }

    fn schedule(&self, beat: &Arc<Beat>, at: Monotonic) {
        let mut beats = self.lock();
        let mut state = beat.lock();
        if state.over {
            return;
        }
        let place = (at, beats.next);
        beats.next += 1;
        state.place = Some(place);
        // Short runs come and go while the task sleeps; it need not hear of those due later anyway.
        let earlier = at < beats.wakes_at;
        beats.due.insert(place, Arc::clone(beat));
        drop(state);
        drop(beats);
        if earlier {
            self.earlier.notify_waiters();
        }
    }

    fn take_due(&self, now: Monotonic) -> Vec<Arc<Beat>> {
        let mut beats = self.lock();
        let mut taken = Vec::new();
        while taken.len() < BATCH_MAX {
            match beats.due.first_entry() {
                Some(entry) if entry.key().0 <= now => taken.push(entry.remove()),
                _ => break,
            }
        }
        taken
    }
}

impl Engine {
    /// Begins to keep the lease of `permit`, whose claim was sent at `sent`.
    pub(super) fn beat(
        &self,
        permit: Permit,
        lease: Duration,
        sent: Monotonic,
        copies: Copies,
    ) -> Arc<Beat> {
        let state = BeatState {
            deadline: sent.after(lease),
            place: None,
            failing: false,
            ending: false,
            over: false,
        };
        let lost = CancellationToken::new();
        let beat = Arc::new(Beat { permit, lease, lost, copies, state: Mutex::new(state) });
        let heartbeat = &self.inner.heartbeat;
        let start = {
            let mut beats = heartbeat.lock();
            beats.holders += 1;
            !std::mem::replace(&mut beats.running, true)
        };
        heartbeat.schedule(&beat, sent.after(lease / 3));
        if start {
            let engine = self.clone();
            self.inner.tasks.spawn(async move { engine.keep_leases().await });
        }
        beat
    }

    /// Ends keeping a lease.
    pub(super) fn end_beat(&self, beat: &Arc<Beat>) {
        let heartbeat = &self.inner.heartbeat;
        let mut beats = heartbeat.lock();
        let mut state = beat.lock();
        if std::mem::replace(&mut state.over, true) {
            return;
        }
        beats.holders -= 1;
        if let Some(place) = state.place {
            beats.due.remove(&place);
        }
        let last = beats.holders == 0;
        drop(state);
        drop(beats);
        if last {
            heartbeat.empty.notify_waiters();
        }
    }

    /// Renews what is due, until nothing was held for a while.
    async fn keep_leases(&self) {
        let heartbeat = &self.inner.heartbeat;
        loop {
            let earlier = heartbeat.earlier.notified();
            tokio::pin!(earlier);
            earlier.as_mut().enable();
            let (until, holders) = {
                let mut beats = heartbeat.lock();
                let next = beats.due.first_key_value().map(|(place, _)| place.0);
                beats.wakes_at = next.unwrap_or_else(|| self.now().after(IDLE));
                (beats.wakes_at, beats.holders)
            };
            let woken = tokio::select! {
                biased;
                () = earlier => true,
                () = self.inner.clock.sleep_until(until) => false,
                () = self.inner.closing.cancelled(), if holders == 0 => false,
            };
            let now = self.now();
            let (lost, due): (Vec<_>, Vec<_>) =
                heartbeat.take_due(now).into_iter().partition(|beat| beat.is_out_of_time(now));
            lost.iter().for_each(|beat| self.lose(beat));
            if !due.is_empty() {
                // A store that hangs on one batch must not keep the next from being renewed.
                let engine = self.clone();
                self.inner.tasks.spawn(async move { engine.renew_all(due).await });
            } else if !woken {
                let mut beats = heartbeat.lock();
                if beats.holders == 0 {
                    // The next holder starts the task again.
                    beats.running = false;
                    return;
                }
            }
        }
    }

    async fn renew_all(&self, due: Vec<Arc<Beat>>) {
        let sent = self.now();
        let until = due.iter().map(|beat| beat.patience(sent)).min().unwrap_or(sent);
        let renewals: Vec<_> = due.iter().map(|b| Renew::of(&b.permit, b.lease)).collect();
        let store = Arc::clone(&self.inner.store);
        let call = self.spawned(async move { store.renew(renewals).await });
        let renewed = self.owned_until(until, call).await;
        let now = self.now();
        match renewed {
            Ok(answers) => {
                for (beat, answer) in due.iter().zip(answers) {
                    match answer {
                        Renewed::Held => {
                            beat.renewed(sent);
                            self.inner.heartbeat.schedule(beat, sent.after(beat.lease / 3));
                        }
                        // The deadline stays where it was: past it no effect begins before a
                        // renewal succeeds, and the work that has begun goes on.
                        Renewed::Busy => {
                            beat.lock().failing = false;
                            self.inner.heartbeat.schedule(beat, now.after(beat.lease / 10));
                        }
                        Renewed::Stale if self.is_bridged() => {
                            let (engine, beat) = (self.clone(), Arc::clone(beat));
                            self.inner
                                .tasks
                                .spawn(async move { engine.ended_or_lost(&beat).await });
                        }
                        Renewed::Stale => self.lose(beat),
                    }
                }
            }
            Err(error) => {
                count(&self.inner.counters.store_errors);
                tracing::warn!(%error, leases = due.len(), "leases could not be renewed");
                for beat in &due {
                    beat.lock().failing = true;
                    let again = now.after(beat.lease / 10).min(beat.deadline());
                    self.inner.heartbeat.schedule(beat, again);
                }
            }
        }
    }

    /// Tells a run that its application has ended, which renews no lease and has lost none, from one
    /// that was overtaken.
    async fn ended_or_lost(&self, beat: &Arc<Beat>) {
        let (store, id) = (Arc::clone(&self.inner.store), beat.permit.id.clone());
        let until = beat.patience(self.now());
        let read = self.owned_until(until, async move { store.read(vec![id]).await }).await;
        let own = |record: &Record| {
            record.permit() == beat.permit
                && record.resolved_by.is_none()
                && !matches!(record.state, State::Running | State::Unknown)
        };
        if read.is_ok_and(|reading| reading.records.iter().flatten().any(own)) {
            beat.ends();
            self.inner.waiters.wake_all(&beat.permit.id);
        } else {
            self.lose(beat);
        }
    }

    fn lose(&self, beat: &Arc<Beat>) {
        let state = beat.lock();
        if state.over || state.ending || beat.lost.is_cancelled() {
            return;
        }
        drop(state);
        count(&self.inner.counters.lost);
        tracing::warn!(
            operation = %beat.permit.id.scope.operation,
            fence = beat.permit.fence.get(),
            "a lease was lost while its holder worked"
        );
        beat.lost.cancel();
    }

    /// Renews one lease now; whether it is held.
    pub(super) async fn renew_now(&self, beat: &Arc<Beat>) -> Result<bool, StoreError> {
        let sent = self.now();
        let renewal = vec![Renew::of(&beat.permit, beat.lease)];
        let store = Arc::clone(&self.inner.store);
        let until = sent.after(beat.lease / 2);
        let renewed = self.owned_until(until, async move { store.renew(renewal).await }).await?;
        match renewed.first() {
            Some(Renewed::Held) => {
                beat.renewed(sent);
                Ok(true)
            }
            Some(Renewed::Busy) => Err(StoreError::new(
                StoreErrorKind::Busy,
                "an open transaction holds the intent, so its lease cannot be renewed; try again",
            )),
            Some(Renewed::Stale) | None => {
                self.lose(beat);
                Ok(false)
            }
        }
    }
}
