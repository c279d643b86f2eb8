//! What a claim meets, in the fixed order: own claim, mismatch, unknown, forgotten, in progress,
//! replay.

use std::time::Duration;

use super::Refusal;
use crate::{
    clock::Timestamp,
    fingerprint::Fingerprint,
    key::IntentId,
    record::{Fence, Lease, Phase, Record, State, Token},
};

/// What the next claim does when the lease of a holder is over.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum OnLost {
    /// The intent becomes unknown; nobody runs it again by guess.
    #[default]
    Hold,
    /// The claim is granted with the mark "ask first": find out, then complete or go on.
    Reconcile,
    /// The claim is granted: every step below carries a key, or nothing outside can have happened.
    Rerun,
}

/// When fingerprints are compared.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Compare {
    /// A finished record is replayed without comparing; a take-over still compares.
    ReplayFirst,
    /// The same key with other content is refused.
    #[default]
    Strict,
}

/// What is asked of a store by one claim.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The intent.
    pub id: IntentId,
    /// The claim's own name; new for every claim, the same for repeats of it.
    pub token: Token,
    /// What is asked for, by the current plan.
    pub fingerprint: Fingerprint,
    /// The same content by older plans, for records made by them.
    pub older: Vec<Fingerprint>,
    /// The instant of the store's time after which this claim must no longer be granted.
    pub not_after: Timestamp,
    /// How long the lease lasts.
    pub lease: Duration,
    /// What to do about a lost holder.
    pub on_lost: OnLost,
    /// When to compare.
    pub compare: Compare,
    /// The caller's name for this request, for tracing; at most [`Ask::CLAIMED_BY_MAX`] bytes.
    pub claimed_by: Option<Box<str>>,
}

impl Ask {
    /// The largest `claimed_by`, in bytes.
    pub const CLAIMED_BY_MAX: usize = 255;
    /// The largest number of older fingerprints.
    pub const OLDER_MAX: usize = 16;

    fn same(&self, kept: &Fingerprint) -> Option<bool> {
        std::iter::once(&self.fingerprint)
            .chain(&self.older)
            .find(|own| own.plan() == kept.plan())
            .map(|own| own == kept)
    }
}

/// How a claim is granted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Grant {
    /// No record was remembered.
    Fresh,
    /// An earlier run had no effect.
    Reopened,
    /// The holder was lost.
    TakenOver {
        /// The new holder must find out first whether the effect happened.
        ask_first: bool,
    },
}

/// What a claim meets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Decision {
    /// The store writes [`grant`] and the caller becomes the holder.
    Grant(Grant),
    /// The store writes [`lose`], and the caller is refused with it.
    Lose(Refusal),
    /// Nothing is written.
    Refuse(Refusal),
    /// Nothing is written but the lease, which was renewed in the future, is rewritten to now.
    RefuseAndRewind(Refusal),
    /// Nothing is written; the caller gets the kept outcome.
    Replay,
    /// Nothing is written: this token was granted before and has ended since.
    Stale,
    /// Nothing is written: the claim came after its `not_after`.
    TooLate,
    /// Nothing is written: this very claim was granted before, and the caller is the holder.
    Yours,
}

/// Says whether a holder must find out first whether the effect happened: an earlier holder was lost, or
/// may have been. Without a `grant` the answer that said how the claim was granted was lost.
///
/// Under [`OnLost::Reconcile`] whoever takes over is told to ask. If it gives the intent back without
/// having asked, the question is still open: so the next one asks too.
#[must_use]
pub const fn asks_first(grant: Option<Grant>, on_lost: OnLost) -> bool {
    match grant {
        Some(Grant::Fresh) => false,
        Some(Grant::TakenOver { ask_first }) => ask_first,
        Some(Grant::Reopened) | None => matches!(on_lost, OnLost::Reconcile),
    }
}

/// Decides what a claim meets.
#[must_use]
pub fn claim(seen: Option<&Record>, ask: &Ask, now: Timestamp) -> Decision {
    let in_time = |decision| {
        if now > ask.not_after { Decision::TooLate } else { decision }
    };
    let Some(record) = seen else {
        return in_time(Decision::Grant(Grant::Fresh));
    };
    if let Some(decision) = own(record, ask) {
        return decision;
    }
    let phase = record.phase(now);
    if let Some(refusal) = compared(record, phase, ask) {
        return Decision::Refuse(refusal);
    }
    match phase {
        Phase::Absent => in_time(Decision::Grant(Grant::Fresh)),
        Phase::Stored(State::Unknown) => Decision::Refuse(unknown(record)),
        Phase::Forgotten => Decision::Refuse(forgotten(record)),
        Phase::Stored(State::Running) if !record.lapsed(now) => in_progress(record, now),
        Phase::Stored(State::Running) => in_time(lost(record, ask.on_lost)),
        Phase::Stored(State::Done | State::Failed) => Decision::Replay,
        Phase::Stored(State::Open) => in_time(Decision::Grant(Grant::Reopened)),
    }
}

