//! What older versions stored is read for ever.

use rusqlite::Connection;
use semel::{
    Fingerprint, Lease, Outcome, State, Store, Timestamp,
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
    let done = store.read(vec![narrowed.clone()]).await.unwrap().records.remove(0).unwrap();
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
