//! The transaction in which an intent is held.

use std::fmt;

use semel::{
    Outcome, Permit, StoreError,
    decide::{FinishKind, Grant},
    outbox::{Cause, Event, EventId},
};

use super::{
    Inner, Prepared, Transact, Tx,
    held::{Final, Held},
    tx::Text,
    wait::Wake,
};
use crate::{error::Fault, outbox::Append};

/// A transaction in which an intent is held. It is used like the driver's own; see the
/// [module](super) for what it makes impossible.
#[must_use = "dropping the guard rolls the transaction back"]
pub struct Guard<T: Tx> {
    pub(super) tx: T,
    transact: Transact,
    prepared: Option<Prepared>,
    held: Box<Held>,
    append: Append,
    /// Last, so that the transaction is rolled back before it wakes anybody.
    wake: Wake,
}

impl<T: Tx> Guard<T> {
    pub(super) fn new(
        tx: T,
        transact: Transact,
        prepared: Option<Prepared>,
        held: Box<Held>,
    ) -> Self {
        let wake = Wake::new(transact.inner.waiters.clone(), held.granted.id.clone());
        Self { tx, transact, prepared, held, append: Append::default(), wake }
    }

    /// Has an event leave if and only if this transaction commits: it is appended together with the
    /// outcome, in the order of the calls. It carries the intent and, unless it names its own cause, the
    /// request that claimed. Lock or write the aggregate in this transaction: then the events of an
    /// aggregate leave in the order of their causes.
    ///
    /// # Errors
    ///
    /// Refuses an event that breaks a bound, or one too many; the guard can be used on.
    pub fn publish(&mut self, mut event: Event) -> Result<EventId, StoreError> {
        let granted = &self.held.granted;
        event.intent.get_or_insert_with(|| granted.id.clone());
        if event.cause.is_none() {
            let request = granted.claimed_by.as_deref();
            event.cause = request.and_then(|by| Cause::request(by).ok());
        }
        let id = event.id;
        self.append.push(event)?;
        Ok(id)
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

    /// Gives the guard back to the [run](Transact::run) that lent it, with the outcome to be stored and
    /// committed.
    pub fn done<V>(self, outcome: Outcome, value: V) -> Worked<T, V> {
        Worked { guard: self, kind: FinishKind::Done, outcome, value }
    }

    /// Gives the guard back to the [run](Transact::run) that lent it, with a final failure to be stored
    /// and committed. What was mutated is committed as well.
    pub fn failed<V>(self, outcome: Outcome, value: V) -> Worked<T, V> {
        Worked { guard: self, kind: FinishKind::Failed, outcome, value }
    }

    async fn end(self, kind: FinishKind, outcome: Outcome) -> Result<T, StoreError> {
        let mut ending = self.ending(kind, outcome)?;
        ending.write().await?;
        if let Some(wake) = ending.wake {
            wake.none();
        }
        Ok(ending.tx)
    }

    pub(super) fn ending(
        self,
        kind: FinishKind,
        outcome: Outcome,
    ) -> Result<Ending<T>, StoreError> {
        let Self { tx, transact, prepared, held, append, wake } = self;
        let last = match held.finish(kind, outcome, transact.inner.body_max) {
            Ok(last) => last,
            Err(error) => {
                // Rolled back before it wakes anybody.
                drop(tx);
                drop(wake);
                return Err(error);
            }
        };
        Ok(Ending { tx, transact, prepared, last, append, wake: Some(wake) })
    }
}

/// What the work of a run gives back: made by [`Guard::done`] and [`Guard::failed`].
#[derive(Debug)]
#[must_use = "dropping it rolls the transaction back"]
pub struct Worked<T: Tx, V> {
    guard: Guard<T>,
    kind: FinishKind,
    outcome: Outcome,
    value: V,
}

impl<T: Tx, V> Worked<T, V> {
    pub(super) fn ending(self) -> Result<(Ending<T>, V), StoreError> {
        let Self { guard, kind, outcome, value } = self;
        Ok((guard.ending(kind, outcome)?, value))
    }
}

/// A guard whose outcome is known and not yet written.
pub(crate) struct Ending<T: Tx> {
    pub(super) tx: T,
    pub(super) transact: Transact,
    pub(super) prepared: Option<Prepared>,
    pub(super) last: Final,
    pub(super) append: Append,
    pub(super) wake: Option<Wake>,
}

impl<T: Tx> Ending<T> {
    pub(super) async fn write(&mut self) -> Result<(), Fault> {
        if let Some(values) = self.last.reference() {
            let text = (*self.transact.inner.statements.reference_use).into();
            self.tx.ask(text, &values).await?;
        }
        if !self.append.is_empty() {
            let text = (*self.transact.inner.statements.outbox_append).into();
            let columns = self.append.columns();
            self.tx.ask(text, &columns.values(&columns.made())).await?;
        }
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
    let Inner { statements, keep, .. } = &*transact.inner;
    let (text, prepared) = match last.replaces() {
        true => (&statements.transact_update, prepared.map(|prepared| &prepared.update)),
        false => (&statements.transact_insert, prepared.map(|prepared| &prepared.insert)),
    };
    Text { text, prepared, keep: *keep }
}

impl<T: Tx> fmt::Debug for Guard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("permit", &self.permit()).finish_non_exhaustive()
    }
}
