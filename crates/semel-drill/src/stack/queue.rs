//! What is still to be asked for, and when.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// One caller of one intent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) number: u64,
    pub(super) tries: u32,
    pub(super) begun: Instant,
}

impl Job {
    /// Wants an intent for the first time.
    pub(super) fn new(number: u64) -> Self {
        Self { number, tries: 0, begun: Instant::now() }
    }
}

/// The callers that are not answered yet.
#[derive(Debug, Default)]
pub(super) struct Queue(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    now: VecDeque<Job>,
    /// By when they are due; the count keeps apart those that are due at one instant.
    later: BTreeMap<(Instant, u64), Job>,
    count: u64,
}

impl Queue {
    /// Asks at once.
    pub(super) fn now(&self, job: Job) {
        self.lock().now.push_back(job);
    }

    /// Asks after a while.
    pub(super) fn later(&self, job: Job, after: Duration) {
        let mut waiting = self.lock();
        waiting.count += 1;
        let count = waiting.count;
        waiting.later.insert((Instant::now() + after, count), job);
    }

    /// Takes one that is due.
    pub(super) fn due(&self) -> Option<Job> {
        let mut waiting = self.lock();
        let now = Instant::now();
        let due = waiting.later.first_key_value().is_some_and(|((due, _), _)| *due <= now);
        match due {
            true => waiting.later.pop_first().map(|(_, job)| job),
            false => waiting.now.pop_front(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
