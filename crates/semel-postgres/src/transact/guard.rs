//! The transaction in which an intent is held.

use std::fmt;

use semel::{
    Outcome, Permit, StoreError,
    decide::{FinishKind, Grant},
};

use super::{
    Prepared, Transact, Tx,
    held::{Final, Held},
    tx::Text,
};
use crate::error::Fault;

/// A transaction in which an intent is held. It is used like the driver's own; see the
/// [module](super) for what it makes impossible.
#[must_use = "dropping the guard rolls the transaction back"]
pub struct Guard<T: Tx> {
    pub(super) tx: T,
    transact: Transact,
    prepared: Option<Prepared>,
    held: Box<Held>,
}

impl<T: Tx> Guard<T> {
    pub(super) fn new(
        tx: T,
        transact: Transact,
        prepared: Option<Prepared>,
        held: Box<Held>,
    ) -> Self {
        Self { tx, transact, prepared, held }
    }

    /// Returns the proof of the claim. Its fence and derived keys are final if the transaction commits.
    #[must_use]
    pub fn permit(&self) -> Permit {
        self.held.granted.permit()
    }

    /// Returns how the claim was granted.
    #[must_use]
    pub fn grant(&self) -> Grant {
        self.held.grant
    }

    /// Stores the outcome and gives the transaction back, to be committed.
    ///
    /// # Errors
    ///
    /// Fails, and rolls everything back, if the outcome breaks a bound, the transaction was ended or
    /// the claim undone by a statement inside it, or the server cannot be asked. An error of kind
    /// `Busy` says that another transaction won: begin a new one and claim again.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, everything is rolled back.
    pub async fn complete(self, outcome: Outcome) -> Result<T, StoreError> {
        self.end(FinishKind::Done, outcome).await
    }

    /// Stores a final failure, which is an outcome too, and gives the transaction back. What was
    /// mutated in it is committed as well.
    ///
    /// # Errors
    ///
    /// As [`Guard::complete`].
    ///
    /// # Cancel safety
    ///
    /// As [`Guard::complete`].
    pub async fn fail(self, outcome: Outcome) -> Result<T, StoreError> {
        self.end(FinishKind::Failed, outcome).await
    }

    async fn end(self, kind: FinishKind, outcome: Outcome) -> Result<T, StoreError> {
        let mut ending = self.ending(kind, outcome)?;
        ending.write().await?;
        Ok(ending.tx)
    }

    pub(super) fn ending(
        self,
        kind: FinishKind,
        outcome: Outcome,
    ) -> Result<Ending<T>, StoreError> {
        let Self { tx, transact, prepared, held } = self;
        let last = held.finish(kind, outcome, transact.body_max)?;
        Ok(Ending { tx, transact, prepared, last })
    }
}

/// A guard whose outcome is known and not yet written.
pub(super) struct Ending<T: Tx> {
    pub(super) tx: T,
    pub(super) transact: Transact,
    pub(super) prepared: Option<Prepared>,
    pub(super) last: Final,
}

impl<T: Tx> Ending<T> {
    async fn write(&mut self) -> Result<(), Fault> {
        let text = text(&self.transact, self.prepared.as_ref(), &self.last);
        self.tx.ask(text, &self.last.values()).await.map(drop)
    }
}

/// The statement that writes an outcome.
pub(super) fn text<'a>(
    transact: &'a Transact,
    prepared: Option<&'a Prepared>,
    last: &Final,
) -> Text<'a> {
    let statements = &transact.statements;
    if last.replaces() {
        let prepared = prepared.map(|prepared| &prepared.update);
        return Text { text: &statements.transact_update, prepared };
    }
    let prepared = prepared.map(|prepared| &prepared.insert);
    Text { text: &statements.transact_insert, prepared }
}

impl<T: Tx> fmt::Debug for Guard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("permit", &self.permit()).finish_non_exhaustive()
    }
}
