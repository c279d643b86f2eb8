//! Reading records under the locks of their names, without waiting for the locks.

use futures_util::future::join;
use semel::{IntentId, StoreError, store::capability::Looked};

use super::{Answered, Busy, Verb};
use crate::{
    error::{Fault, busy},
    link::Step,
    lock::LockSecret,
    names::Named,
};

/// Looks whether an intent was ended by what runs behind its permit.
#[derive(Debug)]
pub(crate) struct Look(Named);

impl Look {
    pub(crate) fn new(id: IntentId, secret: &LockSecret) -> Self {
        Self(Named::new(id, secret))
    }
}

impl Verb for Look {
    type Answer = Looked;

    /// What is only read may be read twice.
    const REPEATS: bool = true;

    fn named(&self) -> Option<&Named> {
        Some(&self.0)
    }

    fn size(&self) -> (usize, usize) {
        (1, 0)
    }

    async fn run(step: Step<'_>, batch: &[&Self]) -> Result<Vec<Answered<Looked>>, Fault> {
        let names: Vec<_> = batch.iter().map(|look| &look.0).collect();
        // Nothing depends on what is read, so that all goes in one trip. A statement that must be
        // prepared first would come behind the end.
        let locked = if step.links.settings.prepared {
            let locked = step.begin(&names).await?;
            step.client().batch_execute("COMMIT").await?;
            locked
        } else {
            let (begun, ended) =
                join(step.begin(&names), step.client().batch_execute("COMMIT")).await;
            let begun = begun?;
            ended?;
            begun
        };
        let answered = locked.into_iter().map(|locked| {
            Answered::Done(if locked.is_locked {
                let record = locked.look.record.map(Box::new);
                Looked::Seen { record, now: locked.look.now }
            } else {
                Looked::Busy
            })
        });
        Ok(answered.collect())
    }

    fn gives_up(&self, _: Busy<Looked>) -> Result<Looked, StoreError> {
        Err(busy())
    }
}
