//! Ending a run that its application may have ended by itself, in a transaction of its own.
//!
//! Nothing is said of such a run before its record was read under the lock of its name. If the
//! application has not ended it then, the run ends as its holder says, by the same permit: from there
//! on a late completion fails in the application's transaction, and its effect is rolled back.

use std::{future::Future, sync::Arc, time::Duration};

use super::{Engine, Holder, cut, heartbeat::Beat, holder::Ended, settle::ATTEMPT};
use crate::{
    clock::Monotonic,
    decide::{FinishKind, OnLost, ReleaseAsk},
    error::{Error, StoreError, StoreErrorKind},
    outcome::Outcome,
    policy::Policy,
    record::{Permit, Record, State},
    store::capability::{Bridge, Looked},
    telemetry::count,
};

/// How a bridged run ends if its application has not ended it.
#[derive(Clone, Debug, PartialEq)]
pub enum Otherwise {
    /// The application answered that it was done, against the contract: nobody can say whether the
    /// effect happened elsewhere. The intent becomes unknown whatever `on_lost` says.
    Breach,
    /// The application says that something outside of its transaction may have happened:
    /// [`Holder::may_have_acted`].
    Doubt,
    /// The application says that this failure is final: [`Holder::fail`].
    Fail(Outcome),
    /// What it did in its transaction is rolled back: [`Holder::release`].
    Release,
}

/// How a bridged run has ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Settled {
    /// The application has ended it: done or failed, as the record says.
    Ended(Box<Record>),
    /// The application has given it back.
    GivenBack,
    /// The application has not ended it, and it ended as its holder said.
    Otherwise,
}

impl Holder {
    /// Ends a run whose application may have ended it by itself. While the application's transaction
    /// is open nobody can say, and this waits for at most `policy.store_for`. `reason` is a short
    /// stable code for what happens if the application has not ended it.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] if the permit has ended otherwise: somebody else was granted the intent, or it
    /// was resolved. [`Error::NotStored`] if nothing could be said in time, or the engine has no
    /// [`Bridge`]: the lease ends by itself then, and the caller is told "unknown, use the same key".
    ///
    /// # Cancel safety
    ///
    /// It goes on in a task of the engine if the future is dropped.
    pub fn settle(
        mut self,
        otherwise: Otherwise,
        reason: &str,
    ) -> impl Future<Output = Result<Settled, Error>> + Send + 'static + use<> {
        self.ended = true;
        let (engine, beat) = self.parts();
        engine.settle(beat, &self.policy, otherwise, reason)
    }
}

/// What a look says of a permit.
enum Judged {
    Ended(Settled),
    NotEnded,
    Stale,
}

fn judged(record: Option<Box<Record>>, permit: &Permit) -> Judged {
    match record.filter(|record| record.permit() == *permit) {
        Some(record) if record.resolved_by.is_none() => match record.state {
            State::Done | State::Failed => Judged::Ended(Settled::Ended(record)),
            State::Open => Judged::Ended(Settled::GivenBack),
            State::Running | State::Unknown => Judged::NotEnded,
        },
        _ => Judged::Stale,
    }
}

impl Engine {
    /// The task is begun before this returns its future.
    fn settle(
        &self,
        beat: Arc<Beat>,
        policy: &Policy,
        otherwise: Otherwise,
        reason: &str,
    ) -> impl Future<Output = Result<Settled, Error>> + Send + 'static + use<> {
        let end = End {
            engine: self.clone(),
            beat: Arc::clone(&beat),
            policy: policy.clone(),
            otherwise,
            reason: cut(reason, ReleaseAsk::REASON_MAX),
            give_up: self.now().after(policy.store_for),
        };
        self.detached(beat, async move {
            let settled = end.settled().await;
            end.engine.inner.waiters.wake_all(&end.beat.permit.id);
            settled
        })
    }
}

/// One run on its way to its end.
struct End {
    engine: Engine,
    beat: Arc<Beat>,
    policy: Policy,
    otherwise: Otherwise,
    reason: Box<str>,
    give_up: Monotonic,
}

