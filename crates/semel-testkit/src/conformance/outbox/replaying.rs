//! Replaying: events that a destination had, once more and in order.

use semel::outbox::{
    EventId, Leader, OutboxAuditKind, ParkedState, Settle,
    store::{EventFilter, LeftOut, Replayed, Unpark},
};

use super::{FreshOutbox, verbs::*};

async fn replay(on: &FreshOutbox, filter: EventFilter) -> u64 {
    replay_all(on, filter, LeftOut::Stays).await.parked
}

async fn replay_all(on: &FreshOutbox, filter: EventFilter, left_out: LeftOut) -> Replayed {
    on.inspect.replay(kafka(), filter, left_out, actor()).await.expect("events are replayed")
}

/// Leaves the head of a parked lane out by an operator's word.
async fn leave_out(on: &FreshOutbox, leader: &Leader, id: &str, word: ParkedState) -> Vec<EventId> {
    let rows = on.park_lane(leader, id, 3).await;
    assert_eq!(on.mark(&[rows[0].seq], word).await, 1);
    on.unpark(leader, Unpark::LeftOut { seq: rows[0].seq }).await;
    parked_ids(&rows)
}

/// Settles whatever is parked as sent.
async fn send_parked(on: &FreshOutbox, leader: &Leader) {
    for row in on.parked().await {
        on.unpark(leader, Unpark::Sent { seq: row.seq }).await;
    }
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

/// What an operator had left out, alone or with all behind it, stays left out, and is counted.
pub async fn a_replay_leaves_out_what_was_left_out(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let skipped = leave_out(&on, &leader, "a", ParkedState::Skip).await;
    leave_out(&on, &leader, "b", ParkedState::Drop).await;
    let had = [event("b", "had")];
    on.commit(&had).await;
    send_parked(&on, &leader).await;
    on.drain(&leader).await;
    for parked in [3, 0] {
        let replayed = replay_all(&on, all(), LeftOut::Stays).await;
        assert_eq!((replayed.parked, replayed.left_out), (parked, 4));
        assert_eq!(parked_ids(&on.parked().await), [&skipped[1..], &[had[0].id][..]].concat());
    }
}

/// What was left out is sent after all if that is asked for, in the order of its lane; from then on the
/// destination has it as it has the rest.
pub async fn what_was_left_out_is_replayed_if_that_is_asked_for(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let other = on.lead_to(&destination("webhooks"), "first").await;
    let mut told = leave_out(&on, &leader, "a", ParkedState::Skip).await;
    send_parked(&on, &leader).await;
    told.extend(leave_out(&on, &leader, "b", ParkedState::Drop).await);
    on.drain(&other).await;
    for left_out in [LeftOut::Goes, LeftOut::Stays] {
        let replayed = replay_all(&on, all(), left_out).await;
        assert_eq!((replayed.parked, replayed.left_out), (6, 0), "{left_out:?}");
        assert_eq!(parked_ids(&on.parked().await), told);
        send_parked(&on, &leader).await;
    }
    // Left out here is not left out there.
    let there = on.inspect.replay(destination("webhooks"), all(), LeftOut::Stays, actor()).await;
    assert_eq!(there.expect("events are replayed").parked, 6);
}

/// A destination that is forgotten and begins anew has nothing left out.
pub async fn what_was_left_out_is_forgotten_with_its_destination(on: FreshOutbox) {
    let leader = on.lead("first").await;
    leave_out(&on, &leader, "a", ParkedState::Drop).await;
    on.store.resign(leader).await.expect("a leadership is given up");
    assert!(on.inspect.forget(kafka(), actor()).await.expect("a destination is forgotten"));
    let leader = on.lead("first").await;
    assert_eq!(on.drain(&leader).await.len(), 3);
    let replayed = replay_all(&on, all(), LeftOut::Stays).await;
    assert_eq!((replayed.parked, replayed.left_out), (3, 0));
}

/// A replay of more than one call takes goes on where it ended, and counts each event once.
pub async fn a_replay_goes_on_where_it_ended(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let told = events(3);
    on.commit(&told).await;
    on.drain(&leader).await;
    leave_out(&on, &leader, "c", ParkedState::Drop).await;
    let (mut parked, mut left_out, mut after) = (0, 0, None);
    for _ in 0..10 {
        let filter = EventFilter { limit: 2, after, ..all() };
        let replayed = replay_all(&on, filter, LeftOut::Stays).await;
        (parked, left_out) = (parked + replayed.parked, left_out + replayed.left_out);
        after = replayed.rest;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((parked, left_out, after), (3, 3, None));
    assert_eq!(parked_ids(&on.parked().await), ids_of(&told));
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
