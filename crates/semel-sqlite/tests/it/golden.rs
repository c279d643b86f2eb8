//! What older versions stored is read for ever.

use rusqlite::Connection;
use semel::{
    Fingerprint, Lease, Outcome, State, Store, Timestamp,
    inbox::{Consumer, InboxInspect, InboxStore, LogId, Standing},
    outbox::{
        Cause, Destination, Epoch, EventId, Lane, OutboxAuditKind, OutboxInspect, OutboxStore,
        ParkedState,
        store::{EventFilter, ParkedFilter},
    },
    outcome::Pointer,
    store::capability::{AuditKind, Inspect},
};
use semel_testkit::ManualClock;

use crate::bench::{Bench, id, record, token};

/// A dump of a file of schema 1: a record in each state, a tombstone, and a row of the audit.
const SCHEMA_1: &str = include_str!("testdata/schema_1.sql");

const START_US: u64 = ManualClock::START_US;

fn at(after_us: u64) -> Timestamp {
    Timestamp::from_micros(START_US + after_us)
}

#[tokio::test]
async fn what_schema_1_stored_is_read_for_ever() {
    let bench = Bench::new();
    Connection::open(bench.path()).unwrap().execute_batch(SCHEMA_1).unwrap();
    let store = bench.builder().clock(ManualClock::at(at(5_000))).open().unwrap();
    let outcome = Outcome::new(201, "{\"id\":7}\n")
        .header("content-type", "application/json")
        .header("link", "</a>")
        .header("link", "</b>")
        .pointer("payment", "pay_7");
    let narrowed = id("done").narrowed([7; 32]);
    let done =
        Store::read(&store, vec![narrowed.clone()]).await.unwrap().records.remove(0).unwrap();
    assert_eq!(done.id, narrowed);
    assert_eq!((done.state, done.token, done.fence.get()), (State::Done, token(2), START_US));
    assert_eq!(done.fingerprint, Fingerprint::of_bytes(b"pay 10"));
    let length = std::time::Duration::from_secs(30);
    assert_eq!(done.lease, Lease { renewed_at: at(0), length });
    assert_eq!(done.claimed_by.as_deref(), Some("request-2"));
    assert_eq!(
        (done.created_at, done.claimed_at, done.settled_at),
        (at(0), at(0), Some(at(5_000)))
    );
    assert_eq!((done.replay_until, done.remember_until), (at(60_005_000), at(600_005_000)));
    assert_eq!(done.pointer, Some(Pointer { kind: "payment".into(), id: "pay_7".into() }));
    assert_eq!(done.outcome, Some(outcome));
    for (key, state, reason, compare) in [
        ("forgotten", State::Done, None, false),
        ("failed", State::Failed, None, false),
        ("open", State::Open, Some("validation"), true),
        ("unknown", State::Unknown, Some("timeout"), false),
        ("running", State::Running, None, false),
    ] {
        let kept = record(&store, key).await.unwrap();
        assert_eq!((kept.state, kept.reason.as_deref(), kept.compare), (state, reason, compare));
    }
    let failed = record(&store, "failed").await.unwrap();
    assert_eq!(failed.outcome, Some(Outcome::without_body(402)));
    let forgotten = record(&store, "forgotten").await.unwrap();
    assert_eq!((forgotten.outcome, forgotten.pointer), (None, done.pointer));
    let audit = store.audit(None, 10).await.unwrap();
    assert_eq!(
        (audit.len(), audit[0].kind, &audit[0].id),
        (1, AuditKind::Conflict, &id("unknown"))
    );
}

/// A dump of a file of schema 3: events, one of them damaged, two of them parked; what a consumer had, and
/// a message that is parked; and what operators said.
const SCHEMA_3: &str = include_str!("testdata/schema_3.sql");

