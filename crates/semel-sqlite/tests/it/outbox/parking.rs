//! What cannot be sent, and what waits behind it.

use semel::{
    StoreErrorKind,
    outbox::{
        OutboxAuditKind, OutboxInspect, OutboxRetain, OutboxStore, ParkedState, Settled,
        store::{EventFilter, LeftOut, ParkedFilter, Unpark},
    },
    store::Actor,
};

use super::{LEASE, Shop, destination, lead, leader, numbers, park, settle};

fn actor() -> Actor {
    Actor { name: "ada".into(), note: "ticket 7".into() }
}

async fn states(shop: &Shop) -> Vec<(u64, ParkedState)> {
    let filter = ParkedFilter { limit: 100, ..ParkedFilter::default() };
    let parked = shop.store.parked(filter).await.unwrap();
    parked.into_iter().map(|parked| (parked.seq, parked.state)).collect()
}

/// The places of the heads that are due.
async fn due(shop: &Shop) -> Vec<u64> {
    let due = shop.store.due(destination("a"), 100, usize::MAX).await.unwrap();
    due.into_iter().map(|of_lane| of_lane.rows[0].seq).collect()
}

async fn mark(shop: &Shop, seqs: Vec<u64>, state: ParkedState) -> u64 {
    shop.store.mark(destination("a"), seqs, state, actor()).await.unwrap()
}

/// M20: a settlement that comes twice, or after its leader lost its lease, parks each event once.
#[tokio::test]
async fn a_settlement_that_comes_again_parks_nothing_twice() {
    let mut shop = Shop::new();
    let first = shop.leader().await;
    shop.append("7", 0..3);
    let window = shop.window(&first).await;
    let mut all = settle(&first, window.pass.zip(Some(window.upto)));
    all.park = vec![park(window.events[0].clone(), true)];
    assert_eq!(shop.store.settle(all.clone()).await.unwrap(), Settled::Stored);
    assert_eq!(shop.store.settle(all.clone()).await.unwrap(), Settled::Stored);
    assert_eq!(states(&shop).await.len(), 1);
    // The failure was counted, then the lease was lost before the parking.
    shop.append("8", 3..4);
    let window = shop.window(&first).await;
    shop.clock.advance(LEASE * 2);
    let second = shop.leader().await;
    let mut late = settle(&first, window.pass.zip(Some(window.upto)));
    late.park = vec![park(window.events[0].clone(), true)];
    assert_eq!(shop.store.settle(late.clone()).await.unwrap(), Settled::Stale);
    assert_eq!(states(&shop).await.len(), 1);
    late.epoch = second.epoch;
    assert_eq!(shop.store.settle(late).await.unwrap(), Settled::Stored);
    assert_eq!(states(&shop).await.len(), 2);
}

/// M25: the settlement of a leader that was overtaken changes nothing, though its successor has the
/// same name.
#[tokio::test]
async fn a_late_settlement_is_refused_though_the_new_leader_has_the_same_name() {
    let mut shop = Shop::new();
    let first = shop.leader().await;
    let waiting = shop.append("7", 0..3);
    let window = shop.window(&first).await;
    shop.clock.advance(LEASE * 2);
    let second = shop.leader().await;
    assert!(second.epoch > first.epoch);
    let late = settle(&first, window.pass.zip(Some(window.upto)));
    assert_eq!(shop.store.settle(late).await.unwrap(), Settled::Stale);
    assert_eq!(shop.store.renew(first, LEASE).await.unwrap(), Settled::Stale);
    assert_eq!(shop.waiting(&second).await, waiting);
}

#[tokio::test]
async fn the_next_of_a_lane_is_due_when_the_one_before_it_is_gone() {
    let mut shop = Shop::new();
    let leader = shop.leader().await;
    shop.append("7", 0..4);
    shop.park(&leader, 4).await;
    assert_eq!(due(&shop).await, [0; 0]);
    assert_eq!(mark(&shop, vec![2, 99], ParkedState::Retry).await, 0);
    assert_eq!(mark(&shop, vec![1], ParkedState::Retry).await, 1);
    assert_eq!(due(&shop).await, [1]);
    shop.unpark(&leader, Unpark::Failed { seq: 1, attempts: 2, why: "again".into() }).await;
    assert_eq!(due(&shop).await, [0; 0]);
    assert_eq!(mark(&shop, vec![1], ParkedState::Skip).await, 1);
    assert_eq!(due(&shop).await, [1]);
    shop.unpark(&leader, Unpark::LeftOut { seq: 1 }).await;
    assert_eq!(due(&shop).await, [2]);
    shop.unpark(&leader, Unpark::Sent { seq: 2 }).await;
    shop.unpark(&leader, Unpark::Sent { seq: 2 }).await;
    assert_eq!(due(&shop).await, [3]);
    shop.unpark(&leader, Unpark::Failed { seq: 3, attempts: 1, why: "no".into() }).await;
    assert_eq!(mark(&shop, vec![3], ParkedState::Drop).await, 1);
    shop.unpark(&leader, Unpark::LeftOut { seq: 3 }).await;
    assert_eq!(states(&shop).await, []);
}

