//! A lane: deliveries that belong behind each other, and the task that handles them.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;
use tokio::task::AbortHandle;

use super::{AT_ONCE, Inner, Key, Progress, State, desk::Fared};
use crate::inbox::{
    handler::{Failed, Handled},
    message::{Delivery, MessageId},
    source::Settlement,
    store::{Attempts, Uncount},
};

/// Deliveries that wait, and the task at work on those before them.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) waiting: VecDeque<Delivery>,
    pub(super) task: Option<AbortHandle>,
}

impl State {
    /// Starts tasks for lanes that have something to do, as many as may be at work.
    pub(super) fn start_lanes(&mut self) {
        while !self.is_paused() && self.at_work.len() < self.inner.settings.lanes {
            let Some(key) = self.idle.pop_front() else { return };
            let Some(lane) = self.lanes.get_mut(&key) else { continue };
            let some = lane.waiting.len().min(self.inner.settings.batch_max);
            let deliveries: Vec<_> = lane.waiting.drain(..some).collect();
            let progress = Arc::new(Progress::of(&deliveries));
            let work = Work {
                inner: Arc::clone(&self.inner),
                progress: Arc::clone(&progress),
                is_log: matches!(key, Key::Log(_)),
                blocked: HashSet::new(),
            };
            let task = self.tasks.spawn(work.all(deliveries));
            self.at_work.insert(task.id(), (key, progress));
            lane.task = Some(task);
        }
    }
}

/// The work on some deliveries of one lane.
struct Work {
    inner: Arc<Inner>,
    progress: Arc<Progress>,
    /// Whether nothing may be handled before what stands ahead of it.
    is_log: bool,
    /// Keys of messages that come again: what is of the same key comes again behind them.
    blocked: HashSet<Bytes>,
}

/// A delivery, and how often its message was run if it came before.
type Known = (Delivery, Option<Attempts>);

/// Whether the lane goes on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Goes {
    On,
    Stops,
}

impl Work {
    /// Handles deliveries in their order. What it leaves over comes again.
    async fn all(mut self, deliveries: Vec<Delivery>) {
        let known = match self.inner.known(&deliveries).await {
            Ok(known) => known,
            Err(error) => {
                self.inner.store_failed(&error);
                return self.stop(true);
            }
        };
        let mut left: VecDeque<Known> = deliveries.into_iter().zip(known).collect();
        while !left.is_empty() {
            // Those that have been run before are run by themselves: one of them may be what ended the
            // others.
            let fresh = left.iter().take_while(|(_, known)| is_fresh(known.as_ref())).count();
            let goes = if fresh > 1 && !self.inner.singly.load(Ordering::Relaxed) {
                self.batch(left.drain(..fresh).collect()).await
            } else {
                match left.pop_front() {
                    Some((delivery, known)) => self.one(delivery, known, false).await,
                    None => Goes::On,
                }
            };
            if goes == Goes::Stops {
                return;
            }
        }
    }

    /// Handles messages in one transaction; one by one if that fails.
    async fn batch(&mut self, batch: Vec<Known>) -> Goes {
        let again = batch.iter().filter(|(_, known)| known.is_some());
        let again: Vec<_> = again.map(|(delivery, _)| delivery.message.clone()).collect();
        let (deliveries, known): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let counted = match self.inner.count(again.clone()).await {
            Ok(counted) => counted,
            Err(error) => {
                self.inner.store_failed(&error);
                self.stop(true);
                return Goes::Stops;
            }
        };
        self.progress.count(&again);
        let mut counted = counted.into_iter();
        let known: Vec<_> =
            known.into_iter().map(|known| known.and_then(|_| counted.next())).collect();
        match self.inner.run_all(&deliveries).await {
            Ok(Some(handled)) if handled.len() == deliveries.len() => {
                return self.committed(deliveries, handled, again).await;
            }
            Ok(Some(_)) => {
                tracing::error!("a handler told of more or fewer messages than it was given");
            }
            Ok(None) => self.inner.singly.store(true, Ordering::Relaxed),
            Err(Failed::Away(error)) => {
                self.inner.is_away(&error);
                self.inner.uncount(again, Uncount::GivenBack).await;
                self.stop(true);
                return Goes::Stops;
            }
            Err(why) => tracing::debug!(%why, "a batch failed, and is run message by message"),
        }
        for (delivery, known) in deliveries.into_iter().zip(known) {
            if self.one(delivery, known, true).await == Goes::Stops {
                return Goes::Stops;
            }
        }
        Goes::On
    }

    /// Does what is due after the commit of a batch.
    async fn committed(
        &mut self,
        deliveries: Vec<Delivery>,
        handled: Vec<Handled>,
        counted: Vec<MessageId>,
    ) -> Goes {
        let mut goes = Goes::On;
        for (delivery, handled) in deliveries.into_iter().zip(handled) {
            let fared = self.inner.after_commit(&delivery, handled).await;
            goes = self.fared(&delivery, fared);
            if goes == Goes::Stops {
                break;
            }
        }
        // Their effects are there. What comes again only sends what was recorded, and is counted anew.
        self.inner.uncount(counted, Uncount::Ended).await;
        goes
    }

    /// Handles one message. `is_counted`: its attempt is counted already if it came before.
    async fn one(&mut self, delivery: Delivery, known: Option<Attempts>, is_counted: bool) -> Goes {
        if delivery.key.as_ref().is_some_and(|key| self.blocked.contains(key)) {
            self.progress.settle(&delivery, AT_ONCE);
            return Goes::On;
        }
        let fared = self.inner.handle(&delivery, known, is_counted, &self.progress).await;
        self.fared(&delivery, fared)
    }

    /// Writes down how a message fared, and says whether the lane goes on.
    fn fared(&mut self, delivery: &Delivery, fared: Fared) -> Goes {
        match fared {
            Fared::Away => {
                self.stop(true);
                Goes::Stops
            }
            Fared::Ended => {
                self.progress.settle(delivery, Settlement::Ack);
                Goes::On
            }
            Fared::Again(pause) => {
                self.progress.settle(delivery, Settlement::Again(pause));
                if self.is_log {
                    self.stop(false);
                    return Goes::Stops;
                }
                self.blocked.extend(delivery.key.clone());
                Goes::On
            }
        }
    }

    /// Leaves the rest to come again.
    fn stop(&self, away: bool) {
        if self.is_log {
            self.progress.rewind();
        }
        if away {
            self.progress.away();
        }
    }
}

/// Whether a message has not been run before, as far as anybody knows.
fn is_fresh(known: Option<&Attempts>) -> bool {
    known.is_none_or(|attempts| attempts.count == 0)
}
