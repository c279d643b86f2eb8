//! Says that a holder whose lease is over is lost.
//!
//! No record changes by time alone: it changes inside somebody's claim. The operator's claim brings
//! the record's own fingerprint and `hold`, so that the only thing it can do to a running record is
//! to make it unknown.

use std::time::Duration;

use semel::{
    Refusal, StoreError, Token,
    decide::{Ask, Compare, OnLost, ReleaseAsk},
    store::{
        Actor, ClaimAnswer,
        capability::{AuditKind, AuditRow},
    },
};

use super::{Records, Seen};

/// How long after the look the claim may still be decided.
const NOT_AFTER: Duration = Duration::from_secs(10);

/// What became of a record that was running.
#[derive(Clone, Debug)]
pub enum Lapse {
    /// The lease still runs: the holder may be working.
    Held {
        /// How long it still lasts.
        lease_left: Duration,
    },
    /// The record is no longer running, or was never.
    Moved,
    /// It is unknown now, and can be resolved.
    Unknown,
}

impl Records {
    /// Makes a running record whose lease is over unknown, and writes who did it to the audit; without
    /// an actor nothing is written.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be asked; the record is then running or unknown.
    pub async fn lapse(&self, seen: &Seen, actor: Option<Actor>) -> Result<Lapse, StoreError> {
        let record = &seen.record;
        let token = Token::from_bytes(self.entropy.bytes());
        let now = self.now().await?;
        let ask = Ask {
            id: record.id.clone(),
            token,
            fingerprint: record.fingerprint,
            older: Vec::new(),
            not_after: now.after(NOT_AFTER),
            lease: record.lease.length,
            on_lost: OnLost::Hold,
            compare: Compare::Strict,
            claimed_by: Some("an operator".into()),
        };
        let claimed = self.store.claim(vec![ask]).await?.into_iter().next();
        Ok(match claimed.map(|claimed| claimed.answer) {
            Some(ClaimAnswer::Refused(Refusal::Unknown { .. })) => {
                if let Some(Actor { name: actor, note }) = actor {
                    let (id, kind) = (record.id.clone(), AuditKind::Lapse);
                    self.inspect.note(AuditRow { id, at: now, kind, actor, note }).await?;
                }
                Lapse::Unknown
            }
            Some(ClaimAnswer::Refused(Refusal::InProgress { lease_left, .. })) => {
                Lapse::Held { lease_left }
            }
            Some(ClaimAnswer::Granted { permit, .. }) => {
                // It was given back between the look and the claim. It goes back as it was.
                let back = ReleaseAsk {
                    token: permit.token,
                    fence: Some(permit.fence),
                    compare: true,
                    reason: Some("operator".into()),
                    remember_for: record.remember_until.since(now).max(NOT_AFTER),
                };
                self.store.release(permit.id, back).await?;
                Lapse::Moved
            }
            _ => Lapse::Moved,
        })
    }
}
