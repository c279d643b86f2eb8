//! Reads for operators: destinations, events, parked rows and the audit.

use std::time::Duration;

use semel::{
    IntentId,
    outbox::{
        Destination, OutboxAuditKind, ParkedState, Settle,
        store::{EventFilter, ParkedFilter, READ_MAX},
    },
};

use super::{
    super::verbs::{id, named},
    FreshOutbox,
    verbs::*,
};

const ZERO: Duration = Duration::ZERO;

/// A destination tells who leads it, under which epoch, until when.
pub async fn a_destination_tells_its_leader(on: FreshOutbox) {
    assert_eq!(on.state_of(&kafka()).await, None);
    let leader = on.lead("first").await;
    let state = on.state().await;
    assert_eq!((state.epoch, state.generation), (leader.epoch, leader.generation));
    let (owner, until) = state.leader.expect("somebody leads");
    assert_eq!(&*owner, "first");
    let left = until.as_micros().saturating_sub(state.now.as_micros());
    assert!((1..=LEASE.as_micros()).contains(&u128::from(left)), "{left} µs");
    on.lead_to(&destination("webhooks"), "second").await;
    let mut all: Vec<_> = on.inspect.destinations().await.unwrap();
    all.sort_by_key(|state| state.destination.clone());
    let names: Vec<_> = all.iter().map(|state| state.destination.as_str()).collect();
    assert_eq!(names, ["kafka", "webhooks"]);
    on.store.resign(leader).await.unwrap();
    assert_eq!(on.state().await.leader, None);
}

/// What waits is counted, and the oldest of it told, for each destination.
pub async fn what_waits_is_counted(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let waits = async |on: &FreshOutbox| {
        let state = on.state().await;
        (state.waiting, state.oldest)
    };
    assert_eq!(waits(&on).await, (0, None));
    on.commit(&events(2)).await;
    on.after(LEASE / 10).await;
    on.commit(&events(3)).await;
    let listed = on.events().await;
    assert_eq!(waits(&on).await, (5, Some(listed[0].at)));
    let rest = on.some(&leader).await;
    let upto = Some((rest.pass, rest.placed[2].pos));
    let park = vec![failed(&rest.placed[1])];
    on.stored(Settle { upto, park, ..settlement(&leader) }).await;
    assert_eq!(waits(&on).await, (2, Some(listed[3].at)));
    on.commit(&events(1)).await;
    assert_eq!(waits(&on).await, (3, Some(listed[3].at)));
    on.drain(&leader).await;
    assert_eq!(waits(&on).await, (0, None));
}

/// What is parked is counted in rows and lanes, and the oldest of it told.
pub async fn what_is_parked_is_counted(on: FreshOutbox) {
    let leader = on.lead("first").await;
    on.lead_to(&destination("webhooks"), "first").await;
    let parks = async |on: &FreshOutbox, name| {
        let state = on.state_of(&destination(name)).await.expect("it is listed");
        (state.parked, state.parked_lanes, state.oldest_parked)
    };
    assert_eq!(parks(&on, "kafka").await, (0, 0, None));
    let first = on.park_lane(&leader, "a", 2).await;
    on.after(LEASE / 10).await;
    on.park_lane(&leader, "b", 3).await;
    assert_eq!(parks(&on, "kafka").await, (5, 2, Some(first[0].parked_at)));
    assert_eq!(parks(&on, "webhooks").await, (0, 0, None));
}

/// M31: what is parked tells what of it only waits to be sent, which a destination lacks as if it were
/// not parked, and what waits for an operator.
pub async fn what_is_parked_is_lacked_unless_an_operator_is_awaited(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let lacks = async |on: &FreshOutbox| {
        let state = on.state().await;
        assert_eq!(state.lag(), state.oldest_lacked().map_or(ZERO, |at| state.now.since(at)));
        (state.oldest_lacked(), state.failed_lanes, state.oldest_failed)
    };
    let held = on.park_lane(&leader, "a", 2).await;
    let failed = Some(held[0].placed.at);
    assert_eq!(lacks(&on).await, (None, 1, failed));
    on.after(LEASE / 10).await;
    on.commit(&[event("b", "1"), event("c", "1"), event("b", "2")]).await;
    let rest = on.some(&leader).await;
    let (b, oldest) = (&rest.placed, Some(rest.placed[0].at));
    assert_eq!(lacks(&on).await, (oldest, 1, failed));
    // Set aside, it is as old as it was.
    let park = vec![behind(&b[0]), self::failed(&b[1]), behind(&b[2])];
    let upto = Some((rest.pass, rest.upto));
    on.stored(Settle { upto, park, ends: true, ..settlement(&leader) }).await;
    assert_eq!(lacks(&on).await, (oldest, 2, failed));
    on.after(LEASE / 10).await;
    on.commit(&[event("d", "1")]).await;
    assert_eq!(lacks(&on).await, (oldest, 2, failed));
    // What an operator lets go is lacked again; what is to be left out is not.
    on.mark(&[held[0].seq], ParkedState::Skip).await;
    assert_eq!(lacks(&on).await, (Some(held[1].placed.at), 1, Some(b[1].at)));
    on.mark(&[held[0].seq], ParkedState::Retry).await;
    assert_eq!(lacks(&on).await, (failed, 1, Some(b[1].at)));
    on.mark(&[held[0].seq], ParkedState::Drop).await;
    assert_eq!(lacks(&on).await, (oldest, 1, Some(b[1].at)));
}

/// Events are listed in the order of their places, whoever had them.
pub async fn events_are_listed_in_order(on: FreshOutbox) {
    let told = events(6);
    for events in told.chunks(2) {
        on.commit(events).await;
    }
    let listed = on.events().await;
    assert_eq!(ids(&listed), ids_of(&told));
    let leader = on.lead("first").await;
    assert_eq!(on.drain(&leader).await, listed);
    assert_eq!(on.events().await, listed);
}

