//! Giving back a claim whose effect never began.

use std::{sync::Arc, time::Duration};

use super::Engine;
use crate::{
    clock::Timestamp,
    decide::ReleaseAsk,
    key::IntentId,
    policy::Policy,
    record::Token,
    store::{ReleaseAnswer, Released},
    telemetry::count,
};

impl Engine {
    /// Releases whatever `token` may hold, in a task of the engine, until the answer is definite:
    /// the release was stored, or the token is not held and the store's time is past `not_after`, so
    /// that a claim still on its way can no longer be granted.
    ///
    /// The claim's effect never began, so this is a clean release: no run had an effect.
    pub(super) fn abandon(
        &self,
        id: IntentId,
        token: Token,
        not_after: Option<Timestamp>,
        policy: &Arc<Policy>,
    ) {
        count(&self.inner.counters.abandoned);
        let ask = ReleaseAsk {
            token,
            fence: None,
            compare: false,
            reason: Some("abandoned".into()),
            remember_for: policy.remember_for,
        };
        let engine = self.clone();
        // A store that stays away is asked for as long as the lease may run and a day more; past
        // that the lease is over and the record is somebody else's to decide.
        let give_up = self.now().after(policy.lease.saturating_add(Duration::from_secs(86_400)));
        let abandoned = async move {
            let mut pause = Duration::from_millis(5);
            while !engine.released(&id, &ask, not_after).await && engine.now() < give_up {
                engine.inner.clock.sleep_until(engine.now().after(pause)).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
            engine.inner.waiters.wake_one(&id);
        };
        // Without a runtime there is nobody to wait for the store: the lease ends by itself.
        if tokio::runtime::Handle::try_current().is_ok() {
            self.inner.tasks.spawn(abandoned);
        }
    }

    async fn released(
        &self,
        id: &IntentId,
        ask: &ReleaseAsk,
        not_after: Option<Timestamp>,
    ) -> bool {
        let store = Arc::clone(&self.inner.store);
        let (id, ask) = (id.clone(), ask.clone());
        let until = self.now().after(Duration::from_secs(5));
        match self.owned_until(until, async move { store.release(id, ask).await }).await {
            Ok(Released { answer: ReleaseAnswer::Stored | ReleaseAnswer::Already, .. }) => true,
            Ok(Released { answer: ReleaseAnswer::NotHeld, now }) => {
                not_after.is_none_or(|not_after| now > not_after)
            }
            Err(error) => {
                tracing::debug!(%error, "an abandoned claim could not be released yet");
                false
            }
        }
    }
}
