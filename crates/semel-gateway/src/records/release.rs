//! Gives an intent back: an operator asserts that no run of it had an effect.

use semel::{
    State, StoreError, Timestamp,
    decide::ReleaseAsk,
    policy::Policy,
    store::{
        Actor, ReleaseAnswer,
        capability::{AuditKind, AuditRow},
    },
};

use super::{Lapse, Records, Seen};

/// How a release ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Release {
    /// The record is no longer what was seen.
    Changed,
    /// It is neither running nor unknown.
    NotHeld(State),
    /// It is open: the next request with the same content runs.
    Stored,
    /// The holder may still be sending until then, unless forced.
    TooEarly(Timestamp),
}

impl Records {
    /// Gives an intent back that was seen running or unknown, and writes who did it to the audit.
    /// The next request must bring the same content.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be asked. A repeat changes nothing but the audit.
    pub async fn release(
        &self,
        seen: &Seen,
        force: bool,
        policy: &Policy,
        actor: Actor,
    ) -> Result<Release, StoreError> {
        let record = &seen.record;
        if !matches!(record.state, State::Running | State::Unknown) {
            return Ok(Release::NotHeld(record.state));
        }
        if !force && let Err(why) = self.is_settled(seen, policy).await? {
            return Ok(why);
        }
        let ask = ReleaseAsk {
            token: record.token,
            fence: Some(record.fence),
            compare: true,
            reason: Some("operator".into()),
            remember_for: policy.remember_for,
        };
        let released = self.store.release(record.id.clone(), ask).await?;
        if released.answer == ReleaseAnswer::NotHeld {
            return Ok(Release::Changed);
        }
        let row = AuditRow {
            id: record.id.clone(),
            at: released.now,
            kind: AuditKind::Release,
            actor: actor.name,
            note: actor.note,
        };
        self.inspect.note(row).await?;
        Ok(Release::Stored)
    }

    /// Makes sure that the holder that was seen neither sends nor can renew any more.
    ///
    /// One that is still running could renew its lease after the look and act before the release
    /// arrives; what is unknown is not renewed.
    async fn is_settled(
        &self,
        seen: &Seen,
        policy: &Policy,
    ) -> Result<Result<(), Release>, StoreError> {
        let settled = |seen: &Seen| {
            let at = seen.record.lease.ends_at().after(policy.settle_for);
            if seen.now < at { Err(Release::TooEarly(at)) } else { Ok(()) }
        };
        let first = settled(seen);
        if first.is_err() || seen.record.state == State::Unknown {
            return Ok(first);
        }
        let lapsed = self.lapse(seen, None).await?;
        let Some(again) = self.read(seen.record.id.clone()).await? else {
            return Ok(Err(Release::Changed));
        };
        if again.record.permit() != seen.record.permit() {
            return Ok(Err(Release::Changed));
        }
        Ok(match (lapsed, again.record.state) {
            (_, State::Unknown) | (Lapse::Held { .. }, State::Running) => settled(&again),
            _ => Err(Release::Changed),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use semel::{
        Fingerprint, Key, Operation, Permit, Scope, Store, Tenant, Token,
        decide::{Ask, Compare, OnLost},
        store::{ClaimAnswer, Renew, memory::MemoryStore},
    };
    use semel_testkit::ManualClock;

    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    async fn held(store: &MemoryStore) -> Permit {
        let scope = Scope::new(Tenant::new("t").unwrap(), Operation::new("o").unwrap());
        let ask = Ask {
            id: scope.intent(Key::new("k").unwrap()),
            token: Token::from_bytes([1; 16]),
            fingerprint: Fingerprint::of_bytes(b"10"),
            older: Vec::new(),
            not_after: Timestamp::MAX,
            lease: LEASE,
            on_lost: OnLost::Hold,
            compare: Compare::Strict,
            claimed_by: None,
        };
        let claimed = store.claim(vec![ask]).await.unwrap().remove(0);
        let ClaimAnswer::Granted { permit, .. } = claimed.answer else { panic!("{claimed:?}") };
        permit
    }

    /// A holder is lost, and long settled, when an operator looks; then `meanwhile` happens.
    async fn released<F: Future<Output = ()>>(
        meanwhile: impl FnOnce(Arc<MemoryStore>, Arc<ManualClock>, Permit) -> F,
    ) -> (Release, State) {
        let clock = ManualClock::new();
        let store = Arc::new(MemoryStore::with_clock(clock.clone()));
        let records = Records::new(store.clone(), store.clone());
        let permit = held(&store).await;
        let policy = Policy { lease: LEASE, ..Policy::default() };
        clock.advance(LEASE + policy.settle_for);
        let seen = records.read(permit.id.clone()).await.unwrap().unwrap();
        meanwhile(store.clone(), clock, permit.clone()).await;
        let actor = Actor { name: "ada".into(), note: "looked".into() };
        let release = records.release(&seen, false, &policy, actor).await.unwrap();
        let state = records.read(permit.id).await.unwrap().unwrap().record.state;
        (release, state)
    }

    #[tokio::test]
    async fn what_was_lost_long_ago_is_given_back() {
        let (release, state) = released(|_, _, _| async {}).await;
        assert_eq!((release, state), (Release::Stored, State::Open));
    }

    #[tokio::test]
    async fn a_holder_that_renews_after_the_look_keeps_its_intent() {
        let (release, state) = released(|store, _, permit| async move {
            store.renew(vec![Renew::of(&permit, LEASE)]).await.unwrap();
        })
        .await;
        assert!(matches!(release, Release::TooEarly(_)), "{release:?}");
        assert_eq!(state, State::Running);
    }

    #[tokio::test]
    async fn a_holder_that_renewed_after_the_look_and_was_lost_again_may_still_be_sending() {
        let (release, state) = released(|store, clock, permit| async move {
            store.renew(vec![Renew::of(&permit, LEASE)]).await.unwrap();
            clock.advance(LEASE);
        })
        .await;
        assert!(matches!(release, Release::TooEarly(_)), "{release:?}");
        assert_eq!(state, State::Unknown);
    }
}
