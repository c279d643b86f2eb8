//! What a permit may still do: renew, complete, release. The token, the fence and the state decide,
//! never the lease.

use std::time::Duration;

use crate::{
    clock::Timestamp,
    outcome::Outcome,
    record::{Fence, Record, State, Token},
};

/// How a run ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FinishKind {
    /// In success.
    Done,
    /// In a final failure.
    Failed,
    /// The holder itself cannot say whether the effect happened.
    Unknown,
}

/// The end of a run, as its holder tells it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finish {
    /// How it ended.
    pub kind: FinishKind,
    /// What to keep; ignored for [`FinishKind::Unknown`].
    pub outcome: Option<Outcome>,
    /// Why it is unknown, as a short stable code.
    pub reason: Option<Box<str>>,
    /// How long the outcome is replayed.
    pub replay_for: Duration,
    /// How long the record is remembered; never shorter than `replay_for`.
    pub remember_for: Duration,
}

/// What a release says of the run that it ends.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReleaseAsk {
    /// The claim's token.
    pub token: Token,
    /// The claim's fence; `None` when the answer to the claim was lost.
    pub fence: Option<Fence>,
    /// Some run may have had an effect: the next claim is granted, but must bring the same content.
    pub compare: bool,
    /// Why, as a short stable code.
    pub reason: Option<Box<str>>,
    /// How long the open record is remembered.
    pub remember_for: Duration,
}

impl ReleaseAsk {
    /// The largest reason of a release or a [`Finish`], in bytes.
    pub const REASON_MAX: usize = 255;
}

/// What a write after a claim meets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Settle {
    /// Nothing is written: the same write was stored before.
    Already,
    /// Nothing is written to the record: the permit has ended. A completion that meets this says
    /// that an effect happened which nobody waits for any more: the store keeps it as a conflict.
    Stale,
    /// The store writes this record.
    Write(Box<Record>),
}

/// Decides whether a lease is renewed.
#[must_use]
pub fn renew(
    seen: Option<&Record>,
    token: Token,
    fence: Fence,
    length: Duration,
    now: Timestamp,
) -> Settle {
    match seen {
        Some(r) if r.token == token && r.fence == fence && r.state == State::Running => {
            let mut next = r.clone();
            next.lease.renewed_at = now;
            next.lease.length = length;
            Settle::Write(Box::new(next))
        }
        _ => Settle::Stale,
    }
}

/// Decides whether the end of a run is stored.
#[must_use]
pub fn complete(
    seen: Option<&Record>,
    token: Token,
    fence: Fence,
    finish: &Finish,
    now: Timestamp,
) -> Settle {
    let Some(record) = seen.filter(|r| r.token == token && r.fence == fence) else {
        return Settle::Stale;
    };
    if record.resolved_by.is_some() {
        return Settle::Stale;
    }
    match (record.state, finish.kind) {
        (State::Done | State::Failed, _) | (State::Unknown, FinishKind::Unknown) => Settle::Already,
        (State::Open, _) => Settle::Stale,
        (State::Running | State::Unknown, _) => {
            Settle::Write(Box::new(finished(record, finish, now)))
        }
    }
}

/// Makes the record that a finish writes over `record`.
pub(super) fn finished(record: &Record, finish: &Finish, now: Timestamp) -> Record {
    let mut next = record.clone();
    next.settled_at = Some(now);
    next.reason.clone_from(&finish.reason);
    next.state = match finish.kind {
        FinishKind::Done => State::Done,
        FinishKind::Failed => State::Failed,
        FinishKind::Unknown => State::Unknown,
    };
    if finish.kind != FinishKind::Unknown {
        next.pointer = finish.outcome.as_ref().and_then(|outcome| outcome.pointer.clone());
        next.outcome.clone_from(&finish.outcome);
        next.replay_until = now.after(finish.replay_for);
        next.remember_until = now.after(finish.remember_for.max(finish.replay_for));
    }
    next
}

/// Decides whether a release is stored.
#[must_use]
pub fn release(seen: Option<&Record>, ask: &ReleaseAsk, now: Timestamp) -> Settle {
    let own = |r: &&Record| r.token == ask.token && ask.fence.is_none_or(|fence| fence == r.fence);
    let Some(record) = seen.filter(own) else {
        return Settle::Stale;
    };
    match record.state {
        _ if record.resolved_by.is_some() => Settle::Stale,
        State::Open => Settle::Already,
        State::Done | State::Failed => Settle::Stale,
        State::Running | State::Unknown => {
            let mut next = record.clone();
            next.state = State::Open;
            next.settled_at = Some(now);
            next.reason.clone_from(&ask.reason);
            // After a take-over nobody can say that no earlier run had an effect.
            next.compare |= ask.compare || record.takeovers > 0;
            next.remember_until = now.after(ask.remember_for);
            Settle::Write(Box::new(next))
        }
    }
}
