//! Events that leave if and only if the transaction is committed.

use rusqlite::Connection;
use semel::{
    StoreError,
    outbox::{Cause, Event, EventId},
};

use super::{Guard, Transact};
use crate::{
    error::{Fault, driver},
    outbox::{refused, within_bounds},
    queries,
    step::Step,
};

impl Transact {
    /// Appends events inside `tx`, a transaction or savepoint that holds no intent: they leave if and
    /// only if it is committed. Inside a guard, [`Guard::publish`] says whose effects they are.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use rusqlite::Connection;
    /// # use semel::{SystemClock, entropy::SystemEntropy, outbox::{Event, EventId, Lane}};
    /// # use semel_sqlite::SqliteStore;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("shop.db");
    /// let store = SqliteStore::builder(&path).open()?;
    /// let mut conn = Connection::open(&path)?;
    /// conn.execute_batch("CREATE TABLE price (item TEXT, amount INTEGER)")?;
    ///
    /// let tx = conn.transaction()?;
    /// tx.execute("INSERT INTO price VALUES ('tea', 4)", [])?;
    /// let id = EventId::new(&SystemClock::new(), &SystemEntropy);
    /// let event = Event::new(id, Lane::new("item", "tea")?, "PriceSet", Some("4".into()))?;
    /// store.transact().publish(&tx, &[event])?;
    /// tx.commit()?;
    /// let kept: u32 = conn.query_row("SELECT count(*) FROM semel_outbox", [], |row| row.get(0))?;
    /// assert_eq!(kept, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails, and appends none of them, if an event breaks a bound or was appended before, if `tx` is
    /// not open on the store's file with `synchronous = FULL`, or if the store cannot be asked.
    pub fn publish(&self, tx: &Connection, events: &[Event]) -> Result<(), StoreError> {
        within_bounds(events)?;
        self.admit_open(tx)?;
        if events.is_empty() {
            return Ok(());
        }
        run(tx, queries::OUTBOX_SAVE)?;
        if let Err(fault) = self.append(tx, events) {
            // What failed may have rolled the whole transaction back by itself.
            if !tx.is_autocommit() {
                run(tx, queries::OUTBOX_UNDO)?;
                run(tx, queries::OUTBOX_RELEASE)?;
            }
            return Err(fault.into());
        }
        run(tx, queries::OUTBOX_RELEASE)?;
        self.appended(events);
        Ok(())
    }

    fn append(&self, conn: &Connection, events: &[Event]) -> Result<(), Fault> {
        let mut step = Step::begin(conn, &self.time, self.limits)?;
        step.append(events)?;
        step.end()
    }
}

fn run(conn: &Connection, statement: &str) -> Result<(), StoreError> {
    conn.prepare_cached(statement).and_then(|mut it| it.execute([])).map(drop).map_err(driver)
}

impl Guard<'_> {
    /// Keeps an event until the completion, which appends it in the same transaction, behind those that
    /// were published before. It is an effect of the intent that is held, and its cause is the request
    /// that claimed it, unless the event names others.
    ///
    /// # Errors
    ///
    /// Fails, and keeps nothing of it, if the event breaks a bound.
    pub fn publish(&self, mut event: Event) -> Result<EventId, StoreError> {
        event.check().map_err(refused)?;
        let granted = &self.held.granted;
        event.intent.get_or_insert_with(|| granted.id.clone());
        if event.cause.is_none() {
            let request = granted.claimed_by.as_deref();
            // A name of a request that is no cause, such as one with a tab in it, tells nothing.
            event.cause = request.and_then(|by| Cause::request(by).ok());
        }
        let id = event.id;
        self.events.borrow_mut().push(event);
        Ok(id)
    }
}
