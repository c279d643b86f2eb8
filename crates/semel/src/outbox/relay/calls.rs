//! Calls of the store and of the publisher, as tasks that report back.
//!
//! Whoever drives a destination waits for none of them, so that a leadership is renewed while a read
//! hangs, and a lane is sent while a settlement is written.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::sync::mpsc;

use super::super::{
    event::Lane,
    publisher::{Message, Publisher, Sent},
    store::{Due, Led, OutboxStore, Settled, Window},
};
use crate::{
    caught::caught,
    clock::{Clock, Monotonic},
    engine::Tasks,
    error::{StoreError, StoreErrorKind},
};

/// What a call came to.
#[derive(Debug)]
pub(super) enum Report {
    Due(Result<Vec<Due>, StoreError>),
    Led {
        asked: Monotonic,
        answer: Result<Led, StoreError>,
    },
    Listed(Result<Vec<Lane>, StoreError>),
    /// The outcomes of a batch; `None` if it was too late to begin.
    Published {
        batch: u64,
        outcomes: Option<Vec<Sent>>,
    },
    Read(Result<Window, StoreError>),
    Renewed {
        asked: Monotonic,
        answer: Result<Settled, StoreError>,
    },
    Resigned,
    Settled(Result<Settled, StoreError>),
}

/// A report, and under which leadership the call was made.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) term: u64,
    pub(super) report: Report,
}

/// Starts calls.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    pub(super) store: Arc<dyn OutboxStore>,
    pub(super) publisher: Arc<dyn Publisher>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) tasks: Tasks,
    /// One of each kind and the batches on their way: as many reports wait here at most.
    pub(super) told: mpsc::UnboundedSender<Told>,
}

impl Calls {
    /// Asks the store, and reports its answer; after `wait` that it did not answer.
    pub(super) fn ask<T, F>(
        &self,
        term: u64,
        wait: Duration,
        call: F,
        report: impl FnOnce(Result<T, StoreError>) -> Report + Send + 'static,
    ) where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let (clock, told) = (Arc::clone(&self.clock), self.told.clone());
        let until = clock.monotonic().after(wait);
        self.tasks.spawn(async move {
            let away = |says: &str| Err(StoreError::new(StoreErrorKind::Unavailable, says));
            let answer = tokio::select! {
                biased;
                answer = caught(call) => answer.unwrap_or_else(|| away("the store panicked")),
                () = clock.sleep_until(until) => away("the store did not answer in time"),
            };
            // Nobody hears it once the destination is given up.
            let _ = told.send(Told { term, report: report(answer) });
        });
    }

    /// Sends a batch, unless it is `too_late`, and reports its outcomes; after `wait` that nobody can
    /// say.
    pub(super) fn publish(
        &self,
        term: u64,
        batch: u64,
        messages: Vec<Message>,
        too_late: Monotonic,
        wait: Duration,
    ) {
        let (clock, told) = (Arc::clone(&self.clock), self.told.clone());
        let publisher = Arc::clone(&self.publisher);
        self.tasks.spawn(async move {
            let (now, count) = (clock.monotonic(), messages.len());
            let unknown = |why: String| vec![Sent::Unknown { why: why.into() }; count];
            // Read here, and not when the task was made: a process may be frozen between.
            let outcomes = if now >= too_late {
                None
            } else {
                Some(tokio::select! {
                    biased;
                    sent = caught(async { publisher.publish(messages).await }) => {
                        sent.unwrap_or_else(|| unknown("the publisher panicked".into()))
                    }
                    () = clock.sleep_until(now.after(wait)) => {
                        unknown(format!("there was no answer in {wait:?}"))
                    }
                })
            };
            let _ = told.send(Told { term, report: Report::Published { batch, outcomes } });
        });
    }
}
