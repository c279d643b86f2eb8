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

use super::{Records, Seen};

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
        let settled_at = record.lease.ends_at().after(policy.settle_for);
        if !force && seen.now < settled_at {
            return Ok(Release::TooEarly(settled_at));
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
}