#[tokio::test]
async fn a_dropped_head_takes_its_lane_along_and_no_other() {
    let mut shop = Shop::new();
    let first = shop.leader().await;
    shop.append("7", 0..3);
    shop.park(&first, 3).await;
    shop.append("8", 3..5);
    shop.park(&first, 2).await;
    let other = leader(lead(&shop.store, "b").await);
    shop.park(&other, 3).await;
    assert_eq!(mark(&shop, vec![1], ParkedState::Drop).await, 1);
    shop.unpark(&first, Unpark::LeftOut { seq: 1 }).await;
    let left: Vec<_> = states(&shop).await.into_iter().map(|(seq, _)| seq).collect();
    assert_eq!(left, [4, 5, 6, 7, 8]);
    assert_eq!(numbers(&shop.conn, "SELECT count(*) FROM semel_parked WHERE head = 1"), 2);
    let lanes = shop.store.parked_lanes(destination("a"), None).await.unwrap();
    assert_eq!(lanes.len(), 1);
    assert_eq!(shop.store.parked_lanes(destination("a"), lanes.last().cloned()).await.unwrap(), []);
}

/// M44: what is parked has a copy of its own, which retention does not touch.
#[tokio::test]
async fn a_parked_event_outlives_the_outbox() {
    let mut shop = Shop::new();
    let leader = shop.leader().await;
    shop.append("7", 0..3);
    let window = shop.park(&leader, 3).await;
    shop.clock.advance(LEASE * 10);
    assert_eq!(shop.store.retain(LEASE).await.unwrap().dropped, 3);
    let filter = ParkedFilter { limit: 100, ..ParkedFilter::default() };
    let parked = shop.store.parked(filter).await.unwrap();
    let placed: Vec<_> = parked.into_iter().map(|parked| parked.placed).collect();
    assert_eq!(placed, window.events);
}

#[tokio::test]
async fn what_operators_say_is_kept() {
    let mut shop = Shop::new();
    let leader = shop.leader().await;
    let ids = shop.append("7", 0..3);
    shop.park(&leader, 3).await;
    mark(&shop, vec![1], ParkedState::Skip).await;
    let filter = EventFilter { limit: 100, ..EventFilter::default() };
    let replay = |of, filter| shop.store.replay(destination(of), filter, LeftOut::Stays, actor());
    let replayed = replay("a", filter.clone()).await.unwrap();
    assert_eq!(replayed.parked, 0, "what is parked is not parked twice");
    let missing = replay("x", filter).await.unwrap_err();
    assert_eq!(missing.kind(), StoreErrorKind::Invalid);
    let led = shop.store.forget(destination("a"), actor()).await.unwrap_err();
    assert_eq!(led.kind(), StoreErrorKind::Invalid);
    shop.store.resign(leader.clone()).await.unwrap();
    assert!(shop.store.forget(destination("a"), actor()).await.unwrap());
    assert!(!shop.store.forget(destination("a"), actor()).await.unwrap());
    assert_eq!(states(&shop).await, []);
    assert!(shop.leader().await.epoch > leader.epoch);
    let audit = shop.store.outbox_audit(None, 100).await.unwrap();
    let said: Vec<_> = audit.iter().map(|row| (row.kind, row.event, row.rows)).collect();
    assert_eq!(
        said,
        [
            (OutboxAuditKind::Forget, None, 3),
            (OutboxAuditKind::Replay, None, 0),
            (OutboxAuditKind::Skip, Some(ids[0]), 1),
        ]
    );
    assert_eq!((&*audit[0].actor, &*audit[0].note), ("ada", "ticket 7"));
}

/// M59: what a broker has lost is sent again out of the outbox, in order, under the same ids.
#[tokio::test]
async fn what_a_destination_had_is_parked_again_by_time() {
    let mut shop = Shop::new();
    let leader = shop.leader().await;
    shop.append("7", 0..2);
    shop.clock.advance(LEASE / 2);
    let from = semel::Store::read(&shop.store, vec![]).await.unwrap().now;
    let lost = shop.append("7", 2..4);
    let window = shop.window(&leader).await;
    let all = settle(&leader, window.pass.zip(Some(window.upto)));
    assert_eq!(shop.store.settle(all).await.unwrap(), Settled::Stored);
    // This one was never sent: it leaves by itself.
    shop.append("7", 4..5);
    let filter = EventFilter { from: Some(from), limit: 100, ..EventFilter::default() };
    let replayed = shop.store.replay(destination("a"), filter, LeftOut::Stays, actor()).await;
    assert_eq!(replayed.unwrap().parked, 2);
    let filter = ParkedFilter { limit: 100, ..ParkedFilter::default() };
    let parked = shop.store.parked(filter).await.unwrap();
    let ids: Vec<_> = parked.iter().map(|parked| parked.placed.event.id).collect();
    assert_eq!(ids, lost);
    assert_eq!(due(&shop).await, [1]);
}
