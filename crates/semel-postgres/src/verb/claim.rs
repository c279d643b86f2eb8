//! Claims: of many callers in one statement, and in a transaction what that cannot judge.

use std::collections::HashMap;

use semel::{
    Fence, IntentId, Record, Refusal, StoreError, StoreErrorKind, Timestamp,
    decide::{self, Ask, Decision, Grant},
    store::{ClaimAnswer, Claimed},
};
use tokio_postgres::types::Type;

use super::{Answered, Busy, Verb};
use crate::{
    error::{Fault, busy},
    link::Step,
    lock::LockSecret,
    locked::{Look, Write},
    migrate,
    names::{Named, Names, bytes, numbers, texts, told},
    row,
    value::Cells,
};

/// Claims an intent.
#[derive(Debug)]
pub(crate) struct Claim {
    named: Named,
    ask: Ask,
}

impl Claim {
    pub(crate) fn new(mut ask: Ask, secret: &LockSecret) -> Self {
        ask.claimed_by = ask.claimed_by.as_deref().map(told);
        Self { named: Named::new(ask.id.clone(), secret), ask }
    }
}

/// What is known of a name when its claim is answered; later claims of the same batch meet it.
struct Known {
    claimed: Claimed,
    /// The record, unless it is in the answer.
    record: Option<Record>,
}

impl Known {
    const fn new(answer: ClaimAnswer, now: Timestamp, record: Option<Record>) -> Self {
        Self { claimed: Claimed { answer, now }, record }
    }

    /// Answers a claim for which nothing is written; `None` if something must be.
    fn settled(ask: &Ask, now: Timestamp, record: Record) -> Option<Self> {
        let decision = decide::claim(Some(&record), ask, now);
        if decision == Decision::Replay {
            return Some(Self::new(ClaimAnswer::Replay(Box::new(record)), now, None));
        }
        Some(Self::new(unwritten(decision, Some(&record))?, now, Some(record)))
    }

    fn record(&self) -> Option<&Record> {
        match &self.claimed.answer {
            ClaimAnswer::Replay(record) => Some(record),
            _ => self.record.as_ref(),
        }
    }
}

impl Verb for Claim {
    type Answer = Claimed;

    /// All but the first of a name meet what the first left.
    const REPEATS: bool = true;

    fn named(&self) -> Option<&Named> {
        Some(&self.named)
    }

    fn size(&self) -> (usize, usize) {
        (1, 0)
    }

    async fn run(step: Step<'_>, batch: &[&Self]) -> Result<Vec<Answered<Claimed>>, Fault> {
        let mut firsts: Vec<&Self> = Vec::with_capacity(batch.len());
        let mut places: HashMap<&IntentId, usize> = HashMap::with_capacity(batch.len());
        for claim in batch {
            places.entry(&claim.ask.id).or_insert_with(|| {
                firsts.push(claim);
                firsts.len() - 1
            });
        }
        let known = firsts_of(step, &firsts).await?;
        if batch.len() == known.len() {
            return Ok(known.into_iter().map(|known| Answered::Done(known.claimed)).collect());
        }
        let mut is_first = vec![true; firsts.len()];
        let answered = batch.iter().map(|claim| {
            let place = places[&claim.ask.id];
            if std::mem::take(&mut is_first[place]) {
                return Answered::Done(known[place].claimed.clone());
            }
            later(&claim.ask, &known[place])
        });
        Ok(answered.collect())
    }

    fn gives_up(&self, _: Busy<Claimed>) -> Result<Claimed, StoreError> {
        Err(busy())
    }
}

/// Claims names that all differ.
async fn firsts_of(step: Step<'_>, claims: &[&Claim]) -> Result<Vec<Known>, Fault> {
    let mut known = Vec::with_capacity(claims.len());
    let mut rest = Vec::new();
    for (claim, fast) in claims.iter().zip(fast(step, claims).await?) {
        if fast.is_none() {
            rest.push(*claim);
        }
        known.push(fast);
    }
    if !rest.is_empty() {
        let mut judged = locked(step, &rest).await?.into_iter();
        for place in known.iter_mut().filter(|place| place.is_none()) {
            *place = judged.next();
        }
    }
    Ok(known.into_iter().flatten().collect())
}

