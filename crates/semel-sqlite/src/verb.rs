//! The verbs, each one atomic step: what it read decides, by [`semel::decide`], what it writes.

use std::time::Duration;

use semel::{
    IntentId, Permit, Record, Timestamp, codec,
    decide::{
        self, Ask, Decision, Finish, FinishKind, ReleaseAsk, Resolution, ResolveAsk,
        ResolveDecision, Settle,
    },
    store::{
        Actor, ClaimAnswer, Claimed, Completed, ReleaseAnswer, Released, Renew, Renewed,
        capability::AuditRow,
    },
};

use crate::{error::Fault, row::Seen, step::Step};

/// What the writer does in a step of one of its groups. It may be done again after a rollback, so it
/// must depend on nothing but the step.
pub(crate) trait Verb: Send + 'static {
    /// What the caller gets.
    type Answer: Send + 'static;

    /// How long it waits for another connection's lock, if the store may wait as long.
    const LOCK_WAIT: Duration = Duration::MAX;

    /// Does it.
    fn run(&self, step: &mut Step<'_>) -> Result<Self::Answer, Fault>;
}

/// Claims intents, item by item: a later item sees what an earlier one wrote.
#[derive(Debug)]
pub(crate) struct Claim(pub(crate) Vec<Asked>);

/// A claim, and whether there was no record of its intent when it was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) ask: Ask,
    pub(crate) new: bool,
}

impl Verb for Claim {
    type Answer = Vec<Claimed>;

    fn run(&self, step: &mut Step<'_>) -> Result<Self::Answer, Fault> {
        let claimed = |asked: &Asked| {
            let fresh = if asked.new { fresh(step, &asked.ask)? } else { None };
            fresh.map_or_else(|| claim(step, &asked.ask), Ok)
        };
        self.0.iter().map(claimed).collect()
    }
}

/// Claims an intent that is still new: that its row could be inserted shows that there was none.
/// `None` if there is one by now, or the claim is not granted.
fn fresh(step: &mut Step<'_>, ask: &Ask) -> Result<Option<Claimed>, Fault> {
    let now = step.now();
    let Decision::Grant(grant) = decide::claim(None, ask, now) else {
        return Ok(None);
    };
    step.room()?;
    let next = decide::grant(None, ask, grant, step.floor(), now);
    let answer = ClaimAnswer::Granted { permit: next.permit(), grant: Some(grant) };
    Ok(step.insert(&next)?.then_some(Claimed { answer, now }))
}

fn claim(step: &mut Step<'_>, ask: &Ask) -> Result<Claimed, Fault> {
    let seen = step.read(&ask.id)?;
    let now = step.now();
    let record = seen.as_ref().map(|seen| &seen.record);
    let decision = decide::claim(record, ask, now);
    let answer = match (decision, seen.as_ref()) {
        (Decision::Grant(grant), _) => {
            if seen.is_none() {
                step.room()?;
            }
            let next = decide::grant(record, ask, grant, step.floor(), now);
            step.put(seen.as_ref(), &next)?;
            ClaimAnswer::Granted { permit: next.permit(), grant: Some(grant) }
        }
        (Decision::Lose(refusal), Some(held)) => {
            step.put(Some(held), &decide::lose(&held.record, now))?;
            ClaimAnswer::Refused(refusal)
        }
        (Decision::RefuseAndRewind(refusal), Some(held)) => {
            step.renew(held, &decide::rewind(&held.record, now))?;
            ClaimAnswer::Refused(refusal)
        }
        (decision, _) => settled(decision, seen),
    };
    Ok(Claimed { answer, now })
}

/// Answers a claim for which nothing is written.
fn settled(decision: Decision, seen: Option<Seen>) -> ClaimAnswer {
    match (decision, seen) {
        (
            Decision::Refuse(refusal)
            | Decision::Lose(refusal)
            | Decision::RefuseAndRewind(refusal),
            _,
        ) => ClaimAnswer::Refused(refusal),
        (Decision::Replay, Some(seen)) => ClaimAnswer::Replay(Box::new(seen.record)),
        (Decision::Yours, Some(seen)) => {
            ClaimAnswer::Granted { permit: seen.record.permit(), grant: None }
        }
        (Decision::TooLate, _) => ClaimAnswer::TooLate,
        (Decision::Stale | Decision::Replay | Decision::Yours | Decision::Grant(_), _) => {
            ClaimAnswer::Stale
        }
    }
}

/// Answers a claim by the committed record alone; `None` if only the writer can.
pub(crate) fn answered(ask: &Ask, seen: Option<Seen>, now: Timestamp) -> Option<Claimed> {
    let decision = decide::claim(seen.as_ref().map(|seen| &seen.record), ask, now);
    match decision {
        Decision::Grant(_) | Decision::Lose(_) | Decision::RefuseAndRewind(_) => None,
        decision => Some(Claimed { answer: settled(decision, seen), now }),
    }
}

/// Renews leases.
#[derive(Debug)]
pub(crate) struct Renewals(pub(crate) Vec<Renew>);

