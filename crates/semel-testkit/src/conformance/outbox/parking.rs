//! Parking: lanes that wait beside the cursor, in order.

use semel::outbox::{
    ParkedState, Settle,
    store::{ParkedFilter, Unpark},
};

use super::{FreshOutbox, verbs::*};

/// A parked row keeps a copy of its event, its place in the table, its state and the reason.
pub async fn parked_rows_keep_a_copy(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let told = events(2);
    on.commit(&told).await;
    let rest = on.some(&leader).await;
    let park = vec![failed(&rest.placed[0]), behind(&rest.placed[1])];
    let upto = Some((rest.pass, rest.upto));
    on.stored(Settle { upto, ends: true, park, ..settlement(&leader) }).await;
    let parked = on.parked().await;
    assert_eq!(parked.len(), 2);
    for (row, placed) in parked.iter().zip(&rest.placed) {
        assert_eq!((&row.placed, &row.destination), (placed, &kafka()));
        assert!(row.parked_at >= placed.at);
    }
    let said = |at: usize| (parked[at].state, parked[at].attempts, &*parked[at].why);
    assert_eq!(said(0), (ParkedState::Failed, 8, "the topic takes no such payload"));
    assert_eq!(said(1), (ParkedState::Behind, 0, ""));
}

/// Rows are parked in the order given, settlement after settlement.
pub async fn parked_rows_keep_their_order(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let first = on.park_lane(&leader, "a", 3).await;
    let other = on.park_lane(&leader, "b", 2).await;
    let joined = [event("a", "joined")];
    let joined = on.park(&leader, &joined, |_, placed| behind(placed)).await;
    let all = [first, other, joined].concat();
    assert_eq!(on.parked().await, all);
    assert!(all.is_sorted_by(|one, next| one.seq < next.seq));
}

/// M40: a lane whose head waits for an operator has nothing due, however much waits behind it.
pub async fn nothing_is_due_behind_a_failed_head(on: FreshOutbox) {
    let leader = on.lead("first").await;
    on.park_lane(&leader, "a", 3).await;
    assert_eq!(on.due().await, []);
}

/// When a head was sent, the next of its lane is due, and no other.
pub async fn the_next_is_due_when_its_head_was_sent(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let rows = on.park_lane(&leader, "a", 3).await;
    on.park_lane(&leader, "b", 2).await;
    for (at, row) in rows.iter().enumerate() {
        on.unpark(&leader, Unpark::Sent { seq: row.seq }).await;
        let due = parked_ids(&on.due().await);
        let next = rows.get(at + 1).map(|row| row.placed.event.id);
        assert_eq!(due, next.into_iter().collect::<Vec<_>>());
    }
    assert_eq!(on.parked().await.len(), 2);
}

/// Of each lane only the head is due, the oldest first, and no more than asked for.
pub async fn only_heads_are_due(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let mut heads = Vec::new();
    for id in ["c", "a", "b"] {
        let events = [event(id, "head"), event(id, "next")];
        let rows = on.park(&leader, &events, |_, placed| behind(placed)).await;
        heads.push(rows[0].clone());
    }
    assert_eq!(on.due().await, heads);
    assert_eq!(on.store.due(kafka(), 2).await.unwrap(), heads[..2]);
    assert_eq!(on.store.due(destination("webhooks"), 2).await.unwrap(), []);
}

/// A head that was refused again waits for an operator once more, with what is known by then.
pub async fn a_head_refused_again_waits_again(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let rows = on.park_lane(&leader, "a", 2).await;
    let seq = rows[0].seq;
    assert_eq!(on.mark(&[seq], ParkedState::Retry).await, 1);
    assert_eq!(on.due().await.len(), 1);
    let again = Unpark::Failed { seq, attempts: 9, why: "it still does not".into() };
    on.unpark(&leader, again).await;
    assert_eq!(on.due().await, []);
    let row = &on.parked().await[0];
    assert_eq!((row.state, row.attempts, &*row.why), (ParkedState::Failed, 9, "it still does not"));
    assert_eq!(row.placed, rows[0].placed);
}

/// A head that failed itself by going is marked so, though it was only behind another.
pub async fn a_head_that_was_behind_can_fail(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let rows = on.park_lane(&leader, "a", 3).await;
    on.unpark(&leader, Unpark::Sent { seq: rows[0].seq }).await;
    let fails = Unpark::Failed { seq: rows[1].seq, attempts: 8, why: "no".into() };
    on.unpark(&leader, fails).await;
    assert_eq!(on.due().await, []);
    let parked = on.parked().await;
    assert_eq!(
        parked.iter().map(|row| row.state).collect::<Vec<_>>(),
        [ParkedState::Failed, ParkedState::Behind]
    );
}