/// Answers a claim by what an earlier one of the batch left.
fn later(ask: &Ask, known: &Known) -> Answered<Claimed> {
    let (now, seen) = (known.claimed.now, known.record());
    let answer = match &known.claimed.answer {
        // Nothing is known of what the lock hides.
        ClaimAnswer::Refused(refusal @ Refusal::InProgress { .. }) if seen.is_none() => {
            Some(ClaimAnswer::Refused(refusal.clone()))
        }
        _ => unwritten(decide::claim(seen, ask, now), seen),
    };
    answer.map_or(Answered::Again, |answer| Answered::Done(Claimed { answer, now }))
}

/// The answer to a claim for which nothing is written; `None` if something must be.
fn unwritten(decision: Decision, seen: Option<&Record>) -> Option<ClaimAnswer> {
    Some(match (decision, seen) {
        (Decision::Grant(_) | Decision::Lose(_) | Decision::RefuseAndRewind(_), _) => return None,
        (Decision::Refuse(refusal), _) => ClaimAnswer::Refused(refusal),
        (Decision::Replay, Some(record)) => ClaimAnswer::Replay(Box::new(record.clone())),
        (Decision::TooLate, _) => ClaimAnswer::TooLate,
        (Decision::Yours, Some(record)) => {
            ClaimAnswer::Granted { permit: record.permit(), grant: None }
        }
        (Decision::Stale | Decision::Replay | Decision::Yours, _) => ClaimAnswer::Stale,
    })
}

/// What a taken lock allows to say of a name without a committed record that answers.
fn in_progress() -> ClaimAnswer {
    let refusal = Refusal::InProgress {
        claimed_at: None,
        lease_left: std::time::Duration::ZERO,
        claimed_by: None,
    };
    ClaimAnswer::Refused(refusal)
}

/// Claims in one statement what has no record, and reads what has one; `None` where a transaction must
/// judge.
async fn fast(step: Step<'_>, claims: &[&Claim]) -> Result<Vec<Option<Known>>, Fault> {
    let names = Names::of(claims.iter().map(|claim| &claim.named));
    let [tenants, operations, keys, facets] = names.params();
    let column = |value: fn(&Ask) -> &[u8]| -> Vec<&[u8]> {
        claims.iter().map(|claim| value(&claim.ask)).collect()
    };
    let tokens = column(|ask| ask.token.as_bytes());
    let plans: Vec<_> = claims.iter().map(|c| *c.ask.fingerprint.plan().as_bytes()).collect();
    let plans: Vec<&[u8]> = plans.iter().map(<[u8; 8]>::as_slice).collect();
    let digests = column(|ask| ask.fingerprint.digest());
    let leases: Vec<_> = claims.iter().map(|claim| row::span(claim.ask.lease)).collect();
    let not_after: Vec<_> = claims.iter().map(|claim| row::micros(claim.ask.not_after)).collect();
    let claimed_by: Vec<_> = claims.iter().map(|claim| claim.ask.claimed_by.as_deref()).collect();
    let version = i64::from(migrate::current());
    let params = [
        tenants,
        operations,
        keys,
        facets,
        names.locks(),
        bytes(&tokens),
        bytes(&plans),
        bytes(&digests),
        numbers(&leases),
        numbers(&not_after),
        texts(&claimed_by),
        (&version, Type::INT8),
    ];
    let rows = step.alone(&step.statements().record_claim, &params).await?;
    let mut answers: Vec<_> = claims.iter().map(|_| None).collect();
    for row in &rows {
        let nr = row::count(row, 0)?.and_then(|nr| usize::try_from(nr).ok()?.checked_sub(1));
        let Some((at, claim)) = nr.and_then(|at| Some((at, claims.get(at)?))) else { continue };
        answers[at] = judged(&claim.ask, row)?;
    }
    Ok(answers)
}

