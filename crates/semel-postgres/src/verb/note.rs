//! Rows of the audit that stand for themselves.

use semel::{StoreError, store::capability::AuditRow};

use super::{Answered, Busy, Verb};
use crate::{
    error::{Fault, busy},
    link::Step,
    locked::Write,
    names::Named,
};

/// Writes a row to the audit.
#[derive(Debug)]
pub(crate) struct Note(pub(crate) AuditRow);

impl Verb for Note {
    type Answer = ();

    fn named(&self) -> Option<&Named> {
        None
    }

    fn size(&self) -> (usize, usize) {
        (1, 0)
    }

    async fn run(step: Step<'_>, batch: &[&Self]) -> Result<Vec<Answered<()>>, Fault> {
        step.begin(&[]).await?;
        let writes: Vec<_> = batch.iter().map(|note| Write::Note(note.0.clone())).collect();
        let noted = step.commit(&writes).await?;
        Ok(noted.into_iter().map(|_| Answered::Done(())).collect())
    }

    fn gives_up(&self, _: Busy<()>) -> Result<(), StoreError> {
        Err(busy())
    }
}
