//! Events of transactions that hold no intent.

use semel::{StoreError, outbox::Event};

use super::{Transact, Tx, tx::Text};
use crate::outbox::Append;

impl Transact {
    /// Appends events in a transaction that holds no intent: they leave if and only if it commits, in the
    /// order given. Lock or write their aggregate first: then the events of an aggregate leave in the
    /// order of their causes. Where an intent is held, use [`Guard::publish`](super::Guard::publish).
    ///
    /// # Errors
    ///
    /// Fails if an event breaks a bound, before the server is asked; or if the server cannot be asked:
    /// then roll the transaction back.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the events may or may not be appended: roll the transaction back.
    pub async fn publish<T: Tx>(&self, tx: &mut T, events: Vec<Event>) -> Result<(), StoreError> {
        let mut append = Append::default();
        for event in events {
            append.push(event)?;
        }
        if append.is_empty() {
            return Ok(());
        }
        tx.admit()?;
        let keep = self.inner.keep;
        let text = Text { text: &self.inner.statements.outbox_append, prepared: None, keep };
        let columns = append.columns();
        tx.ask(text, &columns.values(&columns.made())).await?;
        Ok(())
    }
}