/// Filters choose events by id, lane, intent, operation and time, together.
pub async fn filters_choose_events(on: FreshOutbox) {
    let intents: [IntentId; 3] = [id("k1"), id("k2"), named("acme", "orders.create", "k1")];
    let mut told = events(6);
    for (at, event) in told.iter_mut().enumerate().take(3) {
        event.intent = Some(intents[at].clone());
    }
    for events in told.chunks(2) {
        on.commit(events).await;
        on.after(LEASE / 10).await;
    }
    let placed = on.events().await;
    let operation = |at: usize| Some(intents[at].scope.operation.clone());
    let cases: [(EventFilter, &[usize]); 8] = [
        (EventFilter { id: Some(told[3].id), ..all() }, &[3]),
        (EventFilter { id: Some(event_id()), ..all() }, &[]),
        (EventFilter { lane: Some(lane("b")), ..all() }, &[1, 3, 5]),
        (EventFilter { intent: Some(intents[1].clone()), ..all() }, &[1]),
        (EventFilter { operation: operation(0), ..all() }, &[0, 1]),
        (EventFilter { from: Some(placed[2].at), ..all() }, &[2, 3, 4, 5]),
        (EventFilter { until: Some(placed[4].at), lane: Some(lane("a")), ..all() }, &[0, 2]),
        (EventFilter { operation: operation(2), lane: Some(lane("b")), ..all() }, &[]),
    ];
    for (filter, wanted) in cases {
        let wanted: Vec<_> = wanted.iter().map(|at| told[*at].id).collect();
        assert_eq!(ids(&on.events_of(filter.clone()).await), wanted, "{filter:?}");
    }
}

/// Pages of events follow each other without a gap and without a repeat.
pub async fn pages_of_events_follow_each_other(on: FreshOutbox) {
    let told = events(10);
    on.commit(&told).await;
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = on.events_of(EventFilter { after, limit: 3, ..all() }).await;
        assert!(page.len() <= 3);
        let Some(last) = page.last() else { break };
        after = Some(last.pos);
        seen.extend(ids(&page));
    }
    assert_eq!(seen, ids_of(&told));
}

/// A list of events is bounded, whatever is asked for.
pub async fn a_list_of_events_is_bounded(on: FreshOutbox) {
    for events in events(READ_MAX + 10).chunks(1_000) {
        on.commit(events).await;
    }
    let listed = on.events_of(EventFilter { limit: u32::MAX, ..all() }).await;
    assert_eq!(listed.len(), READ_MAX);
}

/// Filters choose parked rows by destination, lane, state and event, and pages follow each other.
pub async fn filters_choose_parked_rows(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let other = on.lead_to(&destination("webhooks"), "first").await;
    let mut rows = on.park_lane(&leader, "a", 3).await;
    rows.extend(on.park_lane(&leader, "b", 2).await);
    let rest = on.some(&other).await;
    let park = vec![failed(&rest.placed[0])];
    let upto = Some((rest.pass, rest.placed[0].pos));
    on.stored(Settle { upto, park, ..settlement(&other) }).await;
    let of = |destination: Destination| ParkedFilter {
        destination: Some(destination),
        limit: 100,
        ..ParkedFilter::default()
    };
    assert_eq!(on.parked_of(of(kafka())).await, rows);
    assert_eq!(on.parked_of(of(destination("webhooks"))).await.len(), 1);
    let by_lane = ParkedFilter { lane: Some(lane("b")), ..of(kafka()) };
    assert_eq!(on.parked_of(by_lane).await, rows[3..]);
    let by_state = ParkedFilter { state: Some(ParkedState::Failed), ..of(kafka()) };
    assert_eq!(on.parked_of(by_state).await, [rows[0].clone(), rows[3].clone()]);
    let by_id =
        ParkedFilter { id: Some(rows[0].placed.event.id), limit: 100, ..Default::default() };
    assert_eq!(on.parked_of(by_id).await.len(), 2);
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = on.parked_of(ParkedFilter { after, limit: 2, ..of(kafka()) }).await;
        assert!(page.len() <= 2);
        let Some(last) = page.last() else { break };
        after = Some(last.seq);
        seen.extend(page);
    }
    assert_eq!(seen, rows);
}

/// The audit comes newest first, of one destination or of all, and bounded.
pub async fn the_audit_comes_newest_first(on: FreshOutbox) {
    let leader = on.lead("first").await;
    on.lead_to(&destination("webhooks"), "first").await;
    let rows = on.park_lane(&leader, "a", 1).await;
    on.mark(&[rows[0].seq], ParkedState::Skip).await;
    on.after(LEASE + INSTANT).await;
    on.mark(&[rows[0].seq], ParkedState::Retry).await;
    on.inspect.forget(destination("webhooks"), actor()).await.unwrap();
    let kinds = async |of: Option<Destination>, limit| {
        let rows = on.inspect.outbox_audit(of, limit).await.unwrap();
        rows.into_iter().map(|row| row.kind).collect::<Vec<_>>()
    };
    let (forget, retry, skip) =
        (OutboxAuditKind::Forget, OutboxAuditKind::Retry, OutboxAuditKind::Skip);
    assert_eq!(kinds(None, 10).await, [forget, retry, skip]);
    assert_eq!(kinds(None, 2).await, [forget, retry]);
    assert_eq!(kinds(Some(kafka()), 10).await, [retry, skip]);
    assert_eq!(kinds(Some(destination("nobody")), 10).await, []);
}
