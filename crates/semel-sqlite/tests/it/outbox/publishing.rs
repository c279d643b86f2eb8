//! What is appended, and what is refused.

use std::sync::Arc;

use semel::{
    Call, Fingerprint, Outcome, Policy, StoreErrorKind,
    outbox::{Cause, Event, OutboxInspect, store::EventFilter},
};
use semel_sqlite::transact::{Atomic, Ran};

use super::{Shop, event, numbers};
use crate::bench::id;

fn call(key: &str) -> Call {
    let mut call = Call::new(id(key), Fingerprint::of_bytes(b"pay"), Arc::new(Policy::default()));
    call.claimed_by = Some("request-7".into());
    call
}

async fn kept(shop: &Shop) -> Vec<Event> {
    let filter = EventFilter { limit: 100, ..EventFilter::default() };
    let placed = shop.store.events(filter).await.unwrap();
    assert!(placed.iter().all(|placed| placed.unreadable.is_none()), "{placed:?}");
    placed.into_iter().map(|placed| Event::clone(&placed.event)).collect()
}

#[tokio::test]
async fn events_of_a_guard_are_committed_with_its_outcome_and_name_intent_and_cause() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    let (first, mut second) = (event("7", 1), event("7", 2));
    second.cause = Some(Cause::event(first.id));
    let Atomic::Run(guard) = transact.claim(shop.begin(), &call("k")).unwrap() else { panic!() };
    guard.publish(first.clone()).unwrap();
    guard.publish(second.clone()).unwrap();
    guard.complete(Outcome::new(201, "paid")).unwrap().commit().unwrap();
    let events = kept(&shop).await;
    assert_eq!(events.iter().map(|event| event.id).collect::<Vec<_>>(), [first.id, second.id]);
    assert!(events.iter().all(|event| event.intent == Some(id("k"))));
    assert_eq!(events[0].cause, Some(Cause::new("request:request-7").unwrap()));
    assert_eq!(events[1].cause, second.cause);
}

#[tokio::test]
async fn nothing_of_a_transaction_that_is_not_committed_is_kept() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    let Atomic::Run(guard) = transact.claim(shop.begin(), &call("k")).unwrap() else { panic!() };
    guard.publish(event("7", 1)).unwrap();
    drop(guard);
    let Atomic::Run(guard) = transact.claim(shop.begin(), &call("k")).unwrap() else { panic!() };
    guard.publish(event("7", 2)).unwrap();
    drop(guard.complete(Outcome::new(201, "paid")).unwrap());
    let tx = shop.begin();
    transact.publish(&tx, &[event("7", 3)]).unwrap();
    drop(tx);
    assert_eq!(kept(&shop).await, []);
}

#[tokio::test]
async fn the_work_of_a_closure_that_runs_again_publishes_once() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    let work = |guard: &semel_sqlite::transact::Guard<'_>| {
        guard.publish(event("7", 1))?;
        Ok::<_, semel::StoreError>((Outcome::new(201, "paid"), ()))
    };
    for _ in 0..2 {
        let ran = transact.run(&mut shop.conn, &call("k"), work).unwrap();
        assert!(matches!(ran, Ran::Done(()) | Ran::Replay(_)), "{ran:?}");
    }
    assert_eq!(kept(&shop).await.len(), 1);
}

#[tokio::test]
async fn what_was_published_is_read_as_it_was() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    let mut full = event("ünïcode €", 1);
    full.headers = vec![("content-type".into(), "a \"b\" \\ ü".into()), ("x".into(), "".into())];
    full.version = Some(-3);
    full.trace = Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into());
    full.intent = Some(id("k").narrowed([7; 32]));
    full.cause = Some(Cause::new("message:kafka:orders 7").unwrap());
    full.payload = Some(vec![0, 0xff, b'\n', 0x80].into());
    let mut tombstone = event("8", 1);
    tombstone.payload = None;
    let events = [full, tombstone];
    let tx = shop.begin();
    transact.publish(&tx, &events).unwrap();
    tx.commit().unwrap();
    assert_eq!(kept(&shop).await, events);
}

#[tokio::test]
async fn a_publish_that_fails_appends_nothing_and_leaves_the_transaction_as_it_was() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    let first = event("7", 1);
    let tx = shop.begin();
    transact.publish(&tx, std::slice::from_ref(&first)).unwrap();
    tx.execute("INSERT INTO payment VALUES (10)", []).unwrap();
    let again = transact.publish(&tx, &[event("7", 2), first.clone()]).unwrap_err();
    assert_eq!(again.kind(), StoreErrorKind::Invalid);
    assert!(again.to_string().contains("appended before"), "{again}");
    let mut large = event("7", 3);
    large.payload = Some(vec![0; Event::PAYLOAD_MAX + 1].into());
    let refused = transact.publish(&tx, &[event("7", 2), large]).unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Invalid);
    tx.commit().unwrap();
    assert_eq!(kept(&shop).await, [first]);
    assert_eq!(numbers(&shop.conn, "SELECT count(*) FROM payment"), 1);
}

