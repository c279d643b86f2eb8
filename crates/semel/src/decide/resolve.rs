//! What an operator or a reconciler may say about an unknown intent.

use std::time::Duration;

use super::settle::{Finish, FinishKind, finished};
use crate::{
    clock::Timestamp,
    outcome::Outcome,
    record::{Fence, Record, State, Token},
};

/// What was found out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// The effect happened; this is what a retry gets.
    Done(Outcome),
    /// The operation ended in a final failure; this is what a retry gets.
    Failed(Outcome),
    /// The effect did not happen; the next claim with the same content is granted.
    NotDone {
        /// Derived keys change, since a provider may keep a failure under the old ones.
        new_incarnation: bool,
    },
}

impl Verdict {
    /// Returns the word for this verdict.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Done(_) => "done",
            Self::Failed(_) => "failed",
            Self::NotDone { .. } => "not done",
        }
    }
}

/// What is asked of a store by a resolution: a compare-and-set on `unknown` and on the claim that
/// the operator saw.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ResolveAsk {
    /// The resolution's own name, made by the caller; a repeat by the same name changes nothing.
    pub resolve_id: [u8; 16],
    /// The token that the operator saw.
    pub token: Token,
    /// The fence that the operator saw.
    pub fence: Fence,
    /// What was found out.
    pub verdict: Verdict,
    /// How long after the end of the lease "not done" may first be said: at least the time-out of
    /// whatever the holder may have sent last.
    pub settle_for: Duration,
    /// Says "not done" before that.
    pub force: bool,
    /// How long the outcome is replayed.
    pub replay_for: Duration,
    /// How long the record is remembered.
    pub remember_for: Duration,
}

/// What a resolution meets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ResolveDecision {
    /// Nothing is written: the same resolution was stored before.
    Already,
    /// Nothing is written: no record.
    Absent,
    /// Nothing is written: the state, the token or the fence is not what the operator saw.
    Changed(State),
    /// Nothing is written: the holder may still be sending until then.
    TooEarly(Timestamp),
    /// The store writes this record.
    Write(Box<Record>),
}

/// How a resolution ended; what a store answers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Resolution {
    /// It was stored before, by the same id.
    Already,
    /// No record is there.
    Absent,
    /// The record is no longer what the operator saw; this is its state.
    Changed(State),
    /// "Not done" may be said from this instant on, or by force.
    TooEarly(Timestamp),
    /// It is stored.
    Stored,
}

/// Decides whether a resolution is stored.
#[must_use]
pub fn resolve(seen: Option<&Record>, ask: &ResolveAsk, now: Timestamp) -> ResolveDecision {
    let Some(record) = seen else {
        return ResolveDecision::Absent;
    };
    if record.resolved_by == Some(ask.resolve_id) {
        return ResolveDecision::Already;
    }
    if record.state != State::Unknown || record.token != ask.token || record.fence != ask.fence {
        return ResolveDecision::Changed(record.state);
    }
    let settled_at = record.lease.ends_at().after(ask.settle_for);
    let not_done = matches!(ask.verdict, Verdict::NotDone { .. });
    if not_done && !ask.force && now < settled_at {
        return ResolveDecision::TooEarly(settled_at);
    }
    ResolveDecision::Write(Box::new(resolved(record, ask, now)))
}

fn resolved(record: &Record, ask: &ResolveAsk, now: Timestamp) -> Record {
    let finish = |kind, outcome: &Outcome| {
        let finish = Finish {
            kind,
            outcome: Some(outcome.clone()),
            reason: Some("resolved".into()),
            replay_for: ask.replay_for,
            remember_for: ask.remember_for,
        };
        finished(record, &finish, now)
    };
    let mut next = match &ask.verdict {
        Verdict::Done(outcome) => finish(FinishKind::Done, outcome),
        Verdict::Failed(outcome) => finish(FinishKind::Failed, outcome),
        Verdict::NotDone { new_incarnation } => {
            let mut open = record.clone();
            open.state = State::Open;
            open.settled_at = Some(now);
            open.reason = Some("resolved".into());
            open.compare = true;
            open.incarnation = record.incarnation.saturating_add(u32::from(*new_incarnation));
            open.remember_until = now.after(ask.remember_for);
            open
        }
    };
    next.resolved_by = Some(ask.resolve_id);
    next
}
