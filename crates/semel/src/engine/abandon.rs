//! Giving back a claim whose effect never began.

use std::{sync::Arc, time::Duration};

use super::{ASK_FOR, Engine};
use crate::{
    clock::Timestamp,
    decide::ReleaseAsk,
    key::IntentId,
    policy::Policy,
    record::Token,
    store::{ReleaseAnswer, Released},
    telemetry::count,
};

/// Which copies of a claim may still arrive at the store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Copies {
    /// Several, or one beside another that was answered, none of them granted after the instant. Even
    /// what was given back may be granted again, once somebody else had it in between.
    Many(Timestamp),
    /// None: all were answered.
    None,
    /// One, not granted after the instant.
    One(Timestamp),
}

impl Copies {
    /// Says whether an answer to a release is the last word.
    fn is_definite(self, answer: ReleaseAnswer, now: Timestamp) -> bool {
        match self {
            Self::None => true,
            Self::One(not_after) => answer != ReleaseAnswer::NotHeld || now > not_after,
            Self::Many(not_after) => now > not_after,
        }
    }
}

impl Engine {
    /// Releases whatever `token` may hold, in a task of the engine, until the answer is definite: no
    /// copy of the claim can be granted any more.
    ///
    /// The claim's effect never began, so this is a clean release: no run had an effect.
    pub(super) fn abandon(&self, id: IntentId, token: Token, copies: Copies, policy: &Policy) {
        count(&self.inner.counters.abandoned);
        self.release_copies(id, token, copies, false, policy);
    }

    /// Does what [`Engine::abandon`] does for a claim that was given back already, or should have been:
    /// if its run may have had an effect, that is not forgotten here (`compare`).
    pub(super) fn release_copies(
        &self,
        id: IntentId,
        token: Token,
        copies: Copies,
        compare: bool,
        policy: &Policy,
    ) {
        let ask = ReleaseAsk {
            token,
            fence: None,
            compare,
            reason: Some("abandoned".into()),
            remember_for: policy.remember_for,
        };
        let engine = self.clone();
        // A store that stays away is asked for as long as the lease may run and a day more; past
        // that the lease is over and the record is somebody else's to decide.
        let give_up = self.now().after(policy.lease.saturating_add(Duration::from_secs(86_400)));
        let abandoned = async move {
            let mut pause = Duration::from_millis(5);
            while !engine.released(&id, &ask, copies).await && engine.now() < give_up {
                engine.inner.clock.sleep_until(engine.now().after(pause)).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
        };
        // Without a runtime there is nobody to wait for the store: the lease ends by itself.
        if tokio::runtime::Handle::try_current().is_ok() {
            self.inner.tasks.spawn(abandoned);
        }
    }

    async fn released(&self, id: &IntentId, ask: &ReleaseAsk, copies: Copies) -> bool {
        let store = Arc::clone(&self.inner.store);
        let (asked, ask) = (id.clone(), ask.clone());
        let until = self.now().after(ASK_FOR);
        let released = self.owned_until(until, async move { store.release(asked, ask).await });
        match released.await {
            Ok(Released { answer, now }) => {
                let definite = copies.is_definite(answer, now);
                if definite || answer == ReleaseAnswer::Stored {
                    self.inner.waiters.wake_one(id);
                }
                definite
            }
            Err(error) => {
                tracing::debug!(%error, "an abandoned claim could not be released yet");
                false
            }
        }
    }
}