#[tokio::test]
async fn a_transaction_that_cannot_carry_events_is_refused() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    let mut elsewhere = rusqlite::Connection::open_in_memory().unwrap();
    let on_another_file = elsewhere.transaction().unwrap();
    let ended = shop.begin();
    ended.execute_batch("COMMIT").unwrap();
    for (tx, words) in [(&on_another_file, "another file"), (&ended, "ended already")] {
        let error = transact.publish(tx, &[event("7", 1)]).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    drop(ended);
    shop.conn.pragma_update(None, "synchronous", "NORMAL").unwrap();
    let error = transact.publish(&shop.begin(), &[event("7", 1)]).unwrap_err();
    assert!(error.to_string().contains("may lose what it commits"), "{error}");
    assert_eq!(kept(&shop).await, []);
}

#[tokio::test]
async fn a_row_that_another_language_inserts_is_an_event() {
    let shop = Shop::new();
    let plain = "INSERT INTO semel_outbox (aggregatetype, aggregateid, type, payload) \
                 VALUES ('order', '7', 'Placed', '{\"id\":7}')";
    let full = "INSERT INTO semel_outbox (id, aggregatetype, aggregateid, type, payload, headers) \
                VALUES ('0190a3c4-0000-7000-8000-000000000001', 'order', '8', 'Placed', x'00ff', \
                '{\"content-type\": \"text/plain\", \"n\": \"\\u00fc\"}')";
    for sql in [plain, plain, full] {
        shop.conn.execute(sql, []).unwrap();
    }
    let events = kept(&shop).await;
    assert_eq!(events.len(), 3);
    assert_ne!(events[0].id, events[1].id);
    assert_eq!(events[0].id.to_string().as_bytes()[14], b'4');
    assert_eq!(events[0].payload.as_deref(), Some(&b"{\"id\":7}"[..]));
    assert_eq!(events[2].id.to_string(), "0190a3c4-0000-7000-8000-000000000001");
    assert_eq!(events[2].payload.as_deref(), Some(&[0, 0xff][..]));
    let headers: Vec<_> = events[2].headers.iter().map(|(n, v)| (&**n, &**v)).collect();
    assert_eq!(headers, [("content-type", "text/plain"), ("n", "\u{fc}")]);
    let skew = "SELECT abs(max(at_us) - unixepoch() * 1000000) FROM semel_outbox";
    assert!(numbers(&shop.conn, skew) < 60_000_000, "at_us is in microseconds");
}

#[tokio::test]
async fn a_row_that_is_no_event_is_refused_where_it_is_inserted() {
    let shop = Shop::new();
    let large = format!("'{}'", "x".repeat(Event::PAYLOAD_MAX + 1));
    let headers = |count: usize| {
        let headers: Vec<_> = (0..count).map(|n| format!("\"h{n}\":\"v\"")).collect();
        format!("'{{{}}}'", headers.join(","))
    };
    let (many, long) = (headers(65), format!("'{{\"h\":\"{}\"}}'", "x".repeat(4_097)));
    let id = "'0190a3c4-0000-7000-8000-00000000000";
    for (column, value, names) in [
        ("id", format!("{id}'"), "id_is"),
        ("id", format!("{id}G'"), "id_is"),
        ("id", "upper(hex(randomblob(16)))".to_owned(), "id_is"),
        ("id", "'0190a3c400-00-7000-8000-000000000001'".to_owned(), "id_is"),
        ("trace", "''".to_owned(), "trace_is"),
        ("trace", "'a' || char(10)".to_owned(), "trace_is"),
        ("cause", "'a' || char(0) || 'b'".to_owned(), "cause_is"),
        ("headers", "'[]'".to_owned(), "headers_are"),
        ("headers", "'{'".to_owned(), "headers_are"),
        ("headers", "'{\"a\":1}'".to_owned(), "headers are"),
        ("headers", "'{\"\":\"a\"}'".to_owned(), "headers are"),
        ("headers", "'{\"a\":\"b\\nc\"}'".to_owned(), "headers are"),
        ("headers", many, "headers are"),
        ("headers", long, "headers are"),
        ("payload", "7".to_owned(), "payload_is"),
        ("payload", large, "payload_is"),
        ("at_us", "-1".to_owned(), "at_us_is"),
        ("key", "'k'".to_owned(), "intent_is"),
        ("pos", "0".to_owned(), "leave pos out"),
        ("pos", "9223372036854775807".to_owned(), "leave pos out"),
    ] {
        let sql = format!(
            "INSERT INTO semel_outbox (aggregatetype, aggregateid, type, {column}) \
             VALUES ('order', '7', 'Placed', {value})"
        );
        let error = shop.conn.execute(&sql, []).expect_err(&sql).to_string();
        assert!(error.contains(names), "{column} {value:.60}: {error}");
    }
    for column in ["aggregatetype", "aggregateid", "type"] {
        for value in ["''", "'a' || char(127)", "'a' || char(133)", "printf('%.*c', 256, 'x')"] {
            let columns = ["aggregatetype", "aggregateid", "type"];
            let values = columns.map(|name| if name == column { value } else { "'x'" });
            let sql = format!(
                "INSERT INTO semel_outbox ({}) VALUES ({})",
                columns.join(","),
                values.join(",")
            );
            let error = shop.conn.execute(&sql, []).expect_err(&sql).to_string();
            assert!(error.contains(&format!("{column}_is")), "{value}: {error}");
        }
    }
    let just = headers(64);
    let sql = format!(
        "INSERT INTO semel_outbox (aggregatetype, aggregateid, type, headers) \
         VALUES (printf('%.*c', 255, 'x'), '7', 'Placed', {just})"
    );
    shop.conn.execute(&sql, []).unwrap();
    assert_eq!(kept(&shop).await[0].headers.len(), 64);
}
