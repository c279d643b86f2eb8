//! The bounded queue before the writer.
//!
//! Two lanes: what ends a run goes before what begins one, so that waiters who claim again and again
//! never starve the holder they wait for. Each lane has its own bound, so that claims cannot shut
//! completions out either.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

use semel::StoreError;

use crate::error::{gone, queue_full};

/// Which lane.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Lane {
    /// Ends and renewals of runs.
    First,
    /// Claims, releases of claims whose answer was lost, and all that can wait.
    Later,
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Queue<J> {
    lanes: Mutex<Lanes<J>>,
    ready: Condvar,
    max: usize,
}

#[derive(Debug)]
struct Lanes<J> {
    first: VecDeque<J>,
    later: VecDeque<J>,
    /// How many threads wait for a job: waking nobody costs a call of the kernel all the same.
    idle: usize,
    closed: bool,
}

impl<J> Queue<J> {
    /// Makes a queue whose lanes hold `max` jobs each.
    pub(crate) fn new(max: usize) -> Self {
        let lanes =
            Lanes { first: VecDeque::new(), later: VecDeque::new(), idle: 0, closed: false };
        Self { lanes: Mutex::new(lanes), ready: Condvar::new(), max }
    }

    fn lock(&self) -> MutexGuard<'_, Lanes<J>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job, or says at once that there is no room.
    pub(crate) fn push(&self, lane: Lane, job: J) -> Result<(), StoreError> {
        let mut lanes = self.lock();
        if lanes.closed {
            return Err(gone());
        }
        let queue = match lane {
            Lane::First => &mut lanes.first,
            Lane::Later => &mut lanes.later,
        };
        if queue.len() >= self.max {
            return Err(queue_full());
        }
        queue.push_back(job);
        let wake = lanes.idle > 0;
        drop(lanes);
        if wake {
            self.ready.notify_one();
        }
        Ok(())
    }

    /// Takes what is waiting, at most `max` jobs; waits only while nothing is there. `None` once the
    /// queue is closed and empty.
    pub(crate) fn take(&self, max: usize) -> Option<Vec<J>> {
        let mut lanes = self.lock();
        loop {
            if !lanes.first.is_empty() || !lanes.later.is_empty() {
                return Some(lanes.take(max));
            }
            if lanes.closed {
                return None;
            }
            lanes.idle += 1;
            lanes = self.ready.wait(lanes).unwrap_or_else(PoisonError::into_inner);
            lanes.idle -= 1;
        }
    }

    /// Takes what is waiting by now, at most `max` jobs, which may be none.
    pub(crate) fn more(&self, max: usize) -> Vec<J> {
        self.lock().take(max)
    }

    /// Takes one job, oldest first.
    pub(crate) fn take_one(&self) -> Option<J> {
        self.take(1).and_then(|mut jobs| jobs.pop())
    }

    /// Refuses whatever comes from now on; what is waiting is still done.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.ready.notify_all();
    }
}

impl<J> Lanes<J> {
    /// An eighth is kept for the second lane, which would else wait for ever behind renewals.
    fn take(&mut self, max: usize) -> Vec<J> {
        let kept = self.later.len().min(max.div_ceil(8)).min(max.saturating_sub(1));
        let first = self.first.len().min(max - kept);
        let later = self.later.len().min(max - first);
        let mut jobs: Vec<J> = self.first.drain(..first).collect();
        jobs.extend(self.later.drain(..later));
        jobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_go_before_claims_and_claims_still_go() {
        let queue = Queue::new(100);
        for job in 0..20 {
            queue.push(Lane::Later, job).unwrap();
        }
        for job in 100..120 {
            queue.push(Lane::First, job).unwrap();
        }
        let group = queue.take(16).unwrap();
        assert_eq!(
            group,
            [100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 0, 1]
        );
        let group = queue.take(100).unwrap();
        assert_eq!((group.len(), group[0], group[6]), (24, 114, 2));
    }

    #[test]
    fn a_group_of_one_ends_runs_first() {
        let queue = Queue::new(2);
        queue.push(Lane::Later, 1).unwrap();
        queue.push(Lane::First, 2).unwrap();
        assert_eq!([queue.take_one(), queue.take_one()], [Some(2), Some(1)]);
    }

    #[test]
    fn a_full_lane_says_so_at_once_and_shuts_no_other_out() {
        let queue = Queue::new(1);
        queue.push(Lane::Later, 1).unwrap();
        let error = queue.push(Lane::Later, 2).unwrap_err();
        assert_eq!(error.code(), "store-busy");
        queue.push(Lane::First, 3).unwrap();
    }

    #[test]
    fn what_waits_when_the_queue_closes_is_still_done() {
        let queue = Queue::new(2);
        queue.push(Lane::Later, 1).unwrap();
        queue.close();
        assert!(queue.push(Lane::First, 2).is_err());
        assert_eq!([queue.take_one(), queue.take_one()], [Some(1), None]);
    }
}
