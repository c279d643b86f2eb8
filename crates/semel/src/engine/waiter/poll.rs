//! The poll: reads all awaited keys in batches, again and again while somebody waits, and at once those that are new
//! or hinted at.

use std::{collections::BTreeSet, time::Duration};

use tokio::sync::broadcast::{
    Receiver,
    error::{RecvError, TryRecvError},
};

use super::{Inner, Peek, Waiters};
use crate::{
    clock::{Monotonic, Timestamp},
    key::IntentId,
    record::{Phase, Record, State},
    store::{BATCH_MAX, Reading, capability::Hint},
};

/// How long a wish for hints is taken to hold: less than stores promise.
const WATCHED_FOR: Duration = Duration::from_secs(20);

/// What the poll does next.
enum Next {
    /// Time has come to read all.
    All,
    /// A key is awaited that was not before.
    Fresh,
    /// These may have ended.
    Hinted(BTreeSet<IntentId>),
    /// Any may have ended.
    Missed,
}

struct Poll<'a> {
    waiters: &'a Waiters,
    peek: &'a dyn Peek,
    /// The hints, as long as there are any.
    hints: Option<Receiver<Hint>>,
    /// Of which keys hints are asked for.
    watched: BTreeSet<IntentId>,
    /// When they are asked for again.
    watch_again: Monotonic,
}

impl Waiters {
    /// Polls until nobody waits. An idle poll slows down to ten times its period.
    pub(super) async fn poll(&self, peek: &dyn Peek) {
        let Inner { poll_every, clock, .. } = &*self.inner;
        let mut poll = Poll {
            waiters: self,
            peek,
            hints: peek.hints(),
            watched: BTreeSet::new(),
            watch_again: clock.monotonic().after(WATCHED_FOR),
        };
        let mut pause = *poll_every;
        let mut due = clock.monotonic().after(pause);
        loop {
            let next = poll.next(due).await;
            let Some(awaited) = self.awaited() else { return };
            let is_all = matches!(next, Next::All);
            let woken = poll.step(next, awaited).await;
            if is_all {
                pause = if woken { *poll_every } else { pause.mul_f32(1.25) };
                pause = pause.min(*poll_every * 10);
                due = clock.monotonic().after(pause);
            }
        }
    }

    /// Returns the awaited keys; if there are none the poll has ended.
    fn awaited(&self) -> Option<BTreeSet<IntentId>> {
        let mut keys = self.lock();
        if keys.by_id.is_empty() || self.inner.closing.is_cancelled() {
            keys.polling = false;
            return None;
        }
        Some(keys.by_id.keys().cloned().collect())
    }
}

impl Poll<'_> {
    async fn next(&mut self, due: Monotonic) -> Next {
        let Inner { clock, closing, fresh, .. } = &*self.waiters.inner;
        let is_hinted = self.hints.is_some();
        loop {
            let hint = async {
                match &mut self.hints {
                    Some(hints) => hints.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = closing.cancelled() => return Next::All,
                () = clock.sleep_until(due) => return Next::All,
                () = fresh.notified(), if is_hinted => return Next::Fresh,
                hint = hint => match hint {
                    Ok(hint) => return self.and_what_else(hint),
                    Err(RecvError::Lagged(_)) => return Next::Missed,
                    Err(RecvError::Closed) => self.hints = None,
                },
            }
        }
    }

    /// Takes what else was hinted at meanwhile: it is read together.
    fn and_what_else(&mut self, first: Hint) -> Next {
        let mut ended = BTreeSet::new();
        let mut hint = Ok(first);
        loop {
            match hint {
                Ok(Hint::Ended(id)) => ended.insert(id),
                Ok(Hint::Missed) | Err(TryRecvError::Lagged(_)) => return Next::Missed,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return Next::Hinted(ended),
            };
            hint = self.hints.as_mut().map_or(Err(TryRecvError::Closed), Receiver::try_recv);
        }
    }

    /// Does what is next, and says whether somebody was woken.
    async fn step(&mut self, next: Next, awaited: BTreeSet<IntentId>) -> bool {
        if self.hints.is_none() {
            return self.peeked(awaited.into_iter().collect()).await;
        }
        let now = self.waiters.inner.clock.monotonic();
        self.watched.retain(|id| awaited.contains(id));
        if matches!(next, Next::Missed) || now >= self.watch_again {
            self.watched.clear();
            self.watch_again = now.after(WATCHED_FOR);
        }
        let is_fresh = |id: &IntentId| !self.watched.contains(id);
        let (fresh, known): (Vec<_>, Vec<_>) = match next {
            Next::All => awaited.into_iter().partition(is_fresh),
            Next::Fresh | Next::Missed => (awaited.into_iter().filter(is_fresh).collect(), vec![]),
            Next::Hinted(ended) => (vec![], ended.intersection(&awaited).cloned().collect()),
        };
        let woken = self.watched(fresh).await;
        self.peeked(known).await || woken
    }

    async fn peeked(&self, ids: Vec<IntentId>) -> bool {
        let mut woken = false;
        for ids in ids.chunks(BATCH_MAX) {
            // A poll that fails is a poll that saw nothing: waiters have their own bound.
            if let Ok(reading) = self.peek.peek(ids.to_vec()).await {
                woken |= self.wake(ids, &reading);
            }
        }
        woken
    }

    /// Reads keys, and asks for hints of them. Where that cannot be had they are read alone.
    async fn watched(&mut self, ids: Vec<IntentId>) -> bool {
        let mut woken = false;
        for ids in ids.chunks(BATCH_MAX) {
            match self.peek.watch(ids.to_vec()).await {
                Ok(reading) => {
                    woken |= self.wake(ids, &reading);
                    self.watched.extend(ids.iter().cloned());
                }
                Err(error) => {
                    tracing::debug!(%error, "no hints can be asked for; polling goes on");
                    woken |= self.peeked(ids.to_vec()).await;
                }
            }
        }
        woken
    }

    /// Wakes those whose turn it is by what was read.
    fn wake(&self, ids: &[IntentId], reading: &Reading) -> bool {
        let mut woken = false;
        for (id, record) in ids.iter().zip(&reading.records) {
            woken |= match found(record.as_ref(), reading.now) {
                Found::Claimable => {
                    self.waiters.wake_one(id);
                    true
                }
                Found::Ended => {
                    self.waiters.wake_all(id);
                    true
                }
                Found::Held => false,
            };
        }
        woken
    }
}

enum Found {
    Claimable,
    Ended,
    Held,
}

fn found(record: Option<&Record>, now: Timestamp) -> Found {
    match record.map(|record| (record, record.phase(now))) {
        None | Some((_, Phase::Absent | Phase::Stored(State::Open))) => Found::Claimable,
        Some((record, Phase::Stored(State::Running))) if record.lapsed(now) => Found::Claimable,
        Some((_, Phase::Stored(State::Running))) => Found::Held,
        Some(_) => Found::Ended,
    }
}
