//! Any record of a topic, whoever wrote it: it is a delivery of all its parts, named by its producer if that gave a name
//! and by its place if not, the same in every copy; and its copy in a store's parking is whole.
//!
//! The record comes in pieces, a length and bytes each: topic, key, payload, then names and values of headers.

#[path = "../../../crates/semel-kafka/src/source/record.rs"]
mod record;

use bytes::Bytes;
use rusqlite::Connection;
use semel::inbox::{
    Consumer, Delivery, InboxInspect, InboxStore, LogId, MessageId, Park, ParkAnswer, SourceName,
};
use semel_sqlite::SqliteStore;
use tempfile::TempDir;

use self::record::Record;
use crate::{
    kept::{Pieces, folder},
    runtime,
};

/// The longest name of a topic.
const TOPIC_MAX: usize = 249;
const ID: &str = "id";

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    let Some((numbers, rest)) = data.split_first_chunk::<9>() else { return };
    let mut pieces = Pieces(rest);
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let topic: String = pieces.text().chars().map(plain).take(TOPIC_MAX).collect();
    if topic.is_empty() {
        return;
    }
    let (key, payload) = (pieces.optional(), pieces.optional());
    let mut headers = Vec::new();
    while !pieces.0.is_empty() {
        headers.push((pieces.text().into_boxed_str(), Bytes::copy_from_slice(pieces.next())));
    }
    let number = i64::from_le_bytes(std::array::from_fn(|at| numbers[at]));
    let log = LogId::new(format!("{topic}@id/0")).expect("a topic and its id name a log");
    let record = || Record {
        topic: &topic,
        topic_id: "0123456789abcdefghijkl",
        log: &log,
        partition: i32::from(numbers[8]),
        offset: number & i64::MAX,
        key,
        payload,
        headers: headers.clone(),
        sent_at: (numbers[8] % 2 == 0).then_some(number),
    };
    let delivery = record().delivery(ID).expect("whatever lies in a topic is a message");
    assert_eq!(record().delivery(ID).as_ref(), Some(&delivery), "a copy");
    named(&delivery, &topic, &headers);
    assert_eq!((delivery.key.as_deref(), delivery.payload.as_deref()), (key, payload));
    assert_eq!(delivery.headers, headers);
    parked(&delivery);
}

/// It has the name that the first header says which says one, or that of its place.
fn named(delivery: &Delivery, topic: &str, headers: &[(Box<str>, Bytes)]) {
    let source = SourceName::new(format!("kafka:{topic}")).expect("a topic is a source");
    assert_eq!(delivery.message.source, source);
    let given = headers.iter().find(|(name, _)| &**name == ID);
    let given = given.and_then(|(_, value)| String::from_utf8(value.to_vec()).ok());
    match given.and_then(|id| MessageId::new(source, id).ok()) {
        Some(given) => assert_eq!(delivery.message, given),
        None => assert!(delivery.message.id().starts_with("0123456789abcdefghijkl/")),
    }
}

struct Parking {
    store: SqliteStore,
    other: Connection,
    _folder: TempDir,
}

impl Parking {
    fn new() -> Self {
        let folder = folder();
        let path = folder.path().join("semel.db");
        let store = SqliteStore::builder(&path).open().expect("a new file");
        Self { store, other: Connection::open(&path).expect("the file"), _folder: folder }
    }
}

/// Its copy in a parking is whole.
fn parked(sent: &Delivery) {
    thread_local! {
        static PARKING: Parking = Parking::new();
    }
    let consumer = Consumer::new("c").expect("a consumer");
    PARKING.with(|parking| {
        let park = Park {
            consumer: consumer.clone(),
            fingerprint: sent.fingerprint(),
            delivery: sent.clone(),
            moves: false,
            attempts: 1,
            why: "test".into(),
        };
        let answer = runtime(parking.store.park(park)).expect("it can be parked");
        assert_eq!(answer, ParkAnswer::Parked);
        let state =
            runtime(parking.store.message(consumer, sent.message.clone())).expect("it is there");
        let mut kept = state.parked.expect("it is parked").delivery();
        (kept.parked, kept.receipt, kept.redelivered) = (false, sent.receipt, sent.redelivered);
        // An instant past the year 292,277 is kept as that year's.
        if sent.sent_at.is_some_and(|at| i64::try_from(at.as_micros()).is_err()) {
            kept.sent_at = sent.sent_at;
        }
        assert_eq!(&kept, sent);
        let gone = "DELETE FROM semel_inbox_parked; DELETE FROM semel_inbox;";
        parking.other.execute_batch(gone).expect("rows");
    });
}
