//! What a source hands out: logs that begin and end, and deliveries that find their lane.

use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
};

use super::{Key, RunnerError, State};
use crate::{
    inbox::{
        message::{Delivery, LogId},
        policy::By,
        source::{Received, SourceError},
    },
    telemetry::{count, count_many},
};

impl State {
    /// Takes in what a call of the source returned.
    pub(super) fn take_in(
        &mut self,
        received: Result<Received, SourceError>,
    ) -> Result<(), RunnerError> {
        let received = match received {
            Ok(received) => received,
            Err(error) => {
                count(&self.inner.counters.source_errors);
                if !error.retryable {
                    return Err(RunnerError::Source(error));
                }
                tracing::warn!(%error, "the source could not be asked");
                self.source_failed = true;
                self.fails();
                return Ok(());
            }
        };
        if self.source_failed {
            self.recovers();
        }
        // First: a log may have gone and come back since the last call.
        received.revoked.iter().for_each(|log| self.revoke(log));
        self.assigned.extend(received.assigned);
        count_many(&self.inner.counters.deliveries, received.deliveries.len());
        self.in_flight += received.deliveries.len();
        for delivery in received.deliveries {
            let key = self.key_of(&delivery);
            let lane = self.lanes.entry(key.clone()).or_default();
            if lane.waiting.is_empty() && lane.task.is_none() {
                self.idle.push_back(key);
            }
            lane.waiting.push_back(delivery);
        }
        Ok(())
    }

    /// A log is somebody else's: what of it is at work ends, and nothing of it is settled.
    fn revoke(&mut self, log: &LogId) {
        self.assigned.retain(|assigned| assigned != log);
        let Some(mut lane) = self.lanes.remove(&Key::Log(log.clone())) else { return };
        self.idle.retain(|key| *key != Key::Log(log.clone()));
        self.in_flight = self.in_flight.saturating_sub(lane.waiting.len());
        if let Some(task) = lane.task.take() {
            task.abort();
            if let Some((_, progress)) = self.at_work.remove(&task.id()) {
                let done = progress.take();
                let held = done.settlements.len() + done.left.len();
                self.in_flight = self.in_flight.saturating_sub(held);
                // Its end is no fault of the message.
                self.give_back(done.counted);
            }
        }
    }

    /// Those of one log are one lane, and those of one key; the others take turns.
    fn key_of(&mut self, delivery: &Delivery) -> Key {
        if let Some(position) = &delivery.position {
            return Key::Log(position.log.clone());
        }
        let lanes = self.inner.settings.lanes;
        let slot = match &delivery.key {
            Some(key) => {
                let mut hasher = DefaultHasher::new();
                key.hash(&mut hasher);
                usize::try_from(hasher.finish() % u64::try_from(lanes).unwrap_or(1)).unwrap_or(0)
            }
            None => {
                self.next_slot = (self.next_slot + 1) % lanes;
                self.next_slot
            }
        };
        Key::Slot(slot)
    }

    /// Has logs delivered that are newly ours, from where this consumer has them.
    pub(super) async fn begin_logs(&mut self) {
        if self.assigned.is_empty() || self.is_paused() {
            return;
        }
        let (inner, logs) = (&self.inner, self.assigned.clone());
        let from = match inner.policy.by {
            By::Ids => Ok(vec![None; logs.len()]),
            By::Positions => {
                inner.store.positions(inner.policy.consumer.clone(), logs.clone()).await
            }
        };
        let from = match from {
            Ok(from) => from,
            Err(error) => {
                count(&inner.counters.store_errors);
                tracing::warn!(%error, "the positions of logs could not be read");
                return self.fails();
            }
        };
        match inner.source.start(logs.into_iter().zip(from).collect()).await {
            Ok(()) => {
                self.assigned.clear();
                self.recovers();
            }
            Err(error) => {
                count(&inner.counters.source_errors);
                tracing::warn!(%error, "logs could not be begun");
                self.source_failed = true;
                self.fails();
            }
        }
    }
}
