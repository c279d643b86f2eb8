//! Leadership: one relay sends to a destination, for as long as its lease and epoch hold.

use semel::outbox::{Led, Settled, Start};

use super::{FreshOutbox, verbs::*};

/// One leads a destination; others are told who does, and for how long.
pub async fn one_leads_a_destination(on: FreshOutbox) {
    let leader = on.lead("first").await;
    assert_eq!(leader.destination, kafka());
    match on.store.lead(lead(&kafka(), "second")).await.unwrap() {
        Led::Follower { owner, ends_in } => {
            assert_eq!(&*owner, "first");
            assert!(!ends_in.is_zero() && ends_in <= LEASE, "{ends_in:?}");
        }
        Led::Leader(leader) => panic!("a second leads: {leader:?}"),
    }
}

/// The same name asked twice is two relays: only one of them leads.
pub async fn one_name_does_not_lead_twice(on: FreshOutbox) {
    on.lead("same").await;
    assert_eq!(&*follows(&*on.store, lead(&kafka(), "same")).await, "same");
}

/// Each destination has a leader of its own.
pub async fn destinations_are_led_apart(on: FreshOutbox) {
    let first = on.lead("first").await;
    let second = on.lead_to(&destination("webhooks"), "second").await;
    assert_eq!(on.store.renew(first, LEASE).await.unwrap(), Settled::Stored);
    assert_eq!(on.store.renew(second, LEASE).await.unwrap(), Settled::Stored);
}

/// A leader is not taken over before its lease is over.
pub async fn a_live_leader_is_not_taken_over(on: FreshOutbox) {
    on.lead("first").await;
    on.after(LEASE - INSTANT).await;
    follows(&*on.store, lead(&kafka(), "second")).await;
}

/// M32, M88: a leader whose lease is over is taken over, under a larger epoch.
pub async fn a_lapsed_leader_is_taken_over_with_a_larger_epoch(on: FreshOutbox) {
    let mut leader = on.lead("first").await;
    for _ in 0..3 {
        leader = on.overtaken(&leader).await;
    }
}

/// A renewal gives a lease from now on.
pub async fn a_renewed_leadership_outlives_its_first_end(on: FreshOutbox) {
    let leader = on.lead("first").await;
    on.after(LEASE / 2).await;
    assert_eq!(on.store.renew(leader.clone(), LEASE).await.unwrap(), Settled::Stored);
    on.after(LEASE - INSTANT).await;
    follows(&*on.store, lead(&kafka(), "second")).await;
    on.after(INSTANT * 2).await;
    assert!(on.lead("second").await.epoch > leader.epoch);
}

/// A leadership whose lease is over can be renewed for as long as nobody took it over.
pub async fn a_lapsed_leadership_can_be_renewed(on: FreshOutbox) {
    let leader = on.lead("first").await;
    on.after(LEASE * 2).await;
    assert_eq!(on.store.renew(leader, LEASE).await.unwrap(), Settled::Stored);
    follows(&*on.store, lead(&kafka(), "second")).await;
}

/// M23: whoever was overtaken does not renew, and takes nothing from the new leader.
pub async fn an_overtaken_leader_does_not_renew(on: FreshOutbox) {
    let old = on.lead("first").await;
    let new = on.overtaken(&old).await;
    assert_eq!(on.store.renew(old, LEASE * 10).await.unwrap(), Settled::Stale);
    on.after(LEASE + INSTANT).await;
    assert!(on.lead("third").await.epoch > new.epoch, "a stale renewal lengthened a lease");
}

/// A leadership that was given up is free at once, under a larger epoch.
pub async fn a_resigned_leadership_is_free_at_once(on: FreshOutbox) {
    let leader = on.lead("first").await;
    assert_eq!(on.store.resign(leader.clone()).await.unwrap(), Settled::Stored);
    assert!(on.lead("second").await.epoch > leader.epoch);
    assert_eq!(on.store.renew(leader, LEASE).await.unwrap(), Settled::Stale);
}

/// M29: whoever was overtaken gives up nothing of the new leader's.
pub async fn an_overtaken_leader_does_not_resign(on: FreshOutbox) {
    let old = on.lead("first").await;
    let new = on.overtaken(&old).await;
    assert_eq!(on.store.resign(old).await.unwrap(), Settled::Stale);
    follows(&*on.store, lead(&kafka(), "third")).await;
    assert_eq!(on.store.renew(new, LEASE).await.unwrap(), Settled::Stored);
}

/// A new leader goes on where the one before has settled.
pub async fn a_new_leader_goes_on_where_the_old_one_was(on: FreshOutbox) {
    let leader = on.lead("first").await;
    on.commit(&events(3)).await;
    on.drain(&leader).await;
    let next = events(2);
    on.commit(&next).await;
    let new = on.overtaken(&leader).await;
    assert_eq!(ids(&on.drain(&new).await), ids_of(&next));
}

/// A destination that is new begins with all that is kept, or with what is committed from now on.
pub async fn a_new_destination_begins_where_it_says(on: FreshOutbox) {
    let before = events(3);
    on.commit(&before).await;
    let from_now = on
        .store
        .lead(semel::outbox::Lead { start: Start::Now, ..lead(&destination("from-now"), "first") });
    let Led::Leader(from_now) = from_now.await.unwrap() else { panic!("nobody else leads") };
    let earliest = on.lead_to(&destination("earliest"), "first").await;
    let after = events(2);
    on.commit(&after).await;
    assert_eq!(ids(&on.drain(&from_now).await), ids_of(&after));
    assert_eq!(ids(&on.drain(&earliest).await), ids_of(before.iter().chain(&after)));
}

/// Where a destination begins is asked only once: a later leader does not leave anything out.
pub async fn where_it_begins_is_asked_once(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let told = events(2);
    on.commit(&told).await;
    on.store.resign(leader).await.unwrap();
    let again = semel::outbox::Lead { start: Start::Now, ..lead(&kafka(), "second") };
    let leader = led(&*on.store, again).await;
    assert_eq!(ids(&on.drain(&leader).await), ids_of(&told));
}

/// M35: a take-over writes no more when much waits than when little does.
pub async fn a_take_over_writes_little_however_much_waits(on: FreshOutbox) {
    let mut leader = on.lead("first").await;
    let mut written = Vec::new();
    for waiting in [1, 500] {
        on.commit(&events(waiting)).await;
        assert!(window(&*on.store, &leader).await.pass.is_some());
        on.after(LEASE + INSTANT).await;
        let Some(before) = on.writes().await else { return };
        leader = on.lead("another").await;
        written.push(on.writes().await.unwrap_or_default() - before);
    }
    assert_eq!(written[0], written[1]);
}
