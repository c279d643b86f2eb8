//! Reading records, without a lock.

use semel::{IntentId, StoreError, store::Reading};

use super::{Answered, Busy, Verb};
use crate::{
    error::{Fault, busy},
    link::Step,
    names::{Named, Names},
};

/// Reads some records.
#[derive(Debug)]
pub(crate) struct Read(pub(crate) Vec<IntentId>);

impl Verb for Read {
    type Answer = Reading;

    fn named(&self) -> Option<&Named> {
        None
    }

    fn size(&self) -> (usize, usize) {
        (self.0.len(), 0)
    }

    async fn run(step: Step<'_>, batch: &[&Self]) -> Result<Vec<Answered<Reading>>, Fault> {
        let ids: Vec<_> = batch.iter().flat_map(|read| &read.0).collect();
        let mut looks = step.look(&ids, Names::of_ids(ids.iter().copied())).await?.into_iter();
        let now = looks.as_slice().iter().map(|look| look.now).max().unwrap_or_default();
        let answered = batch.iter().map(|read| {
            let records = looks.by_ref().take(read.0.len()).map(|look| look.record).collect();
            Answered::Done(Reading { records, now })
        });
        Ok(answered.collect())
    }

    fn gives_up(&self, _: Busy<Reading>) -> Result<Reading, StoreError> {
        Err(busy())
    }
}
