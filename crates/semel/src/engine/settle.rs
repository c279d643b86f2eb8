//! Storing the end of a run, again and again to a bound, in a task of the engine.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::task::JoinError;

use super::{Engine, abandon::Copies, cut, heartbeat::Beat, holder::Ended};
use crate::{
    clock::Monotonic,
    decide::{Finish, FinishKind, OnLost, ReleaseAsk},
    error::{Error, StoreError, StoreErrorKind},
    outcome::Outcome,
    policy::Policy,
    record::{Record, State},
    store::{Completed, ReleaseAnswer, Renew, Renewed},
    telemetry::count,
};

/// How long one attempt to store the end of a run may take.
pub(super) const ATTEMPT: Duration = Duration::from_secs(5);

impl Engine {
    /// Stores an end. The task is begun before this returns its future.
    pub(super) fn finish(
        &self,
        beat: Arc<Beat>,
        policy: &Policy,
        kind: FinishKind,
        outcome: Option<Outcome>,
        reason: Option<&str>,
    ) -> impl Future<Output = Result<Ended, Error>> + Send + 'static + use<> {
        let finish = Finish {
            kind,
            outcome: outcome.map(|outcome| self.fitting(&beat, outcome)),
            reason: reason.map(|reason| cut(reason, ReleaseAsk::REASON_MAX)),
            replay_for: policy.replay_for,
            remember_for: policy.remember_for,
        };
        let engine = self.clone();
        let give_up = self.now().after(policy.store_for);
        self.detached(Arc::clone(&beat), async move {
            let stored = engine
                .again(give_up, || {
                    let store = Arc::clone(&engine.inner.store);
                    let (permit, finish) = (beat.permit.clone(), finish.clone());
                    async move { store.complete(permit, finish).await }
                })
                .await;
            let ended = match stored {
                Ok(Completed::Stored) => Ok(Ended::Stored),
                // An answer that was lost is no other end: what is kept is this one.
                Ok(Completed::Already(record)) if keeps(&record, &finish) => Ok(Ended::Stored),
                Ok(Completed::Already(record)) => Ok(Ended::Before(record)),
                Ok(Completed::Stale) => {
                    engine.conflict(&beat);
                    Err(Error::Stale)
                }
                Err(error) => Err(engine.not_stored(error)),
            };
            engine.inner.waiters.wake_all(&beat.permit.id);
            ended
        })
    }

    /// Gives an intent back.
    pub(super) fn give_back(
        &self,
        beat: Arc<Beat>,
        policy: &Policy,
        compare: bool,
        reason: &str,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static + use<> {
        let ask = ReleaseAsk {
            token: beat.permit.token,
            fence: Some(beat.permit.fence),
            compare,
            reason: Some(cut(reason, ReleaseAsk::REASON_MAX)),
            remember_for: policy.remember_for,
        };
        let engine = self.clone();
        let give_up = self.now().after(policy.store_for);
        let policy = policy.clone();
        self.detached(Arc::clone(&beat), async move {
            let released = engine
                .again(give_up, || {
                    let store = Arc::clone(&engine.inner.store);
                    let (id, ask) = (beat.permit.id.clone(), ask.clone());
                    async move { store.release(id, ask).await }
                })
                .await;
            engine.inner.waiters.wake_one(&beat.permit.id);
            if beat.copies != Copies::None {
                let permit = &beat.permit;
                let (id, copies) = (permit.id.clone(), beat.copies);
                engine.release_copies(id, permit.token, copies, compare, &policy);
            }
            match released.map(|released| released.answer) {
                Ok(ReleaseAnswer::Stored | ReleaseAnswer::Already) => {
                    count(&engine.inner.counters.released);
                    Ok(())
                }
                Ok(ReleaseAnswer::NotHeld) => Err(Error::Stale),
                Err(error) => Err(engine.not_stored(error)),
            }
        })
    }

    /// Stores that nobody can tell whether the effect happened, by the operation's `on_lost`. The
    /// task is begun before this returns its future.
    pub(super) fn doubt(
        &self,
        beat: Arc<Beat>,
        policy: &Policy,
        reason: &str,
    ) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send>> {
        match policy.on_lost {
            OnLost::Hold => {
                let kind = FinishKind::Unknown;
                let finished = self.finish(beat, policy, kind, None, Some(reason));
                Box::pin(async move { finished.await.map(|_| ()) })
            }
            OnLost::Rerun => Box::pin(self.give_back(beat, policy, true, reason)),
            OnLost::Reconcile => Box::pin(self.end_lease(beat, policy)),
        }
    }

    /// Ends the lease now, so that the next claim takes over and asks first.
    pub(super) fn end_lease(
        &self,
        beat: Arc<Beat>,
        policy: &Policy,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static + use<> {
        let engine = self.clone();
        let give_up = self.now().after(policy.store_for);
        self.detached(Arc::clone(&beat), async move {
            // The heartbeat must not lengthen again what is shortened here.
            engine.end_beat(&beat);
            let renewed = engine
                .again(give_up, || {
                    let store = Arc::clone(&engine.inner.store);
                    let renewal = Renew::of(&beat.permit, Duration::ZERO);
                    async move { shortened(store.renew(vec![renewal]).await?.first()) }
                })
                .await;
            engine.inner.waiters.wake_one(&beat.permit.id);
            match renewed {
                Ok(true) => Ok(()),
                Ok(false) => Err(Error::Stale),
                Err(error) => Err(engine.not_stored(error)),
            }
        })
    }

    /// Drops what the store cannot keep: that it is done matters more than how it is replayed.
    fn fitting(&self, beat: &Beat, outcome: Outcome) -> Outcome {
        let body_max = self.capabilities().body_max;
        if outcome.fits(body_max) {
            return outcome;
        }
        tracing::warn!(
            operation = %beat.permit.id.scope.operation,
            "an outcome was too large for its store, and is not kept whole"
        );
        outcome.within(body_max)
    }

    fn conflict(&self, beat: &Beat) {
        count(&self.inner.counters.conflicts);
        tracing::error!(
            operation = %beat.permit.id.scope.operation,
            fence = beat.permit.fence.get(),
            "a run ended after its permit: its effect may have happened twice"
        );
    }

    pub(super) fn not_stored(&self, error: StoreError) -> Error {
        count(&self.inner.counters.not_stored);
        Error::NotStored(error)
    }

    /// Runs the end of a run in a task of the engine, unless it is ready at once, and keeps the lease
    /// until it is over.
    pub(super) fn detached<T, F>(
        &self,
        beat: Arc<Beat>,
        end: F,
    ) -> impl Future<Output = Result<T, Error>> + Send + 'static + use<T, F>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        beat.ends();
        let guard = BeatGuard { engine: self.clone(), beat };
        let mut end = Box::pin(async move {
            let _guard = guard;
            end.await
        });
        // Whoever polls next brings a waker of its own, so that none is lost by this first poll.
        let first = end.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let begun = match first {
            Poll::Ready(ended) => Ok(ended),
            Poll::Pending => Err(self.inner.tasks.spawn(end)),
        };
        async move {
            match begun {
                Ok(ended) => ended,
                Err(task) => task.await.unwrap_or_else(|error| Err(lost(error))),
            }
        }
    }

    /// Asks the store until it answers, it cannot, or the bound is reached.
    async fn again<T, F>(
        &self,
        give_up: Monotonic,
        mut call: impl FnMut() -> F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let mut pause = Duration::from_millis(10);
        loop {
            // An answer that was lost without an error leaves time to ask again.
            let until = give_up.min(self.now().after(ATTEMPT));
            match self.owned_until(until, call()).await {
                Err(error) if error.kind().is_retryable() && self.now() < give_up => {
                    count(&self.inner.counters.store_errors);
                    tracing::warn!(%error, "the end of a run could not be stored yet");
                    self.inner.clock.sleep_until(self.now().after(pause)).await;
                    pause = (pause * 2).min(Duration::from_secs(1));
                }
                Err(error) => {
                    self.inner.trouble.failed(&error, self.now());
                    return Err(error);
                }
                Ok(done) => return Ok(done),
            }
        }
    }
}

