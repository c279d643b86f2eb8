//! Replaying: events that a destination had, once more and in order.

use semel::outbox::{
    OutboxAuditKind, ParkedState, Settle,
    store::{EventFilter, Unpark},
};

use super::{FreshOutbox, verbs::*};

async fn replay(on: &FreshOutbox, filter: EventFilter) -> u64 {
    on.inspect.replay(kafka(), filter, actor()).await.expect("events are replayed")
}

/// What is replayed waits as parked rows, and each lane goes in its order.
pub async fn what_was_had_is_sent_again_in_order(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let told = events(6);
    on.commit(&told).await;
    let had = on.drain(&leader).await;
    assert_eq!(replay(&on, EventFilter { lane: Some(lane("a")), ..all() }).await, 3);
    let rows = on.parked().await;
    let wanted: Vec<_> = had.into_iter().step_by(2).collect();
    assert_eq!(rows.iter().map(|row| row.placed.clone()).collect::<Vec<_>>(), wanted);
    for (at, row) in rows.iter().enumerate() {
        assert_eq!(row.state, ParkedState::Behind);
        assert_eq!(on.due_rows().await, rows[at..]);
        on.unpark(&leader, Unpark::Sent { seq: row.seq }).await;
    }
    assert_eq!(on.parked().await, []);
    assert!(on.rest(&leader).await.is_none());
}

/// What is filtered by time is replayed by time: at or after, and before.
pub async fn a_range_of_time_is_replayed(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let told = events(3);
    for event in &told {
        on.commit(std::slice::from_ref(event)).await;
        on.after(LEASE / 10).await;
    }
    let had = on.drain(&leader).await;
    let filter = EventFilter { from: Some(had[1].at), until: Some(had[2].at), ..all() };
    assert_eq!(replay(&on, filter).await, 1);
    assert_eq!(parked_ids(&on.parked().await), [told[1].id]);
}

/// A replay that is asked for again while it waits sends nothing twice.
pub async fn a_replay_repeated_parks_nothing_twice(on: FreshOutbox) {
    let leader = on.lead("first").await;
    on.commit(&events(4)).await;
    on.drain(&leader).await;
    assert_eq!(replay(&on, all()).await, 4);
    let rows = on.parked().await;
    assert_eq!(replay(&on, all()).await, 0);
    assert_eq!(on.parked().await, rows);
}

/// What the destination does not have yet is not sent before its turn.
pub async fn a_replay_leaves_what_still_waits(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let told = events(5);
    on.commit(&told).await;
    let rest = on.some(&leader).await;
    let upto = Some((rest.pass, rest.placed[1].pos));
    on.stored(Settle { upto, ..settlement(&leader) }).await;
    let since = events(2);
    on.commit(&since).await;
    assert_eq!(replay(&on, all()).await, 2);
    assert_eq!(parked_ids(&on.parked().await), ids_of(&told[..2]));
    assert_again(on.open_at_once, &on.some(&leader).await, &rest.placed[2..], &since);
}

/// What is replayed behind a parked lane waits behind it.
pub async fn a_replay_waits_behind_what_is_parked(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let told = [event("a", "had")];
    on.commit(&told).await;
    on.drain(&leader).await;
    let parked = on.park_lane(&leader, "a", 1).await;
    assert_eq!(replay(&on, EventFilter { id: Some(told[0].id), ..all() }).await, 1);
    assert_eq!(on.due().await, []);
    let order = [parked[0].placed.event.id, told[0].id];
    assert_eq!(parked_ids(&on.parked().await), order);
}

/// One destination's replay is nothing to the others.
pub async fn a_replay_goes_to_one_destination(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let other = on.lead_to(&destination("webhooks"), "first").await;
    on.commit(&events(2)).await;
    on.drain(&leader).await;
    on.drain(&other).await;
    replay(&on, all()).await;
    assert_eq!(on.store.due(destination("webhooks"), 10, BYTES).await.unwrap(), []);
    assert!(on.rest(&other).await.is_none());
    assert_eq!(on.parked().await.len(), 2);
}

/// A replay is audited once, with how much it parked.
pub async fn a_replay_is_audited(on: FreshOutbox) {
    let leader = on.lead("first").await;
    on.commit(&events(4)).await;
    on.drain(&leader).await;
    replay(&on, all()).await;
    let audit = on.inspect.outbox_audit(Some(kafka()), 10).await.unwrap();
    assert_eq!(audit.len(), 1);
    let said = (audit[0].kind, audit[0].rows, audit[0].event, &*audit[0].actor);
    assert_eq!(said, (OutboxAuditKind::Replay, 4, None, "ada"));
}
