//! Events on one file.

mod hinting;
mod killed;
mod looking;
mod order;
mod parking;
mod publishing;
mod unreadable;

use std::{sync::Arc, time::Duration};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use semel::{
    SystemClock,
    entropy::SystemEntropy,
    outbox::{
        Destination, Event, EventId, Lane, Lead, Leader, Led, OutboxStore, Park, ParkedState,
        Placed, Pos, Settle, Settled, Start, Window,
        store::{Pass, Unpark},
    },
};
use semel_sqlite::SqliteStore;
use semel_testkit::ManualClock;

use crate::bench::Bench;

pub(super) const LEASE: Duration = Duration::from_secs(10);

/// A store, and the application's connection to the same file.
pub(super) struct Shop {
    pub(super) bench: Bench,
    pub(super) clock: Arc<ManualClock>,
    pub(super) store: SqliteStore,
    pub(super) conn: Connection,
}

impl Shop {
    pub(super) fn new() -> Self {
        let (bench, clock) = (Bench::new(), ManualClock::new());
        let store = bench.builder().clock(clock.clone()).open().unwrap();
        let conn = Connection::open(bench.path()).unwrap();
        conn.execute_batch("CREATE TABLE payment (amount INTEGER)").unwrap();
        Self { bench, clock, store, conn }
    }

    pub(super) fn begin(&mut self) -> Transaction<'_> {
        self.conn.transaction_with_behavior(TransactionBehavior::Immediate).unwrap()
    }

    /// Appends events of one aggregate in one transaction, each with its number as the payload.
    pub(super) fn append(
        &mut self,
        aggregate: &str,
        numbers: std::ops::Range<u32>,
    ) -> Vec<EventId> {
        let transact = self.store.transact();
        let events: Vec<_> = numbers.map(|number| event(aggregate, number)).collect();
        let tx = self.begin();
        transact.publish(&tx, &events).unwrap();
        tx.commit().unwrap();
        events.iter().map(|event| event.id).collect()
    }

    pub(super) async fn leader(&self) -> Leader {
        leader(lead(&self.store, "a").await)
    }

    /// Reads what lies behind the cursor.
    pub(super) async fn window(&self, leader: &Leader) -> Window {
        self.store.read(leader.clone(), None, 10_000, usize::MAX).await.unwrap()
    }

    pub(super) async fn waiting(&self, leader: &Leader) -> Vec<EventId> {
        ids(&self.window(leader).await)
    }

    /// Parks the first events that wait, the first as failed and all else as behind it.
    pub(super) async fn park(&self, leader: &Leader, count: usize) -> Window {
        let window = self.window(leader).await;
        let placed = window.events.iter().take(count).cloned();
        let mut all = settle(leader, window.pass.zip(Some(window.events[count - 1].pos)));
        all.park = placed.enumerate().map(|(at, placed)| park(placed, at == 0)).collect();
        assert_eq!(self.store.settle(all).await.unwrap(), Settled::Stored);
        window
    }

    pub(super) async fn unpark(&self, leader: &Leader, unpark: Unpark) {
        let mut all = settle(leader, None);
        all.unpark.push(unpark);
        assert_eq!(self.store.settle(all).await.unwrap(), Settled::Stored);
    }
}

pub(super) fn event(aggregate: &str, number: u32) -> Event {
    let id = EventId::new(&SystemClock::new(), &SystemEntropy);
    let lane = Lane::new("order", aggregate).unwrap();
    Event::new(id, lane, "Placed", Some(number.to_string().into())).unwrap()
}

pub(super) fn destination(name: &str) -> Destination {
    Destination::new(name).unwrap()
}

pub(super) async fn lead(store: &SqliteStore, name: &str) -> Led {
    lead_from(store, name, Start::Earliest).await
}

pub(super) async fn lead_from(store: &SqliteStore, name: &str, start: Start) -> Led {
    let destination = destination(name);
    store.lead(Lead { destination, owner: "relay-1".into(), lease: LEASE, start }).await.unwrap()
}

#[track_caller]
pub(super) fn leader(led: Led) -> Leader {
    match led {
        Led::Leader(leader) => leader,
        other @ Led::Follower { .. } => panic!("{other:?}"),
    }
}

pub(super) fn ids(window: &Window) -> Vec<EventId> {
    window.events.iter().map(|placed| placed.event.id).collect()
}

pub(super) fn settle(leader: &Leader, upto: Option<(Pass, Pos)>) -> Settle {
    Settle {
        destination: leader.destination.clone(),
        epoch: leader.epoch,
        upto,
        ends: false,
        park: Vec::new(),
        unpark: Vec::new(),
    }
}

pub(super) fn park(placed: Placed, failed: bool) -> Park {
    let (state, why) = if failed { (ParkedState::Failed, "no") } else { (ParkedState::Behind, "") };
    Park { placed, state, attempts: u32::from(failed), why: why.into() }
}

pub(super) fn numbers(conn: &Connection, sql: &str) -> i64 {
    conn.query_row(sql, [], |row| row.get(0)).unwrap()
}
