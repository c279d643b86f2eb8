//! Messages whose effect is in the same file.

mod batching;
mod killed;
mod parking;
mod receiving;

use std::sync::Arc;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use semel::inbox::{
    Consumer, Delivery, InboxPolicy, LogId, MessageId, Park, Position, Receipt, SourceName,
};
use semel_sqlite::{
    SqliteStore,
    inbox::{Inbox, Ran, RunError},
};

use crate::bench::Bench;

/// A store, and the consumer's connection to the same file.
pub(super) struct Desk {
    pub(super) bench: Bench,
    pub(super) store: SqliteStore,
    pub(super) inbox: Inbox,
    pub(super) conn: Connection,
}

impl Desk {
    pub(super) fn new() -> Self {
        Self::with(policy())
    }

    pub(super) fn with(policy: InboxPolicy) -> Self {
        let bench = Bench::new();
        let store = bench.open();
        let inbox = store.inbox(Arc::new(policy)).unwrap();
        let conn = Connection::open(bench.path()).unwrap();
        conn.execute_batch("CREATE TABLE effect (message TEXT NOT NULL)").unwrap();
        Self { bench, store, inbox, conn }
    }

    pub(super) fn begin(&mut self) -> Transaction<'_> {
        self.conn.transaction_with_behavior(TransactionBehavior::Immediate).unwrap()
    }

    /// Handles a message with one row as the effect.
    pub(super) fn handle(
        &mut self,
        delivery: &Delivery,
        answer: Option<&'static str>,
    ) -> Result<Ran<()>, RunError<rusqlite::Error>> {
        handle(&self.inbox, &mut self.conn, delivery, answer)
    }

    pub(super) fn effects(&self) -> i64 {
        self.number("SELECT count(*) FROM effect")
    }

    pub(super) fn number(&self, sql: &str) -> i64 {
        let conn = Connection::open(self.bench.path()).unwrap();
        conn.query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

pub(super) fn handle(
    inbox: &Inbox,
    conn: &mut Connection,
    delivery: &Delivery,
    answer: Option<&'static str>,
) -> Result<Ran<()>, RunError<rusqlite::Error>> {
    inbox.run(conn, delivery, |handling| {
        act(handling, delivery.message.id())?;
        Ok((answer.map(Into::into), ()))
    })
}

pub(super) fn act(conn: &Connection, message: &str) -> rusqlite::Result<()> {
    conn.execute("INSERT INTO effect VALUES (?1)", [message]).map(drop)
}

pub(super) fn is_first<T>(ran: &Ran<T>) -> bool {
    matches!(ran, Ran::First(..))
}

pub(super) fn consumer() -> Consumer {
    Consumer::new("billing").unwrap()
}

pub(super) fn policy() -> InboxPolicy {
    InboxPolicy::new(consumer())
}

pub(super) fn message(id: &str) -> MessageId {
    MessageId::new(SourceName::new("kafka:orders").unwrap(), id).unwrap()
}

pub(super) fn delivery(id: &str) -> Delivery {
    telling(id, "10")
}

pub(super) fn telling(id: &str, payload: &'static str) -> Delivery {
    Delivery::new(message(id), Receipt(7), Some(payload.into()))
}

pub(super) fn at(offset: u64) -> Delivery {
    let mut delivery = delivery(&format!("m{offset}"));
    delivery.position = Some(Position { log: LogId::new("orders/0").unwrap(), offset });
    delivery
}

pub(super) fn park(delivery: Delivery) -> Park {
    Park {
        consumer: consumer(),
        fingerprint: delivery.fingerprint(),
        delivery,
        moves: false,
        attempts: 8,
        why: "cannot be read".into(),
    }
}
