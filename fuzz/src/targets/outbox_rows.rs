//! Any values in any columns of what an outbox keeps, as somebody might put them there: every verb answers or says that
//! the store is damaged, a row that is no event is told as that, and no other event or destination is harmed.
//!
//! Again and again: a column, a type, a length and the value's bytes.

use std::{cell::RefCell, sync::Arc, time::Duration};

use rusqlite::{Connection, TransactionBehavior};
use semel::{
    StoreError, StoreErrorKind, SystemClock,
    entropy::SystemEntropy,
    outbox::{
        Destination, Event, EventId, Lane, Lead, Leader, Led, OutboxInspect, OutboxRetain,
        OutboxStore, Park, ParkedState, Placed, Settle, Settled, Start,
        store::{EventFilter, LeftOut, ParkedFilter, READ_MAX},
    },
    store::Actor,
};
use semel_sqlite::SqliteStore;
use tempfile::TempDir;
use tokio::time::timeout;

use crate::{
    kept::{folder, loosen, sound, tamper},
    runtime,
};

const BAD: &str = "aggregateid IS NOT 'good'";
const LED: &str = "destination IS NOT 'good'";
const PLACES: [(&str, &str, &str); 40] = [
    ("semel_outbox", "id", BAD),
    ("semel_outbox", "aggregatetype", BAD),
    ("semel_outbox", "aggregateid", BAD),
    ("semel_outbox", "type", BAD),
    ("semel_outbox", "headers", BAD),
    ("semel_outbox", "at_us", BAD),
    ("semel_outbox", "aggregate_version", BAD),
    ("semel_outbox", "trace", BAD),
    ("semel_outbox", "tenant", BAD),
    ("semel_outbox", "operation", BAD),
    ("semel_outbox", "key", BAD),
    ("semel_outbox", "facet", BAD),
    ("semel_outbox", "cause", BAD),
    ("semel_outbox", "payload", BAD),
    ("semel_parked", "generation", BAD),
    ("semel_parked", "id", BAD),
    ("semel_parked", "aggregatetype", BAD),
    ("semel_parked", "aggregateid", BAD),
    ("semel_parked", "type", BAD),
    ("semel_parked", "headers", BAD),
    ("semel_parked", "at_us", BAD),
    ("semel_parked", "aggregate_version", BAD),
    ("semel_parked", "trace", BAD),
    ("semel_parked", "key", BAD),
    ("semel_parked", "facet", BAD),
    ("semel_parked", "cause", BAD),
    ("semel_parked", "state", BAD),
    ("semel_parked", "attempts", BAD),
    ("semel_parked", "why", BAD),
    ("semel_parked", "unreadable", BAD),
    ("semel_parked", "parked_at_us", BAD),
    ("semel_parked", "payload", BAD),
    ("semel_destination", "destination", LED),
    ("semel_destination", "epoch", LED),
    ("semel_destination", "generation", LED),
    ("semel_destination", "owner", LED),
    ("semel_destination", "renewed_at_us", LED),
    ("semel_destination", "lease_us", LED),
    ("semel_destination", "pass", LED),
    ("semel_destination", "settled", LED),
];
const PATIENCE: Duration = Duration::from_secs(5);
const LEASE: Duration = Duration::from_secs(3_600);

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    thread_local! {
        static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
    }
    runtime(async {
        let mut kept = KEPT.take().unwrap_or_else(Kept::new);
        timeout(PATIENCE, kept.check(data)).await.expect("every verb ends");
        KEPT.set(Some(kept));
    });
}

struct Kept {
    store: SqliteStore,
    /// The application's connection.
    conn: Connection,
    other: Connection,
    _folder: TempDir,
}

impl Kept {
    fn new() -> Self {
        let folder = folder();
        let path = folder.path().join("semel.db");
        drop(SqliteStore::builder(&path).open().expect("a new file"));
        let other = Connection::open(&path).expect("the file");
        loosen(&other);
        let store = SqliteStore::builder(&path).open().expect("the same file");
        let conn = Connection::open(&path).expect("the file");
        Self { store, conn, other, _folder: folder }
    }

    async fn check(&mut self, changes: &[u8]) {
        let gone =
            "DELETE FROM semel_outbox; DELETE FROM semel_parked; DELETE FROM semel_destination;
            DELETE FROM semel_outbox_audit;";
        self.other.execute_batch(gone).expect("rows");
        let leaders = [lead(&self.store, "good").await, lead(&self.store, "bad").await];
        // Of each aggregate one event is parked, and one waits.
        let parked = self.append();
        for leader in &leaders {
            self.park(leader, &parked).await;
        }
        let waiting = self.append();
        tamper(&self.other, &PLACES, changes);
        self.every_verb(&leaders[1]).await;
        self.unharmed(&leaders[0], &parked[0], &waiting[0]).await;
    }