impl Verb for Renewals {
    type Answer = Vec<Renewed>;

    fn run(&self, step: &mut Step<'_>) -> Result<Self::Answer, Fault> {
        self.0.iter().map(|renewal| renew(step, renewal)).collect()
    }
}

fn renew(step: &mut Step<'_>, renewal: &Renew) -> Result<Renewed, Fault> {
    let seen = step.read(&renewal.id)?;
    let record = seen.as_ref().map(|seen| &seen.record);
    let now = step.now();
    match (decide::renew(record, renewal.token, renewal.fence, renewal.lease, now), &seen) {
        (Settle::Write(next), Some(seen)) => {
            step.renew(seen, &next)?;
            Ok(Renewed::Held)
        }
        _ => Ok(Renewed::Stale),
    }
}

/// Stores the end of a run.
#[derive(Debug)]
pub(crate) struct Complete {
    permit: Permit,
    finish: Finish,
    /// The bytes of the outcome, made before the writer has to wait for them.
    outcome: Option<Vec<u8>>,
}

impl Complete {
    pub(crate) fn new(permit: Permit, finish: Finish) -> Self {
        let outcome = finish.outcome.as_ref().map(codec::encode);
        Self { permit, finish, outcome }
    }

    /// Stores the end of a run that is still its permit's, by one statement that says so; the
    /// transition is [`decide`]'s, of a record in that state. Says whether it was.
    fn held(&self, step: &mut Step<'_>) -> Result<bool, Fault> {
        let (permit, now) = (&self.permit, step.now());
        let running = Record::held_by(permit);
        let ended = decide::complete(Some(&running), permit.token, permit.fence, &self.finish, now);
        match ended {
            Settle::Write(next) if self.finish.kind != FinishKind::Unknown => {
                step.complete(&next, self.outcome.as_deref())
            }
            _ => Ok(false),
        }
    }
}

impl Verb for Complete {
    type Answer = Completed;

    fn run(&self, step: &mut Step<'_>) -> Result<Self::Answer, Fault> {
        if self.held(step)? {
            return Ok(Completed::Stored);
        }
        let Self { permit, finish, .. } = self;
        let seen = step.read(&permit.id)?;
        let now = step.now();
        let record = seen.as_ref().map(|seen| &seen.record);
        match (decide::complete(record, permit.token, permit.fence, finish, now), seen) {
            (Settle::Write(next), seen) => {
                step.put(seen.as_ref(), &next)?;
                Ok(Completed::Stored)
            }
            (Settle::Already, Some(seen)) => Ok(Completed::Already(Box::new(seen.record))),
            (Settle::Stale | Settle::Already, _) => {
                if finish.kind != FinishKind::Unknown {
                    step.note(&AuditRow::conflict(permit, finish, now))?;
                }
                Ok(Completed::Stale)
            }
        }
    }
}

/// Gives an intent back.
#[derive(Debug)]
pub(crate) struct Release(pub(crate) IntentId, pub(crate) ReleaseAsk);

impl Verb for Release {
    type Answer = Released;

    fn run(&self, step: &mut Step<'_>) -> Result<Self::Answer, Fault> {
        let seen = step.read(&self.0)?;
        let now = step.now();
        let record = seen.as_ref().map(|seen| &seen.record);
        let answer = match decide::release(record, &self.1, now) {
            Settle::Already => ReleaseAnswer::Already,
            Settle::Stale => ReleaseAnswer::NotHeld,
            Settle::Write(next) => {
                step.put(seen.as_ref(), &next)?;
                ReleaseAnswer::Stored
            }
        };
        Ok(Released { answer, now })
    }
}

/// Resolves an unknown intent.
#[derive(Debug)]
pub(crate) struct Resolve(pub(crate) IntentId, pub(crate) ResolveAsk, pub(crate) Actor);

impl Verb for Resolve {
    type Answer = Resolution;

    fn run(&self, step: &mut Step<'_>) -> Result<Self::Answer, Fault> {
        let Self(id, ask, actor) = self;
        let seen = step.read(id)?;
        let now = step.now();
        Ok(match decide::resolve(seen.as_ref().map(|seen| &seen.record), ask, now) {
            ResolveDecision::Already => Resolution::Already,
            ResolveDecision::Absent => Resolution::Absent,
            ResolveDecision::Changed(state) => Resolution::Changed(state),
            ResolveDecision::TooEarly(until) => Resolution::TooEarly(until),
            ResolveDecision::Write(next) => {
                step.put(seen.as_ref(), &next)?;
                step.note(&AuditRow::resolved(id, &ask.verdict, actor, now))?;
                Resolution::Stored
            }
        })
    }
}

/// Writes a row to the audit.
#[derive(Debug)]
pub(crate) struct Note(pub(crate) AuditRow);

impl Verb for Note {
    type Answer = ();

    fn run(&self, step: &mut Step<'_>) -> Result<(), Fault> {
        step.note(&self.0)
    }
}
