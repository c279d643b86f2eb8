//! Resolutions of unknown intents, each with its row of the audit in one transaction.

use semel::{
    IntentId, StoreError,
    decide::{self, Resolution, ResolveAsk, ResolveDecision},
    store::{Actor, capability::AuditRow},
};

use super::{Answered, Busy, Verb};
use crate::{
    error::{Fault, busy},
    link::Step,
    lock::LockSecret,
    locked::Write,
    names::Named,
};

/// Resolves an unknown intent.
#[derive(Debug)]
pub(crate) struct Resolve {
    named: Named,
    ask: ResolveAsk,
    actor: Actor,
}

impl Resolve {
    pub(crate) fn new(id: IntentId, ask: ResolveAsk, actor: Actor, secret: &LockSecret) -> Self {
        Self { named: Named::new(id, secret), ask, actor }
    }
}

impl Verb for Resolve {
    type Answer = Resolution;

    fn named(&self) -> Option<&Named> {
        Some(&self.named)
    }

    fn size(&self) -> (usize, usize) {
        (1, 0)
    }

    async fn run(step: Step<'_>, batch: &[&Self]) -> Result<Vec<Answered<Resolution>>, Fault> {
        let names: Vec<_> = batch.iter().map(|resolve| &resolve.named).collect();
        let (mut answers, mut writes) = (Vec::with_capacity(batch.len()), Vec::new());
        for (resolve, locked) in batch.iter().zip(step.begin(&names).await?) {
            if !locked.is_locked {
                answers.push(Answered::Busy(Busy(None)));
                continue;
            }
            let (seen, now) = (locked.look.record.as_ref(), locked.look.now);
            let resolution = match decide::resolve(seen, &resolve.ask, now) {
                ResolveDecision::Already => Resolution::Already,
                ResolveDecision::Absent => Resolution::Absent,
                ResolveDecision::Changed(state) => Resolution::Changed(state),
                ResolveDecision::TooEarly(until) => Resolution::TooEarly(until),
                ResolveDecision::Write(next) => {
                    writes.push(Write::put(seen, *next));
                    let Self { named, ask, actor } = resolve;
                    let row = AuditRow::resolved(&named.id, &ask.verdict, actor, now);
                    writes.push(Write::Note(row));
                    Resolution::Stored
                }
            };
            answers.push(Answered::Done(resolution));
        }
        if step.commit(&writes).await?.contains(&false) {
            return Ok(batch.iter().map(|_| Answered::Busy(Busy(None))).collect());
        }
        Ok(answers)
    }

    fn gives_up(&self, _: Busy<Resolution>) -> Result<Resolution, StoreError> {
        Err(busy())
    }
}