    fn append(&mut self) -> [Event; 2] {
        let events = ["good", "bad"].map(event);
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate);
        let tx = tx.expect("nobody else writes");
        self.store.transact().publish(&tx, &events).expect("they are appended");
        tx.commit().expect("nobody else writes");
        events
    }

    async fn park(&self, leader: &Leader, events: &[Event]) {
        let window = self.store.read(leader.clone(), None, READ_MAX, usize::MAX).await;
        let window = window.expect("nothing was touched");
        assert_eq!(window.events.len(), events.len());
        let mut settle = settle(leader);
        settle.upto = window.pass.zip(Some(window.upto));
        settle.park = window.events.iter().map(park).collect();
        settle.ends = true;
        assert_eq!(self.store.settle(settle).await.ok(), Some(Settled::Stored));
    }

    async fn every_verb(&self, leader: &Leader) {
        let (store, destination) = (&self.store, || leader.destination.clone());
        sound_or_refused(store.renew(leader.clone(), LEASE).await);
        if let Some(window) =
            sound_or_refused(store.read(leader.clone(), None, READ_MAX, usize::MAX).await)
        {
            window.events.iter().for_each(told);
            let mut all = settle(leader);
            all.upto = window.pass.zip(Some(window.upto));
            all.park = window.events.iter().map(park).collect();
            all.ends = window.ends;
            sound_or_refused(store.settle(all).await);
        }
        sound_or_refused(store.parked_lanes(destination(), None).await);
        sound_or_refused(store.due(destination(), 10, 10).await);
        sound_or_refused(store.destinations().await);
        sound_or_refused(store.events(EventFilter { limit: 10, ..EventFilter::default() }).await);
        let listed = sound_or_refused(
            store.parked(ParkedFilter { limit: 10, ..ParkedFilter::default() }).await,
        );
        for parked in listed.unwrap_or_default() {
            told(&parked.placed);
            for state in [ParkedState::Retry, ParkedState::Skip, ParkedState::Drop] {
                sound_or_refused(store.mark(destination(), vec![parked.seq], state, actor()).await);
            }
        }
        sound_or_refused(store.due(destination(), 10, 10).await);
        let all = EventFilter { limit: 10, ..EventFilter::default() };
        sound_or_refused(store.replay(destination(), all, LeftOut::Goes, actor()).await);
        sound_or_refused(store.outbox_audit(None, 10).await);
        sound_or_refused(store.retain(Duration::from_secs(1)).await);
        sound_or_refused(store.resign(leader.clone()).await);
        sound_or_refused(store.forget(destination(), actor()).await);
        sound_or_refused(store.lead(asking("bad")).await);
    }

    /// What nobody touched is read and parked as it was.
    async fn unharmed(&self, leader: &Leader, parked: &Event, waiting: &Event) {
        let window = self.store.read(leader.clone(), None, READ_MAX, usize::MAX).await;
        let window = window.expect("one row does not hold up another");
        let good = |placed: &&Placed| placed.event.lane == waiting.lane;
        let read: Vec<_> = window.events.iter().filter(good).collect();
        assert!(read.iter().any(|placed| *placed.event == *waiting), "{read:?}");
        let mine = ParkedFilter {
            destination: Some(leader.destination.clone()),
            lane: Some(parked.lane.clone()),
            limit: 10,
            ..ParkedFilter::default()
        };
        let listed = self.store.parked(mine).await.expect("unharmed");
        assert!(listed.iter().any(|row| *row.placed.event == *parked), "{listed:?}");
    }
}

/// The row of a destination may say that it is led, and is not forgotten; or that it is another's, and
/// nobody ever led it.
fn sound_or_refused<T>(answer: Result<T, StoreError>) -> Option<T> {
    let refused = matches!(&answer, Err(error) if error.kind() == StoreErrorKind::Invalid);
    if refused { None } else { sound(answer) }
}

/// What is told as an event is one.
fn told(placed: &Placed) {
    assert!(placed.unreadable.is_some() || placed.event.check().is_ok(), "{placed:?}");
}

fn event(id: &str) -> Event {
    let lane = Lane::new("order", id).expect("a lane");
    let name = EventId::new(&SystemClock::new(), &SystemEntropy);
    let mut event = Event::new(name, lane, "Placed", Some("{}".into())).expect("an event");
    event.headers = vec![("a".into(), "b\"\\".into())];
    event.trace = Some("00-trace".into());
    event
}

fn asking(destination: &str) -> Lead {
    Lead {
        destination: Destination::new(destination).expect("a name"),
        owner: "fuzz".into(),
        lease: LEASE,
        start: Start::Now,
    }
}

async fn lead(store: &SqliteStore, destination: &str) -> Leader {
    match store.lead(asking(destination)).await {
        Ok(Led::Leader(leader)) => leader,
        other => panic!("nobody leads: {other:?}"),
    }
}

fn settle(leader: &Leader) -> Settle {
    Settle {
        destination: leader.destination.clone(),
        epoch: leader.epoch,
        upto: None,
        ends: false,
        park: Vec::new(),
        unpark: Vec::new(),
    }
}

fn park(placed: &Placed) -> Park {
    let (state, why) = (ParkedState::Failed, "test".into());
    Park {
        placed: Placed { event: Arc::clone(&placed.event), ..placed.clone() },
        state,
        attempts: 1,
        why,
    }
}

fn actor() -> Actor {
    Actor { name: "fuzz".into(), note: "none".into() }
}
