//! What is counted of messages, and what follows from it.

use std::{sync::atomic::Ordering, time::Duration};

use super::Inner;
use crate::{
    engine::cut,
    error::StoreError,
    inbox::{
        handler::Failed,
        message::{Delivery, MessageId, Redelivered},
        policy::By,
        store::{Attempts, Park, ParkAnswer, READ_MAX, Uncount},
    },
    telemetry::count,
};

/// How many messages one step of the sweep forgets at most, and the pause between two, so that live work
/// comes first.
const SWEEP_STEP: u32 = 500;
const BETWEEN: Duration = Duration::from_millis(20);

impl Inner {
    /// Reads how often messages were run: `None` of those that come for the first time.
    pub(super) async fn known(
        &self,
        deliveries: &[Delivery],
    ) -> Result<Vec<Option<Attempts>>, StoreError> {
        let is_again = |delivery: &&Delivery| delivery.redelivered != Redelivered::No;
        let again: Vec<_> = deliveries.iter().filter(is_again).map(|d| d.message.clone()).collect();
        let mut known = match again.is_empty() {
            true => Vec::new(),
            false => self.store.attempts(self.policy.consumer.clone(), again).await?,
        }
        .into_iter();
        Ok(deliveries.iter().map(|d| is_again(&d).then(|| known.next()).flatten()).collect())
    }

    /// Counts an attempt of messages that are about to run.
    pub(super) async fn count(
        &self,
        messages: Vec<MessageId>,
    ) -> Result<Vec<Attempts>, StoreError> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        self.store.count(self.policy.consumer.clone(), messages).await
    }

    /// Counts attempts no longer. If that fails the sweep comes to it.
    pub(super) async fn uncount(&self, messages: Vec<MessageId>, why: Uncount) {
        for messages in messages.chunks(READ_MAX) {
            let consumer = self.policy.consumer.clone();
            if let Err(error) = self.store.uncount(consumer, messages.to_vec(), why).await {
                count(&self.counters.store_errors);
                tracing::debug!(%error, "attempts stay counted until the sweep");
            }
        }
    }

    /// Forgets what is no longer remembered, in bounded steps.
    pub(super) async fn sweep(&self) {
        let Some(sweep) = &self.sweep else { return };
        loop {
            match sweep.sweep_inbox(SWEEP_STEP).await {
                Ok(swept) => {
                    self.counters.swept.fetch_add(swept.messages, Ordering::Relaxed);
                    if !swept.more {
                        return;
                    }
                }
                Err(error) => {
                    self.store_failed(&error);
                    return;
                }
            }
            self.clock.sleep_until(self.after(BETWEEN)).await;
        }
    }

    /// Whether a message that has been run this often is parked.
    pub(super) fn parks(&self, attempts: &Attempts) -> bool {
        self.policy.parks(attempts.count, attempts.now.since(attempts.first_at))
    }

    /// Parks a message, unless it was handled meanwhile.
    pub(super) async fn park(
        &self,
        delivery: &Delivery,
        attempts: u32,
        why: &Failed,
    ) -> Result<ParkAnswer, StoreError> {
        let park = Park {
            consumer: self.policy.consumer.clone(),
            fingerprint: self.handler.fingerprint(delivery),
            delivery: delivery.clone(),
            moves: self.policy.by == By::Positions && !delivery.parked,
            attempts,
            why: cut(&why.to_string(), Park::WHY_MAX),
        };
        let parked = self.store.park(park).await.inspect_err(|error| {
            count(&self.counters.store_errors);
            tracing::warn!(%error, message = %delivery.message, "a message could not be parked yet");
        })?;
        if parked == ParkAnswer::Parked {
            count(&self.counters.parked);
            tracing::warn!(message = %delivery.message, attempts, %why, "a message is parked");
        }
        Ok(parked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let shortened = |why: &str| cut(why, Park::WHY_MAX);
        assert_eq!(&*shortened("short"), "short");
        let long = format!("a{}", "é".repeat(Park::WHY_MAX));
        assert_eq!(shortened(&long).len(), Park::WHY_MAX - 1);
    }
}
