//! What operators see.

use std::time::Duration;

use semel::{
    Fingerprint, Operation, Outcome, Policy,
    outbox::{Event, Lane, OutboxInspect, OutboxStore, Placed, Settled, store::EventFilter},
};
use semel_sqlite::transact::Atomic;

use super::{LEASE, Shop, event, settle};
use crate::bench::id;

async fn listed(shop: &Shop, filter: EventFilter) -> Vec<u64> {
    let filter =
        EventFilter { limit: if filter.limit == 0 { 100 } else { filter.limit }, ..filter };
    let placed: Vec<Placed> = shop.store.events(filter).await.unwrap();
    placed.into_iter().map(|placed| placed.pos.0).collect()
}

#[tokio::test]
async fn events_are_listed_by_what_is_known_of_them() {
    let mut shop = Shop::new();
    let ids = shop.append("7", 0..2);
    shop.clock.advance(Duration::from_secs(5));
    let from = semel::Store::read(&shop.store, vec![]).await.unwrap().now;
    let transact = shop.store.transact();
    let policy = std::sync::Arc::new(Policy::default());
    let call = semel::Call::new(id("k"), Fingerprint::of_bytes(b""), policy);
    let Atomic::Run(guard) = transact.claim(shop.begin(), &call).unwrap() else { panic!() };
    guard.publish(event("8", 1)).unwrap();
    guard.complete(Outcome::new(200, "")).unwrap().commit().unwrap();
    let all = EventFilter::default;
    let lane = Some(Lane::new("order", "7").unwrap());
    let operation = Some(Operation::new("payments.create").unwrap());
    for (filter, positions) in [
        (all(), &[1, 2, 3][..]),
        (EventFilter { id: Some(ids[1]), ..all() }, &[2]),
        (EventFilter { id: Some(ids[1]), after: Some(semel::outbox::Pos(2)), ..all() }, &[]),
        (EventFilter { lane, ..all() }, &[1, 2]),
        (EventFilter { intent: Some(id("k")), ..all() }, &[3]),
        (EventFilter { intent: Some(id("k").narrowed([1; 32])), ..all() }, &[]),
        (EventFilter { intent: Some(id("other")), ..all() }, &[]),
        (EventFilter { operation, ..all() }, &[3]),
        (EventFilter { from: Some(from), ..all() }, &[3]),
        (EventFilter { until: Some(from), ..all() }, &[1, 2]),
        (EventFilter { after: Some(semel::outbox::Pos(1)), limit: 1, ..all() }, &[2]),
    ] {
        assert_eq!(listed(&shop, filter.clone()).await, positions, "{filter:?}");
    }
}

#[tokio::test]
async fn a_page_of_large_events_is_bounded_and_none_is_left_out() {
    let mut shop = Shop::new();
    let transact = shop.store.transact();
    let events: Vec<_> = (0..40)
        .map(|number| {
            let mut large = event("7", number);
            large.payload = Some(vec![0; Event::PAYLOAD_MAX].into());
            large
        })
        .collect();
    let tx = shop.begin();
    transact.publish(&tx, &events).unwrap();
    tx.commit().unwrap();
    let (mut pages, mut after, mut seen) = (0, None, 0);
    loop {
        let filter = EventFilter { after, limit: 100, ..EventFilter::default() };
        let page = shop.store.events(filter).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.pos);
        seen += page.len();
        pages += 1;
    }
    assert_eq!((pages, seen), (2, 40));
    let leader = shop.leader().await;
    let window = shop.store.read(leader.clone(), None, 100, 5 << 20).await.unwrap();
    assert_eq!((window.events.len(), window.ends), (5, false));
    let window = shop.store.read(leader, None, 100, 1).await.unwrap();
    assert_eq!((window.events.len(), window.ends), (1, false));
}

#[tokio::test]
async fn a_destination_tells_how_far_behind_it_is() {
    let mut shop = Shop::new();
    let leader = shop.leader().await;
    let state = || async { shop.store.destinations().await.unwrap().remove(0) };
    let none = state().await;
    assert_eq!((none.waiting, none.oldest, none.parked), (0, None, 0));
    assert_eq!(none.leader.map(|(owner, _)| owner).as_deref(), Some("relay-1"));
    shop.append("7", 0..3);
    let appended = semel::Store::read(&shop.store, vec![]).await.unwrap().now;
    shop.clock.advance(Duration::from_secs(5));
    shop.park(&leader, 2).await;
    let state = || async { shop.store.destinations().await.unwrap().remove(0) };
    let some = state().await;
    assert_eq!((some.waiting, some.oldest), (1, Some(appended)));
    assert_eq!((some.parked, some.parked_lanes), (2, 1));
    assert_eq!(some.oldest_parked, Some(some.now));
    shop.clock.advance(LEASE);
    shop.store.resign(leader.clone()).await.unwrap();
    assert_eq!(state().await.leader, None);
    let late = settle(&leader, None);
    assert_eq!(shop.store.settle(late).await.unwrap(), Settled::Stale);
}
