//! Reading: windows of a pass, in order, whole and bounded.

use semel::outbox::{Cause, Event, store::READ_MAX};

use super::{super::verbs::id, FreshOutbox, verbs::*};

/// The events of one transaction come in the order in which they were appended, and those of the next
/// transaction behind them.
pub async fn events_come_in_order(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let told = events(6);
    for events in told.chunks(2) {
        on.commit(events).await;
    }
    let rest = on.some(&leader).await;
    assert_eq!(ids(&rest.placed), ids_of(&told));
}

/// M52: an event that was appended in several steps of one transaction keeps their order.
pub async fn steps_of_a_transaction_keep_their_order(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let told = events(5);
    let mut transaction = on.producer.begin().await;
    for event in &told {
        transaction.append(vec![event.clone()]).await.unwrap();
    }
    transaction.commit().await;
    assert_eq!(ids(&on.drain(&leader).await), ids_of(&told));
}

fn arbitrary() -> Vec<Event> {
    let mut full = event("ß/\u{1f9fe}", "{\"total\":10}");
    full.headers = vec![
        ("content-type".into(), "application/json".into()),
        ("empty".into(), "".into()),
        ("quoted".into(), "c'est \"la\" vie; -- \\ \u{1f9fe}".into()),
    ];
    full.version = Some(i64::MAX);
    full.trace = Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into());
    full.intent = Some(id("k1").narrowed([7; 32]));
    full.cause = Some(Cause::event(event_id()));
    let mut other = event("b", "");
    other.intent = Some(id("k2"));
    other.cause = Some(Cause::new("request:k2").unwrap());
    other.version = Some(-1);
    let mut tombstone = event("c", "");
    tombstone.payload = None;
    let mut binary = event("d", "");
    binary.payload = Some((0..=255_u8).cycle().take(70_000).collect::<Vec<_>>().into());
    let mut largest = event("e", "");
    largest.payload = Some(vec![0xff; Event::PAYLOAD_MAX].into());
    vec![full, other, tombstone, binary, largest]
}

/// Every part of an event comes back: bytes exactly, a tombstone apart from an empty payload.
pub async fn events_come_back_whole(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let told = arbitrary();
    on.commit(&told).await;
    let read = on.drain(&leader).await;
    assert_eq!(read.len(), told.len());
    for (placed, told) in read.iter().zip(told) {
        let mut event = (*placed.event).clone();
        let mut told = told;
        event.headers.sort();
        told.headers.sort();
        assert_eq!(event, told);
    }
}

/// Windows follow each other without a gap and without a repeat.
pub async fn windows_follow_each_other(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let told = events(20);
    for events in told.chunks(3) {
        on.commit(events).await;
    }
    for limit in [1, 3, 20] {
        let rest = rest_by(&*on.store, &leader, limit).await.expect("something is to be read");
        assert_eq!(ids(&rest.placed), ids_of(&told), "by {limit}");
    }
}

/// A window holds about as many bytes as asked for, and at least one event.
pub async fn a_window_is_bounded_in_bytes(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let told: Vec<_> = (0..20).map(|_| event("a", &"x".repeat(10_000))).collect();
    on.commit(&told).await;
    for (bytes, most) in [(1, 1), (35_000, 5), (BYTES, 20)] {
        let window = on.store.read(leader.clone(), None, 100, bytes).await.unwrap();
        let read = window.events.len();
        assert!((1..=most).contains(&read), "{read} events for {bytes} bytes");
        assert_eq!(ids(&window.events), ids_of(&told[..read]));
        assert_eq!(window.ends, read == told.len());
    }
}

/// A window is bounded, whatever is asked for.
pub async fn a_window_is_bounded(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let told = events(READ_MAX + 10);
    for events in told.chunks(1_000) {
        on.commit(events).await;
    }
    let window = on.store.read(leader.clone(), None, usize::MAX, usize::MAX).await.unwrap();
    assert!(!window.events.is_empty() && window.events.len() <= READ_MAX);
    assert!(!window.ends);
    let rest = on.some(&leader).await;
    assert_eq!(ids(&rest.placed), ids_of(&told));
}

/// Whoever was overtaken may read, and changes nothing by it.
pub async fn an_overtaken_leader_may_read(on: FreshOutbox) {
    let old = on.lead("first").await;
    on.commit(&events(3)).await;
    let new = on.overtaken(&old).await;
    let first = on.some(&new).await;
    let seen = on.some(&old).await;
    assert_eq!((seen.pass, &seen.placed), (first.pass, &first.placed));
    on.end(&new, &first).await;
    assert!(on.rest(&new).await.is_none());
}
