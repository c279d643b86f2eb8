//! Retention: what every destination has is dropped, and nothing else.

use semel::outbox::{
    ParkedState, Settle,
    store::{LeftOut, Replayed, Unpark},
};

use super::{FreshOutbox, verbs::*};

/// What every destination has and is old enough is dropped; what comes after is read as before.
pub async fn what_every_destination_has_is_dropped(on: FreshOutbox) {
    let Some(retain) = on.retain.clone() else { return };
    let first = on.lead("first").await;
    let second = on.lead_to(&destination("webhooks"), "first").await;
    on.commit(&events(5)).await;
    let last = on.drain(&first).await[4].pos;
    on.drain(&second).await;
    on.age().await;
    let (dropped, said) = on.retain(&retain).await;
    assert!(dropped > 0, "{said:?}");
    assert_eq!(on.events().await, []);
    let next = events(3);
    on.commit(&next).await;
    let read = on.drain(&first).await;
    assert_eq!(ids(&read), ids_of(&next));
    assert!(read[0].pos > last, "a place was used twice");
    assert_eq!(ids(&on.drain(&second).await), ids_of(&next));
}

/// What is not old enough is kept, though everybody has it.
pub async fn what_is_young_is_kept(on: FreshOutbox) {
    let Some(retain) = on.retain.clone() else { return };
    let leader = on.lead("first").await;
    on.commit(&events(5)).await;
    on.drain(&leader).await;
    on.after(KEEP / 2).await;
    assert_eq!(on.retain(&retain).await.0, 0);
    assert_eq!(on.events().await.len(), 5);
}

/// What one destination lacks is kept, and it is told which one that is.
pub async fn what_a_destination_lacks_is_kept_and_told(on: FreshOutbox) {
    let Some(retain) = on.retain.clone() else { return };
    let first = on.lead("first").await;
    let second = on.lead_to(&destination("webhooks"), "first").await;
    let told = events(5);
    on.commit(&told).await;
    on.drain(&first).await;
    on.age().await;
    let (_, said) = on.retain(&retain).await;
    let why = said.held_up.expect("what holds events up is told");
    assert!(why.contains("webhooks"), "{why}");
    assert_eq!(ids(&on.drain(&second).await), ids_of(&told));
    assert_eq!(on.retain(&retain).await.1.held_up, None);
    assert_eq!(on.events().await, []);
}

/// What is left of a pass is kept, read or not.
pub async fn what_is_left_of_a_pass_is_kept(on: FreshOutbox) {
    let Some(retain) = on.retain.clone() else { return };
    let leader = on.lead("first").await;
    let told = events(5);
    on.commit(&told).await;
    let rest = on.some(&leader).await;
    let upto = Some((rest.pass, rest.placed[1].pos));
    on.stored(Settle { upto, ..settlement(&leader) }).await;
    on.age().await;
    on.retain(&retain).await;
    assert_eq!(ids(&on.drain(&leader).await), ids_of(&told[2..]));
}

/// A destination that nobody leads any more holds up what it lacks until it is forgotten.
pub async fn a_forgotten_destination_holds_nothing_up(on: FreshOutbox) {
    let Some(retain) = on.retain.clone() else { return };
    let first = on.lead("first").await;
    on.lead_to(&destination("webhooks"), "first").await;
    on.commit(&events(5)).await;
    on.drain(&first).await;
    on.age().await;
    on.retain(&retain).await;
    assert_eq!(on.events().await.len(), 5);
    on.inspect.forget(destination("webhooks"), actor()).await.unwrap();
    assert!(on.retain(&retain).await.0 > 0);
    assert_eq!(on.events().await, []);
}

/// M44: parked rows keep their copies, and go out of them.
pub async fn parked_rows_outlive_their_events(on: FreshOutbox) {
    let Some(retain) = on.retain.clone() else { return };
    let leader = on.lead("first").await;
    let rows = on.park_lane(&leader, "a", 3).await;
    on.age().await;
    on.retain(&retain).await;
    assert_eq!(on.events().await, []);
    assert_eq!(on.parked().await, rows);
    on.mark(&[rows[0].seq], ParkedState::Retry).await;
    assert_eq!(on.due_rows().await[0].placed, rows[0].placed);
    on.unpark(&leader, Unpark::Sent { seq: rows[0].seq }).await;
    assert_eq!(on.due_rows().await, rows[1..]);
}

/// M65: what an open transaction has appended is kept and read when it commits, however old it is
/// by then and whatever was dropped around it; and no step waits for that transaction.
pub async fn what_commits_late_is_kept(on: FreshOutbox) {
    let Some(retain) = on.retain.clone().filter(|_| on.open_at_once) else { return };
    let leader = on.lead("first").await;
    let late = events(2);
    let mut open = on.producer.begin().await;
    open.append(late.clone()).await.unwrap();
    on.commit(&events(5)).await;
    on.drain(&leader).await;
    on.age().await;
    on.retain(&retain).await;
    open.commit().await;
    on.retain(&retain).await;
    assert_eq!(ids(&on.drain(&leader).await), ids_of(&late));
    on.retain(&retain).await;
    assert_eq!(on.events().await, []);
}

/// A replay of what was dropped is a replay of nothing.
pub async fn what_was_dropped_is_not_replayed(on: FreshOutbox) {
    let Some(retain) = on.retain.clone() else { return };
    let leader = on.lead("first").await;
    on.commit(&events(2)).await;
    on.drain(&leader).await;
    on.age().await;
    on.retain(&retain).await;
    let replayed = on.inspect.replay(kafka(), all(), LeftOut::Stays, actor()).await.unwrap();
    assert_eq!(replayed, Replayed::default());
}
