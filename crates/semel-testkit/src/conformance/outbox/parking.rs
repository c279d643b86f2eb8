//! Parking: lanes that wait beside the cursor, in order.

use semel::outbox::{
    ParkedState, Settle,
    store::{Due, ParkedFilter, Unpark},
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

/// When a head was sent, what stood behind it is due, and of no other lane anything.
pub async fn the_next_is_due_when_its_head_was_sent(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let rows = on.park_lane(&leader, "a", 3).await;
    on.park_lane(&leader, "b", 2).await;
    for (at, row) in rows.iter().enumerate() {
        on.unpark(&leader, Unpark::Sent { seq: row.seq }).await;
        let rest = rows[at + 1..].to_vec();
        let due = (!rest.is_empty()).then_some(Due { rows: rest, whole: true });
        assert_eq!(on.due().await, due.into_iter().collect::<Vec<_>>());
    }
    assert_eq!(on.parked().await.len(), 2);
}

/// Of each lane what waits behind its head is due with it, in order; the lane with the oldest head
/// comes first.
pub async fn a_lane_is_due_with_what_is_behind_its_head(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let mut due = Vec::new();
    for (id, n) in [("c", 3), ("a", 1), ("b", 2)] {
        let rows = on.park_behind(&leader, id, n).await;
        due.push(Due { rows, whole: true });
    }
    let joined = on.park_behind(&leader, "a", 2).await;
    due[1].rows.extend(joined);
    assert_eq!(on.due().await, due);
    assert_eq!(on.store.due(destination("webhooks"), 9, BYTES).await.unwrap(), []);
}

/// What waits behind a row that waits for a word is not due before that is done, whether the row is
/// the head, is to be left out, or stands behind others that can go.
pub async fn a_run_ends_before_what_waits_for_a_word(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let events: Vec<_> = (0..5).map(|at| event("a", &format!("{at}"))).collect();
    let third = |at, placed: &_| if at == 2 { failed(placed) } else { behind(placed) };
    let rows = on.park(&leader, &events, third).await;
    let due = |rows: &[_], whole| vec![Due { rows: rows.to_vec(), whole }];
    assert_eq!(on.due().await, due(&rows[..2], false));
    on.unpark(&leader, Unpark::Sent { seq: rows[0].seq }).await;
    assert_eq!(on.due().await, due(&rows[1..2], false));
    on.unpark(&leader, Unpark::Sent { seq: rows[1].seq }).await;
    assert_eq!(on.due().await, []);
    for state in [ParkedState::Skip, ParkedState::Drop] {
        on.mark(&[rows[2].seq], state).await;
        let [head] = &on.due().await[..] else { panic!("one lane is due") };
        assert_eq!((head.rows.len(), head.rows[0].state, head.whole), (1, state, false));
    }
    on.mark(&[rows[2].seq], ParkedState::Retry).await;
    let again = on.due().await;
    assert_eq!(again[0].rows[0].state, ParkedState::Retry);
    assert_eq!((&again[0].rows[1..], again[0].whole), (&rows[3..], true));
}

/// What is due is bounded in rows, of which each lane has an equal share, the oldest heads first; and in
/// bytes, though there is always a row.
pub async fn what_is_due_is_bounded(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let mut lanes = Vec::new();
    for id in ["c", "a", "b"] {
        lanes.push(on.park_behind(&leader, id, 3).await);
    }
    for (limit, of_each) in
        [(1, &[1][..]), (2, &[1, 1]), (3, &[1; 3]), (6, &[2; 3]), (8, &[2; 3]), (9, &[3; 3])]
    {
        let due = on.store.due(kafka(), limit, BYTES).await.unwrap();
        let wanted = lanes.iter().zip(of_each);
        let wanted = wanted.map(|(rows, n)| Due { rows: rows[..*n].to_vec(), whole: *n == 3 });
        assert_eq!(due, wanted.collect::<Vec<_>>(), "{limit} rows");
    }
    let least = on.store.due(kafka(), 9, 1).await.unwrap();
    assert_eq!(least, [Due { rows: lanes[0][..1].to_vec(), whole: false }]);
}

/// Of a long lane so many rows are due as there may be, and then the next.
pub async fn a_long_lane_is_due_in_runs(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let rows = on.park_behind(&leader, "a", Due::ROWS_MAX + 2).await;
    let due = on.due().await;
    assert_eq!(due, [Due { rows: rows[..Due::ROWS_MAX].to_vec(), whole: false }]);
    let sent = due[0].rows.iter().map(|row| Unpark::Sent { seq: row.seq }).collect();
    on.stored(Settle { unpark: sent, ..settlement(&leader) }).await;
    assert_eq!(on.due().await, [Due { rows: rows[Due::ROWS_MAX..].to_vec(), whole: true }]);
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
    assert_eq!(on.due_rows().await[0].state, ParkedState::Skip);
    on.unpark(&leader, Unpark::LeftOut { seq: rows[0].seq }).await;
    assert_eq!(on.parked().await, rows[1..]);
    assert_eq!(on.due_rows().await, rows[1..]);
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
    assert_eq!(on.due_rows().await[0].state, ParkedState::Drop);
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
    assert_eq!(parked_ids(&on.due_rows().await), ids(&rest.placed));
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