/// Recognises a repeat of the claim that the record is about.
fn own(record: &Record, ask: &Ask) -> Option<Decision> {
    if record.token != ask.token {
        return None;
    }
    match record.state {
        State::Running => Some(Decision::Yours),
        State::Open => Some(Decision::Stale),
        State::Done | State::Failed | State::Unknown => None,
    }
}

fn compared(record: &Record, phase: Phase, ask: &Ask) -> Option<Refusal> {
    let must = match (phase, ask.compare) {
        (Phase::Absent, _) => false,
        (Phase::Stored(State::Open), _) => record.compare,
        (Phase::Stored(State::Running), Compare::ReplayFirst) => ask.on_lost != OnLost::Hold,
        (_, Compare::ReplayFirst) => false,
        (_, Compare::Strict) => true,
    };
    match must.then(|| ask.same(&record.fingerprint)) {
        None | Some(Some(true)) => None,
        Some(Some(false)) => Some(Refusal::Mismatch),
        Some(None) => Some(Refusal::Incomparable { plan: record.fingerprint.plan() }),
    }
}

fn unknown(record: &Record) -> Refusal {
    Refusal::Unknown { claimed_at: record.claimed_at, claimed_by: record.claimed_by.clone() }
}

fn forgotten(record: &Record) -> Refusal {
    Refusal::Forgotten { settled_at: record.settled_at, pointer: record.pointer.clone() }
}

fn in_progress(record: &Record, now: Timestamp) -> Decision {
    let ahead = record.lease.renewed_at > now;
    let refusal = Refusal::InProgress {
        claimed_at: Some(record.claimed_at),
        lease_left: record.lease.ends_at().since(now).min(record.lease.length),
        claimed_by: record.claimed_by.clone(),
    };
    if ahead { Decision::RefuseAndRewind(refusal) } else { Decision::Refuse(refusal) }
}

fn lost(record: &Record, on_lost: OnLost) -> Decision {
    match on_lost {
        OnLost::Hold => Decision::Lose(unknown(record)),
        OnLost::Reconcile => Decision::Grant(Grant::TakenOver { ask_first: true }),
        OnLost::Rerun => Decision::Grant(Grant::TakenOver { ask_first: false }),
    }
}

/// Makes the record that is written when a lost holder is held against: unknown from now on.
#[must_use]
pub fn lose(record: &Record, now: Timestamp) -> Record {
    let mut next = record.clone();
    next.state = State::Unknown;
    next.settled_at = Some(now);
    next.reason = Some("lease-over".into());
    next
}

/// Makes the record that is written when a lease was renewed in the future, as by a promoted
/// standby's clock: it was renewed now.
#[must_use]
pub fn rewind(record: &Record, now: Timestamp) -> Record {
    let mut next = record.clone();
    next.lease.renewed_at = now;
    next
}

/// Makes the record that a granted claim writes.
#[must_use]
pub fn grant(
    seen: Option<&Record>,
    ask: &Ask,
    grant: Grant,
    floor: Fence,
    now: Timestamp,
) -> Record {
    let carried = seen.filter(|_| grant != Grant::Fresh);
    let same = carried.is_some_and(|record| ask.same(&record.fingerprint) == Some(true));
    let (takeovers, incarnation) = match (grant, carried) {
        (Grant::TakenOver { .. }, Some(r)) => (r.takeovers.saturating_add(1), r.incarnation),
        // A clean release says that no run had an effect, so other content may begin anew.
        (Grant::Reopened, Some(r)) if !same && !r.compare => (0, r.incarnation.saturating_add(1)),
        (_, Some(r)) => (r.takeovers, r.incarnation),
        (_, None) => (0, 0),
    };
    Record {
        id: ask.id.clone(),
        state: State::Running,
        token: ask.token,
        fence: Fence::next(seen.map(|record| record.fence), floor, now),
        // The same content keeps the fingerprint it was first recorded with.
        fingerprint: carried.filter(|_| same).map_or(ask.fingerprint, |r| r.fingerprint),
        lease: Lease { renewed_at: now, length: ask.lease },
        takeovers,
        compare: carried.is_some_and(|record| record.compare),
        incarnation,
        created_at: carried.map_or(now, |record| record.created_at),
        claimed_at: now,
        settled_at: None,
        claimed_by: ask.claimed_by.clone(),
        reason: None,
        resolved_by: None,
        outcome: None,
        pointer: None,
        replay_until: Timestamp::MAX,
        remember_until: Timestamp::MAX,
    }
}