#[tokio::test]
async fn the_outbox_that_schema_3_stored_is_read_for_ever() {
    let bench = Bench::new();
    Connection::open(bench.path()).unwrap().execute_batch(SCHEMA_3).unwrap();
    let store = bench.builder().clock(ManualClock::at(at(0))).open().unwrap();
    let name = Destination::new("a").unwrap();
    let filter = EventFilter { limit: 9, ..EventFilter::default() };
    let events = store.events(filter).await.unwrap();
    let readable: Vec<_> = events.iter().map(|placed| placed.unreadable.is_none()).collect();
    assert_eq!(readable, [true, true, false, true, true]);
    let full = &events[0].event;
    assert_eq!((full.id, events[0].at), (EventId::from_bytes([1; 16]), at(0)));
    assert_eq!(full.lane, Lane::new("order", "order-7").unwrap());
    assert_eq!((&*full.kind, full.version), ("OrderPlaced", Some(7)));
    assert_eq!(full.payload.as_deref(), Some(&[1, 0, 255][..]));
    assert_eq!(full.headers, [("content-type".into(), "a \"b\"".into())]);
    assert!(full.trace.as_ref().is_some_and(|trace| trace.starts_with("00-4bf9")));
    assert_eq!(full.intent, Some(id("k").narrowed([7; 32])));
    assert_eq!(full.cause.as_ref().map(Cause::as_str), Some("request:request-7"));
    assert_eq!(events[1].event.payload, None);
    let due = OutboxStore::due(&store, name.clone(), 9, 1).await.unwrap().remove(0).rows;
    assert_eq!((due.len(), &due[0].placed, due[0].state), (1, &events[0], ParkedState::Retry));
    assert_eq!((due[0].attempts, &*due[0].why), (1, "no"));
    let parked = ParkedFilter { limit: 9, ..ParkedFilter::default() };
    let parked = OutboxInspect::parked(&store, parked).await.unwrap();
    assert_eq!(parked.iter().map(|row| row.seq).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(parked[2].placed.unreadable.is_some());
    let state = store.destinations().await.unwrap().remove(0);
    assert_eq!((state.waiting, state.epoch, state.generation), (2, Epoch(START_US), 1));
    let said = store.outbox_audit(Some(name), 9).await.unwrap();
    assert_eq!((said.len(), said[0].kind), (1, OutboxAuditKind::Retry));
}

#[tokio::test]
async fn the_inbox_that_schema_3_stored_is_read_for_ever() {
    let bench = Bench::new();
    Connection::open(bench.path()).unwrap().execute_batch(SCHEMA_3).unwrap();
    let store = bench.builder().clock(ManualClock::at(at(0))).open().unwrap();
    store.check().await.unwrap();
    let consumer = Consumer::new("billing").unwrap();
    let had = store.had(consumer.clone(), None, 9).await.unwrap();
    let done = &had[0].recorded;
    assert_eq!((had[0].message.id(), done.standing, done.at), ("a", Standing::Done, at(0)));
    assert_eq!(done.answer.as_deref(), Some(&b"paid"[..]));
    assert_eq!(done.events, [EventId::from_bytes([5; 16])]);
    assert_eq!(done.fingerprint, Fingerprint::of_bytes(b"10"));
    let due = InboxStore::due(&store, consumer.clone(), 9).await.unwrap().remove(0);
    assert_eq!((due.message.id(), &*due.why, due.attempts), ("m7", "cannot be read", 8));
    assert_eq!(due.headers, [("trace".into(), vec![0, 255].into())]);
    assert_eq!(due.key.as_deref(), Some(&b"order-7"[..]));
    assert_eq!(due.position.map(|position| position.offset), Some(7));
    assert_eq!(due.sent_at, Some(Timestamp::from_micros(1_700_000_000_000_000)));
    let state = store.consumers().await.unwrap().remove(0);
    assert_eq!((state.remembered, state.retry, state.attempted), (2, 1, 1));
    assert_eq!(state.positions, [(LogId::new("orders/0").unwrap(), 7)]);
    assert_eq!(store.inbox_audit(Some(consumer), 9).await.unwrap().len(), 1);
}
