//! Semel's inbox in a consumer that messages are pushed to.

use std::{path::Path, sync::Arc};

use semel::inbox::{Consumer, Delivery, InboxPolicy, MessageId, Receipt, SourceName};
use semel_sqlite::{
    SqliteStore,
    inbox::{Inbox, RunError},
};

use super::billing::{Desk, Message, Trouble};

/// The inbox of one consumer.
#[derive(Debug)]
pub(super) struct SemelInbox {
    inbox: Inbox,
    _store: SqliteStore,
}

impl SemelInbox {
    pub(super) fn open(file: &Path) -> Self {
        let store = SqliteStore::builder(file).open().unwrap();
        let policy = InboxPolicy::new(Consumer::new("billing.on-order-placed").unwrap());
        Self { inbox: store.inbox(Arc::new(policy)).unwrap(), _store: store }
    }

    /// Runs a message that the consumer never had, with the fact that it had it; a copy meets the fact,
    /// and so does other content under its id.
    pub(super) fn handle(&self, desk: &Desk, message: &Message) -> Result<(), Trouble> {
        let name = MessageId::new(SourceName::new("http:orders").unwrap(), &message.id).unwrap();
        let delivery = Delivery::new(name, Receipt(1), Some(message.content.clone()));
        let ran = self.inbox.run(&mut desk.connect(), &delivery, |handling| {
            desk.bill(handling, message)?;
            Ok((None, ()))
        });
        match ran {
            Ok(_) => Ok(()),
            Err(RunError::Work(trouble)) => Err(trouble),
            Err(error) => {
                eprintln!("the inbox: {error}");
                Err(Trouble::Later)
            }
        }
    }
}
