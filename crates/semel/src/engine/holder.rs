//! The one who runs an intent, and what becomes of it when the run ends in any way.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio_util::sync::CancellationToken;

use super::{Engine, heartbeat::Beat};
use crate::{
    clock::Monotonic,
    decide::{self, FinishKind, Grant},
    error::Error,
    outcome::Outcome,
    policy::Policy,
    record::{Permit, Record},
};

/// The holder of an intent. While it lives its lease is renewed.
///
/// A holder ends its run by [`complete`](Self::complete), [`fail`](Self::fail),
/// [`release`](Self::release) or [`may_have_acted`](Self::may_have_acted). Dropped without any of
/// them, by a panic or a cancellation, it gives the intent back if [`start`](Self::start) was not
/// called yet, and else says that nobody can tell whether the effect happened.
#[derive(Debug)]
pub struct Holder {
    held: Held,
    grant: Option<Grant>,
    pub(super) policy: Arc<Policy>,
    pub(super) ended: bool,
}

impl Holder {
    pub(super) fn new(
        engine: Engine,
        beat: Arc<Beat>,
        grant: Option<Grant>,
        policy: Arc<Policy>,
    ) -> Self {
        let held = Held { engine, beat, started: Arc::default() };
        Self { held, grant, policy, ended: false }
    }

    pub(super) fn parts(&self) -> (Engine, Arc<Beat>) {
        (self.held.engine.clone(), Arc::clone(&self.held.beat))
    }

    /// Returns the proof of the claim.
    #[must_use]
    pub fn permit(&self) -> &Permit {
        self.held.permit()
    }

    /// Returns a handle for the work: it can look and begin, but not end the run.
    #[must_use]
    pub fn held(&self) -> Held {
        self.held.clone()
    }

    /// Says whether an earlier holder was lost, or may have been, so that its effect must be asked for
    /// first. What it sent last may still be on its way: that nothing happened is known once
    /// `policy.settle_for` has passed since this claim.
    #[must_use]
    pub fn ask_first(&self) -> bool {
        decide::asks_first(self.grant, self.policy.on_lost)
    }

    /// Says how the claim was granted; `None` if the answer that said so was lost.
    #[must_use]
    pub const fn grant(&self) -> Option<Grant> {
        self.grant
    }

    /// See [`Held::lost`].
    #[must_use]
    pub fn lost(&self) -> CancellationToken {
        self.held.lost()
    }

    /// See [`Held::deadline`].
    #[must_use]
    pub fn deadline(&self) -> Monotonic {
        self.held.deadline()
    }

    /// See [`Held::start`].
    ///
    /// # Errors
    ///
    /// As [`Held::start`].
    ///
    /// # Cancel safety
    ///
    /// As [`Held::start`].
    pub async fn start(&self) -> Result<(), Error> {
        self.held.start().await
    }

    /// Stores that the intent is done, and what to replay.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] if the permit has ended; the outcome is then kept as a conflict.
    /// [`Error::NotStored`] if the store could not be asked within `policy.store_for`: the caller is
    /// told "unknown, use the same key".
    ///
    /// # Cancel safety
    ///
    /// Storing goes on in a task of the engine if the future is dropped.
    pub fn complete(
        self,
        outcome: Outcome,
    ) -> impl Future<Output = Result<Ended, Error>> + Send + 'static + use<> {
        self.finish(FinishKind::Done, Some(outcome), None)
    }

    /// Stores that the intent ended in a final failure, and what to replay.
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    ///
    /// # Cancel safety
    ///
    /// As [`complete`](Self::complete).
    pub fn fail(
        self,
        outcome: Outcome,
    ) -> impl Future<Output = Result<Ended, Error>> + Send + 'static + use<> {
        self.finish(FinishKind::Failed, Some(outcome), None)
    }

    fn finish(
        mut self,
        kind: FinishKind,
        outcome: Option<Outcome>,
        reason: Option<&str>,
    ) -> impl Future<Output = Result<Ended, Error>> + Send + 'static + use<> {
        self.ended = true;
        let (engine, beat) = self.parts();
        engine.finish(beat, &self.policy, kind, outcome, reason)
    }

    /// Gives the intent back: no run of it had an effect. `reason` is a short stable code.
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    ///
    /// # Cancel safety
    ///
    /// As [`complete`](Self::complete).
    pub fn release(
        mut self,
        reason: &str,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static + use<> {
        self.ended = true;
        let (engine, beat) = self.parts();
        engine.give_back(beat, &self.policy, false, reason)
    }

    /// Says that nobody can tell whether the effect happened. What follows is the operation's
    /// `on_lost`: `hold` makes the intent unknown at once, `rerun` gives it back to a caller with the
    /// same content, `reconcile` ends the lease so that the next caller asks first.
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    ///
    /// # Cancel safety
    ///
    /// As [`complete`](Self::complete).
    pub fn may_have_acted(
        mut self,
        reason: &str,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static + use<> {
        self.ended = true;
        let (engine, beat) = self.parts();
        engine.doubt(beat, &self.policy, reason)
    }
}

/// A handle on a held intent for the work itself: shows the permit, tells when the lease is lost, and
/// says when the effect begins. Cheap to clone; it keeps nothing alive.
#[derive(Clone, Debug)]
pub struct Held {
    engine: Engine,
    beat: Arc<Beat>,
    started: Arc<AtomicBool>,
}

impl Held {
    /// Returns the proof of the claim.
    #[must_use]
    pub fn permit(&self) -> &Permit {
        &self.beat.permit
    }

    /// Returns what is cancelled when the lease is lost: from then on nothing more should be sent.
    #[must_use]
    pub fn lost(&self) -> CancellationToken {
        self.beat.lost.clone()
    }

    /// Returns until when the holder may believe in its lease, by the monotonic clock.
    #[must_use]
    pub fn deadline(&self) -> Monotonic {
        self.beat.deadline()
    }

    /// Says that the effect begins now. Past the holder's own deadline it first renews the lease.
    ///
    /// Call it before the first byte of an effect is sent, and before every further effect.
    ///
    /// # Errors
    ///
    /// Fails if the permit has ended or the store cannot be asked; nothing may be sent then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready leaves the effect as not begun.
    pub async fn start(&self) -> Result<(), Error> {
        if self.beat.lost.is_cancelled() {
            return Err(Error::Stale);
        }
        // A process that was frozen may read the answer to a renewal when that lease is over, too.
        while self.engine.now() >= self.beat.deadline() {
            if !self.engine.renew_now(&self.beat).await? {
                return Err(Error::Stale);
            }
        }
        self.started.store(true, Ordering::Release);
        Ok(())
    }
}

/// What is kept after a run was ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// This end is what is kept.
    Stored,
    /// The same permit had stored an end before, and that is what is kept.
    Before(Box<Record>),
}

impl Drop for Holder {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let (engine, beat) = self.parts();
        if !self.held.started.load(Ordering::Acquire) {
            engine.end_beat(&beat);
            let permit = &beat.permit;
            engine.abandon(permit.id.clone(), permit.token, beat.copies, &self.policy);
            return;
        }
        let reason = if std::thread::panicking() { "panicked" } else { "dropped" };
        // Without a runtime the lease ends by itself, and `on_lost` decides.
        if tokio::runtime::Handle::try_current().is_ok() {
            drop(engine.doubt(beat, &self.policy, reason));
        } else {
            engine.end_beat(&beat);
        }
    }
}
