//! What is done from time to time, one at a time, beside everything else.

use std::{future::Future, time::Duration};

use tokio::task::JoinSet;

use crate::clock::Monotonic;

/// One of these.
#[derive(Debug)]
pub(super) struct Round {
    at_work: JoinSet<()>,
    /// When the next is due.
    pub(super) next_at: Monotonic,
}

impl Round {
    /// Begins at an instant.
    pub(super) fn from(next_at: Monotonic) -> Self {
        Self { at_work: JoinSet::new(), next_at }
    }

    /// Never begins.
    pub(super) fn never() -> Self {
        Self::from(Monotonic::from_start(Duration::MAX))
    }

    /// When somebody has to look; while one is at work, nobody waits for a time.
    pub(super) fn next_at(&self) -> Monotonic {
        match self.at_work.is_empty() {
            true => self.next_at,
            false => Monotonic::from_start(Duration::MAX),
        }
    }

    /// Begins if it is due.
    pub(super) fn begin(
        &mut self,
        now: Monotonic,
        round: impl Future<Output = ()> + Send + 'static,
    ) {
        if self.at_work.is_empty() && now >= self.next_at {
            self.at_work.spawn(round);
        }
    }

    /// Waits for the end of one that is at work, or for ever.
    pub(super) async fn ended(&mut self) {
        if self.at_work.join_next().await.is_none() {
            std::future::pending().await
        }
    }

    /// Ends what is at work.
    pub(super) async fn end(&mut self) {
        self.at_work.shutdown().await;
    }
}
