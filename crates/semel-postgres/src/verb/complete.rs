//! The ends of runs: of many holders in one statement, and in a transaction what that did not store.

use semel::{
    Permit, Record, StoreError, Timestamp, codec,
    decide::{self, Finish, FinishKind, Settle},
    store::{Completed, capability::AuditRow},
};

use super::{Answered, Busy, Verb};
use crate::{
    error::{Fault, busy},
    link::Step,
    lock::LockSecret,
    locked::{Look, Write},
    names::{Named, Names, bytes, numbers, texts, told},
    row,
    value::Cells,
};

/// Stores the end of a run.
#[derive(Debug)]
pub(crate) struct Complete {
    named: Named,
    permit: Permit,
    finish: Finish,
    /// The record of a permit that holds, ended at the beginning of time; `None` for an end in doubt.
    ended: Option<Box<Record>>,
    outcome: Option<Vec<u8>>,
}

impl Complete {
    pub(crate) fn new(permit: Permit, mut finish: Finish, secret: &LockSecret) -> Self {
        finish.reason = finish.reason.as_deref().map(told);
        let outcome = finish.outcome.as_ref().map(codec::encode);
        let (held, begin) = (Record::held_by(&permit), Timestamp::default());
        let ended = decide::complete(Some(&held), permit.token, permit.fence, &finish, begin);
        let ended = match ended {
            Settle::Write(ended) if finish.kind != FinishKind::Unknown => Some(ended),
            _ => None,
        };
        let named = Named::new(permit.id.clone(), secret);
        Self { named, permit, finish, ended, outcome }
    }

    /// Decides by what was read under the lock.
    fn decided(&self, look: &Look) -> (Completed, Option<Write>) {
        let (permit, finish, seen) = (&self.permit, &self.finish, look.record.as_ref());
        match (decide::complete(seen, permit.token, permit.fence, finish, look.now), seen) {
            (Settle::Write(next), _) => (Completed::Stored, Some(Write::put(seen, *next))),
            (Settle::Already, Some(record)) => (Completed::Already(Box::new(record.clone())), None),
            (Settle::Already | Settle::Stale, _) => {
                let told = finish.kind != FinishKind::Unknown;
                (
                    Completed::Stale,
                    told.then(|| Write::Note(AuditRow::conflict(permit, finish, look.now))),
                )
            }
        }
    }
}

impl Verb for Complete {
    type Answer = Completed;

    fn named(&self) -> Option<&Named> {
        Some(&self.named)
    }

    fn size(&self) -> (usize, usize) {
        (1, self.outcome.as_ref().map_or(0, Vec::len))
    }

    async fn run(step: Step<'_>, batch: &[&Self]) -> Result<Vec<Answered<Completed>>, Fault> {
        let stored = held(step, batch).await?;
        let rest: Vec<_> = batch
            .iter()
            .zip(&stored)
            .filter(|(_, stored)| !**stored)
            .map(|(end, _)| *end)
            .collect();
        let mut judged = locked(step, &rest).await?.into_iter();
        let answer = |stored| match stored {
            true => Some(Answered::Done(Completed::Stored)),
            false => judged.next(),
        };
        Ok(stored.into_iter().filter_map(answer).collect())
    }

    fn gives_up(&self, _: Busy<Completed>) -> Result<Completed, StoreError> {
        Err(busy())
    }
}

/// Stores the ends of permits that hold; says which it stored.
async fn held(step: Step<'_>, batch: &[&Complete]) -> Result<Vec<bool>, Fault> {
    let ends: Vec<_> = batch.iter().filter_map(|end| Some((*end, end.ended.as_deref()?))).collect();
    let mut stored = vec![false; batch.len()];
    if ends.is_empty() {
        return Ok(stored);
    }
    let names = Names::of(ends.iter().map(|(end, _)| &end.named));
    let [tenants, operations, keys, facets] = names.params();
    let tokens: Vec<_> =
        ends.iter().map(|(end, _)| end.permit.token.as_bytes().as_slice()).collect();
    let fences: Vec<_> = ends.iter().map(|(end, _)| row::number(end.permit.fence)).collect();
    let states: Vec<_> = ends.iter().map(|(_, ended)| ended.state.as_str()).collect();
    let reasons: Vec<_> = ends.iter().map(|(_, ended)| ended.reason.as_deref()).collect();
    let pointers = |(_, ended): &(&Complete, &Record)| {
        ended.pointer.as_ref().map(|pointer| (told(&pointer.kind), told(&pointer.id)))
    };
    let (kinds, ids): (Vec<_>, Vec<_>) = ends.iter().map(|end| pointers(end).unzip()).unzip();
    let replays: Vec<_> = ends.iter().map(|(_, ended)| row::micros(ended.replay_until)).collect();
    let memories: Vec<_> =
        ends.iter().map(|(_, ended)| row::micros(ended.remember_until)).collect();
    let outcomes: Vec<_> = ends.iter().map(|(end, _)| end.outcome.as_deref()).collect();
    let params = [
        tenants,
        operations,
        keys,
        facets,
        names.locks(),
        bytes(&tokens),
        numbers(&fences),
        texts(&states),
        texts(&reasons),
        texts(&kinds),
        texts(&ids),
        numbers(&replays),
        numbers(&memories),
        bytes(&outcomes),
    ];
    let rows = step.alone(&step.statements().record_complete, &params).await?;
    let places: Vec<_> = (0..batch.len()).filter(|at| batch[*at].ended.is_some()).collect();
    for row in &rows {
        let nr = row.bigint(0)?.and_then(|nr| usize::try_from(nr).ok()?.checked_sub(1));
        if let Some(place) = nr.and_then(|nr| places.get(nr)) {
            stored[*place] = true;
        }
    }
    Ok(stored)
}

/// Stores ends under the locks of their names, by what is read then.
async fn locked(step: Step<'_>, rest: &[&Complete]) -> Result<Vec<Answered<Completed>>, Fault> {
    if rest.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<_> = rest.iter().map(|end| &end.named).collect();
    let (mut answers, mut writes) = (Vec::with_capacity(rest.len()), Vec::new());
    for (end, locked) in rest.iter().zip(step.begin(&names).await?) {
        if !locked.is_locked {
            answers.push(Answered::Busy(Busy(None)));
            continue;
        }
        let (answer, write) = end.decided(&locked.look);
        writes.extend(write);
        answers.push(Answered::Done(answer));
    }
    if step.commit(&writes).await?.contains(&false) {
        return Ok(rest.iter().map(|_| Answered::Busy(Busy(None))).collect());
    }
    Ok(answers)
}