/// Says whether a lease was shortened: false if its permit has ended. A lease whose key an open
/// transaction holds was not, and its holder asks again.
fn shortened(renewed: Option<&Renewed>) -> Result<bool, StoreError> {
    match renewed {
        Some(Renewed::Held) => Ok(true),
        Some(Renewed::Stale) => Ok(false),
        Some(Renewed::Busy) | None => Err(StoreError::new(
            StoreErrorKind::Busy,
            "an open transaction holds the intent, so its lease cannot be ended yet",
        )),
    }
}

fn lost(source: JoinError) -> Error {
    let message = "the task that stores the end of the run was ended";
    Error::NotStored(StoreError::new(StoreErrorKind::Unavailable, message).with_source(source))
}

/// Says whether a record keeps exactly what a finish says.
fn keeps(record: &Record, finish: &Finish) -> bool {
    let state = match finish.kind {
        FinishKind::Done => State::Done,
        FinishKind::Failed => State::Failed,
        FinishKind::Unknown => return record.state == State::Unknown,
    };
    record.state == state && record.outcome == finish.outcome
}

struct BeatGuard {
    engine: Engine,
    beat: Arc<Beat>,
}

impl Drop for BeatGuard {
    fn drop(&mut self) {
        self.engine.end_beat(&self.beat);
    }
}