/// Judges what the statement saw of one name, and did.
fn judged(ask: &Ask, row: &tokio_postgres::Row) -> Result<Option<Known>, Fault> {
    /// Where the record's columns begin.
    const RECORD: usize = 4;
    let now = row::count(row, 1)?.map(Timestamp::from_micros);
    if row.text(RECORD)?.is_some() {
        let record = row::record(ask.id.clone(), row, RECORD)?;
        return Ok(Known::settled(ask, now.unwrap_or_default(), record));
    }
    if let (Some(fence), Some(now)) = (row::count(row, 3)?, now) {
        let mut record = decide::grant(None, ask, Grant::Fresh, Fence::default(), now);
        record.fence = Fence::new(fence);
        let answer = ClaimAnswer::Granted { permit: record.permit(), grant: Some(Grant::Fresh) };
        return Ok(Some(Known::new(answer, now, Some(record))));
    }
    // Somebody else has the lock: an open transaction, or a claim that is just being committed.
    let taken = row.truth(2)? == Some(false);
    Ok(taken.then(|| Known::new(in_progress(), now.unwrap_or_default(), None)))
}

/// Claims under the locks of the names, by what is read then.
async fn locked(step: Step<'_>, claims: &[&Claim]) -> Result<Vec<Known>, Fault> {
    let names: Vec<_> = claims.iter().map(|claim| &claim.named).collect();
    let (mut known, mut writes) = (Vec::with_capacity(claims.len()), Vec::new());
    for (claim, locked) in claims.iter().zip(step.begin(&names).await?) {
        if !locked.is_locked {
            known.push(unlocked(&claim.ask, locked.look));
            continue;
        }
        let now = locked.look.now;
        let (answer, record, write) = decided(&claim.ask, locked.look);
        writes.extend(write);
        known.push(Known::new(answer, now, record));
    }
    if step.commit(&writes).await?.contains(&false) {
        return Err(changed());
    }
    Ok(known)
}

/// Answers by the committed record whatever it answers; else whoever has the lock works on it.
fn unlocked(ask: &Ask, look: Look) -> Known {
    let seen = look.record.as_ref();
    let answer = unwritten(decide::claim(seen, ask, look.now), seen).unwrap_or_else(in_progress);
    Known::new(answer, look.now, look.record)
}

/// Decides under the lock: the answer, what later claims meet, and what is written.
fn decided(ask: &Ask, look: Look) -> (ClaimAnswer, Option<Record>, Option<Write>) {
    let (seen, now) = (look.record.as_ref(), look.now);
    match decide::claim(seen, ask, now) {
        Decision::Grant(grant) => {
            let next = decide::grant(seen, ask, grant, look.floor, now);
            let answer = ClaimAnswer::Granted { permit: next.permit(), grant: Some(grant) };
            (answer, Some(next.clone()), Some(Write::put(seen, next)))
        }
        Decision::Lose(refusal) => {
            let next = seen.map(|record| decide::lose(record, now));
            let write = next.clone().map(|next| Write::put(seen, next));
            (ClaimAnswer::Refused(refusal), next, write)
        }
        Decision::RefuseAndRewind(refusal) => {
            let next = seen.map(|record| decide::rewind(record, now));
            let write = next.clone().map(|next| Write::Rewind(Box::new(next)));
            (ClaimAnswer::Refused(refusal), next, write)
        }
        decision => (unwritten(decision, seen).unwrap_or(ClaimAnswer::Stale), look.record, None),
    }
}

/// Whoever writes a name holds its lock, so what was seen under the lock is still there. Others of the
/// batch may have been written.
fn changed() -> Fault {
    let message =
        "a record changed under its lock; look for programs that write the tables of the schema";
    StoreError::new(StoreErrorKind::Unavailable, message).into()
}
