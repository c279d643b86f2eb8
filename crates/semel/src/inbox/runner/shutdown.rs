//! The end of a consumer: what is at work may end, the rest is given back.

use std::sync::Arc;

use super::{AT_ONCE, State};
use crate::inbox::{message::MessageId, store::Uncount};

impl State {
    /// Gives back what is not begun, waits for what is at work, gives back the rest, closes the source.
    pub(super) async fn shut_down(&mut self) {
        self.receiving = None;
        let waiting: Vec<_> =
            self.lanes.values_mut().flat_map(|lane| lane.waiting.drain(..)).collect();
        self.settle(waiting.iter().map(|delivery| (delivery.receipt, AT_ONCE)).collect()).await;
        let until = self.inner.after(self.inner.settings.drain);
        let clock = Arc::clone(&self.inner.clock);
        loop {
            tokio::select! {
                biased;
                joined = self.tasks.join_next_with_id() => {
                    let Some(joined) = joined else { break };
                    let id = joined.map_or_else(|error| error.id(), |(id, ())| id);
                    self.ended(id).await;
                }
                () = clock.sleep_until(until) => break,
            }
        }
        self.end_the_rest().await;
        if let Err(error) = self.inner.source.close().await {
            tracing::warn!(%error, "what was settled last may come again");
        }
    }

    /// Ends what was too slow: its transaction is rolled back, and its attempt does not count.
    async fn end_the_rest(&mut self) {
        self.parked.end().await;
        self.sweeping.end().await;
        self.tasks.shutdown().await;
        let mut counted = Vec::new();
        let mut settlements = Vec::new();
        for (_, (_, progress)) in self.at_work.drain() {
            let done = progress.take();
            counted.extend(done.counted);
            settlements.extend(done.settlements);
            settlements.extend(done.left.into_iter().map(|receipt| (receipt, AT_ONCE)));
        }
        self.inner.uncount(counted, Uncount::GivenBack).await;
        self.settle(settlements).await;
    }

    /// Gives attempts back that did not come to their end through no fault of their messages.
    pub(super) fn give_back(&mut self, counted: Vec<MessageId>) {
        if !counted.is_empty() {
            let inner = Arc::clone(&self.inner);
            self.tasks.spawn(async move { inner.uncount(counted, Uncount::GivenBack).await });
        }
    }
}