impl End {
    async fn settled(&self) -> Result<Settled, Error> {
        let mut said = false;
        loop {
            match self.looked().await? {
                Judged::Ended(settled) => return Ok(settled),
                Judged::Stale => return Err(Error::Stale),
                Judged::NotEnded if said => return Ok(Settled::Otherwise),
                Judged::NotEnded => {}
            }
            match self.say().await {
                Ok(Said::Stored) => {
                    self.breached();
                    return Ok(Settled::Otherwise);
                }
                Ok(Said::Before(record)) => match judged(Some(record), &self.beat.permit) {
                    Judged::Ended(settled) => return Ok(settled),
                    Judged::NotEnded => return Ok(Settled::Otherwise),
                    Judged::Stale => return Err(Error::Stale),
                },
                // Whether the application was first is known only after another look.
                Ok(Said::Perhaps) => said = true,
                Err(Error::Stale) if self.engine.now() < self.give_up => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Looks until the lock was free.
    async fn looked(&self) -> Result<Judged, Error> {
        let Some(bridge) = self.engine.inner.bridge.clone() else {
            let message = "the engine has no bridge: its store cannot say how the run ended";
            return Err(Error::NotStored(StoreError::new(StoreErrorKind::Invalid, message)));
        };
        let mut pause = Duration::from_millis(2);
        loop {
            let error = match self.look(&bridge).await {
                Ok(Looked::Seen { record, .. }) => return Ok(judged(record, &self.beat.permit)),
                Ok(Looked::Busy) => StoreError::new(
                    StoreErrorKind::Busy,
                    "the application's transaction is still open",
                ),
                Err(error) => {
                    count(&self.engine.inner.counters.store_errors);
                    tracing::warn!(%error, "the end of a bridged run could not be read yet");
                    error
                }
            };
            if !error.kind().is_retryable() || self.engine.now() >= self.give_up {
                return Err(self.engine.not_stored(error));
            }
            self.engine.inner.clock.sleep_until(self.engine.now().after(pause)).await;
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }

    async fn look(&self, bridge: &Arc<dyn Bridge>) -> Result<Looked, StoreError> {
        let (bridge, id) = (Arc::clone(bridge), self.beat.permit.id.clone());
        let until = self.give_up.min(self.engine.now().after(ATTEMPT));
        self.engine.owned_until(until, async move { bridge.look(id).await }).await
    }

    /// Ends the run as its holder says, if the application did not come before.
    async fn say(&self) -> Result<Said, Error> {
        let Self { engine, policy, reason, .. } = self;
        let beat = || Arc::clone(&self.beat);
        let finish = |kind, outcome| engine.finish(beat(), policy, kind, outcome, Some(reason));
        let ended = match (&self.otherwise, policy.on_lost) {
            (Otherwise::Breach, _) | (Otherwise::Doubt, OnLost::Hold) => {
                finish(FinishKind::Unknown, None).await?
            }
            (Otherwise::Fail(outcome), _) => {
                finish(FinishKind::Failed, Some(outcome.clone())).await?
            }
            (Otherwise::Release, _) => {
                engine.give_back(beat(), policy, false, reason).await?;
                return Ok(Said::Stored);
            }
            (Otherwise::Doubt, OnLost::Rerun) => {
                engine.give_back(beat(), policy, true, reason).await?;
                return Ok(Said::Stored);
            }
            (Otherwise::Doubt, OnLost::Reconcile) => {
                engine.end_lease(beat(), policy).await?;
                return Ok(Said::Perhaps);
            }
        };
        Ok(match ended {
            Ended::Stored => Said::Stored,
            Ended::Before(record) => Said::Before(record),
        })
    }

    fn breached(&self) {
        if self.otherwise != Otherwise::Breach {
            return;
        }
        count(&self.engine.inner.counters.breaches);
        tracing::error!(
            operation = %self.beat.permit.id.scope.operation,
            fence = self.beat.permit.fence.get(),
            "an application answered that it was done and did not complete its permit"
        );
    }
}

/// What became of the holder's word.
enum Said {
    Before(Box<Record>),
    Perhaps,
    Stored,
}