/// M41: of a row that is left out only that row goes.
pub async fn a_skipped_head_goes_alone(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let rows = on.park_lane(&leader, "a", 3).await;
    assert_eq!(on.mark(&[rows[0].seq], ParkedState::Skip).await, 1);
    assert_eq!(on.due().await[0].state, ParkedState::Skip);
    on.unpark(&leader, Unpark::LeftOut { seq: rows[0].seq }).await;
    assert_eq!(on.parked().await, rows[1..]);
    assert_eq!(on.due().await, rows[1..2]);
}

/// A row that is dropped takes its lane along: no other lane, and not that of another destination.
pub async fn a_dropped_head_takes_its_lane_along(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let other = on.lead_to(&destination("webhooks"), "first").await;
    let rows = on.park_lane(&leader, "a", 3).await;
    let kept = on.park_lane(&leader, "b", 2).await;
    let same = on.some(&other).await;
    let park = same.placed.iter().map(behind).collect();
    let upto = Some((same.pass, same.upto));
    on.stored(Settle { upto, park, ..settlement(&other) }).await;
    assert_eq!(on.mark(&[rows[0].seq], ParkedState::Drop).await, 1);
    assert_eq!(on.due().await[0].state, ParkedState::Drop);
    on.unpark(&leader, Unpark::LeftOut { seq: rows[0].seq }).await;
    let of = |name| ParkedFilter {
        destination: Some(destination(name)),
        limit: 100,
        ..ParkedFilter::default()
    };
    assert_eq!(on.parked_of(of("kafka")).await, kept);
    assert_eq!(on.parked_of(of("webhooks")).await.len(), 5);
}

/// What became of a row is settled once: a repeat changes no other row.
pub async fn a_row_is_unparked_once(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let rows = on.park_lane(&leader, "a", 3).await;
    for _ in 0..2 {
        let unpark = vec![Unpark::Sent { seq: rows[0].seq }];
        on.settle(Settle { unpark, ..settlement(&leader) }).await;
        assert_eq!(on.parked().await, rows[1..]);
    }
}

/// A row that is gone is not marked as failed, nor brought back.
pub async fn a_row_that_is_gone_stays_gone(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let rows = on.park_lane(&leader, "a", 1).await;
    let seq = rows[0].seq;
    on.unpark(&leader, Unpark::Sent { seq }).await;
    let late = vec![Unpark::Failed { seq, attempts: 9, why: "late".into() }];
    on.settle(Settle { unpark: late, ..settlement(&leader) }).await;
    assert_eq!((on.parked().await, on.due().await), (vec![], vec![]));
}

/// Rows are parked and unparked in one settlement, with the cursor.
pub async fn one_settlement_parks_and_unparks(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let rows = on.park_lane(&leader, "a", 2).await;
    on.commit(&[event("a", "joins")]).await;
    let rest = on.some(&leader).await;
    on.stored(Settle {
        upto: Some((rest.pass, rest.upto)),
        ends: true,
        park: vec![behind(&rest.placed[0])],
        unpark: rows.iter().map(|row| Unpark::Sent { seq: row.seq }).collect(),
        ..settlement(&leader)
    })
    .await;
    assert!(on.rest(&leader).await.is_none());
    assert_eq!(parked_ids(&on.parked().await), ids(&rest.placed));
    assert_eq!(parked_ids(&on.due().await), ids(&rest.placed));
}

/// The lanes that have parked rows are listed in their order, page by page, until they have none.
pub async fn parked_lanes_are_listed(on: FreshOutbox) {
    let leader = on.lead("first").await;
    assert_eq!(on.store.parked_lanes(kafka(), None).await.unwrap(), []);
    for id in ["c", "a", "B", "b"] {
        on.park_lane(&leader, id, 2).await;
    }
    let mut lanes = ["a", "b", "c", "B"].map(lane);
    lanes.sort();
    assert_eq!(on.store.parked_lanes(kafka(), None).await.unwrap(), lanes);
    let after = on.store.parked_lanes(kafka(), Some(lanes[1].clone())).await.unwrap();
    assert_eq!(after, lanes[2..]);
    assert_eq!(on.store.parked_lanes(destination("webhooks"), None).await.unwrap(), []);
    for row in on.parked().await {
        on.unpark(&leader, Unpark::Sent { seq: row.seq }).await;
    }
    assert_eq!(on.store.parked_lanes(kafka(), None).await.unwrap(), []);
}
