//! Giving intents back, under the locks of their names.

use semel::{
    IntentId, StoreError,
    decide::{self, ReleaseAsk, Settle},
    store::{ReleaseAnswer, Released},
};

use super::{Answered, Busy, Verb};
use crate::{
    error::{Fault, busy},
    link::Step,
    lock::LockSecret,
    locked::Write,
    names::{Named, told},
};

/// Gives an intent back.
#[derive(Debug)]
pub(crate) struct Release {
    named: Named,
    ask: ReleaseAsk,
}

impl Release {
    pub(crate) fn new(id: IntentId, mut ask: ReleaseAsk, secret: &LockSecret) -> Self {
        ask.reason = ask.reason.as_deref().map(told);
        Self { named: Named::new(id, secret), ask }
    }
}

impl Verb for Release {
    type Answer = Released;

    fn named(&self) -> Option<&Named> {
        Some(&self.named)
    }

    fn size(&self) -> (usize, usize) {
        (1, 0)
    }

    async fn run(step: Step<'_>, batch: &[&Self]) -> Result<Vec<Answered<Released>>, Fault> {
        let names: Vec<_> = batch.iter().map(|release| &release.named).collect();
        let (mut answers, mut writes) = (Vec::with_capacity(batch.len()), Vec::new());
        for (release, locked) in batch.iter().zip(step.begin(&names).await?) {
            if !locked.is_locked {
                answers.push(Answered::Busy(Busy(None)));
                continue;
            }
            let (seen, now) = (locked.look.record.as_ref(), locked.look.now);
            let answer = match decide::release(seen, &release.ask, now) {
                Settle::Already => ReleaseAnswer::Already,
                Settle::Stale => ReleaseAnswer::NotHeld,
                Settle::Write(next) => {
                    writes.push(Write::put(seen, *next));
                    ReleaseAnswer::Stored
                }
            };
            answers.push(Answered::Done(Released { answer, now }));
        }
        if step.commit(&writes).await?.contains(&false) {
            return Ok(batch.iter().map(|_| Answered::Busy(Busy(None))).collect());
        }
        Ok(answers)
    }

    /// That the intent is given back can only be said under its lock.
    fn gives_up(&self, _: Busy<Released>) -> Result<Released, StoreError> {
        Err(busy())
    }
}
