//! A consumer with a table of its own: what is acknowledged stands there, and is worked off one by one.

use std::sync::{
    Arc, Mutex,
    mpsc::{Receiver, Sender, channel},
};

use rusqlite::{OptionalExtension as _, TransactionBehavior};

use super::billing::{Desk, Message, Trouble};

const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS queue (id TEXT PRIMARY KEY, aggregate TEXT NOT NULL,
    sequence INTEGER NOT NULL, content BLOB NOT NULL, ended INTEGER NOT NULL DEFAULT 0)";

const PUT: &str =
    "INSERT OR IGNORE INTO queue (id, aggregate, sequence, content) VALUES (?1, ?2, ?3, ?4)";

const NEXT: &str =
    "SELECT id, aggregate, sequence, content FROM queue WHERE NOT ended ORDER BY rowid LIMIT 1";

/// Tells the worker that something came.
#[derive(Debug)]
pub(super) struct Queue {
    come: Sender<()>,
    comes: Mutex<Option<Receiver<()>>>,
}

impl Default for Queue {
    fn default() -> Self {
        let (come, comes) = channel();
        Self { come, comes: Mutex::new(Some(comes)) }
    }
}

impl Queue {
    /// Keeps a message; a copy is kept already.
    pub(super) fn put(&self, desk: &Desk, message: &Message) -> Result<(), Trouble> {
        let Message { id, aggregate, sequence, content, .. } = message;
        desk.connect().execute(PUT, (id, aggregate, sequence, &content[..]))?;
        self.come.send(()).unwrap();
        Ok(())
    }

    /// Works off what is there, and what comes, until the process ends.
    pub(super) fn work(&self, desk: &Arc<Desk>) {
        let comes = self.comes.lock().unwrap().take().unwrap();
        let desk = Arc::downgrade(desk);
        desk.upgrade().unwrap().connect().execute_batch(TABLE).unwrap();
        std::thread::spawn(move || {
            while let Some(desk) = desk.upgrade() {
                while next(&desk).unwrap() {}
                drop(desk);
                if comes.recv().is_err() {
                    return;
                }
            }
        });
    }
}

/// Handles the oldest message that has not ended, if there is one: its effect and its end are one
/// transaction, and what fails is tried again.
fn next(desk: &Desk) -> rusqlite::Result<bool> {
    let mut db = desk.connect();
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let message = transaction.query_row(NEXT, [], |row| {
        let content: Vec<u8> = row.get(3)?;
        Ok(Message {
            id: row.get(0)?,
            aggregate: row.get(1)?,
            sequence: row.get(2)?,
            body: serde_json::from_slice(&content).unwrap(),
            content: content.into(),
        })
    });
    let Some(message) = message.optional()? else { return Ok(false) };
    match desk.bill(&transaction, &message) {
        Err(Trouble::Later) => return Ok(true),
        Err(Trouble::Poison) | Ok(()) => {}
    }
    transaction.execute("UPDATE queue SET ended = 1 WHERE id = ?1", [&message.id])?;
    transaction.commit()?;
    Ok(true)
}
