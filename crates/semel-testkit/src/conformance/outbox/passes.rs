//! Passes: a set of committed events that is recorded before anything of it is read.

use semel::outbox::{Settle, Settled};

use super::{FreshOutbox, verbs::*};

/// While nothing was committed there is nothing to read.
pub async fn nothing_committed_is_nothing_to_read(on: FreshOutbox) {
    let leader = on.lead("first").await;
    assert!(on.rest(&leader).await.is_none());
    let told = events(1);
    on.commit(&told).await;
    assert_eq!(ids(&on.drain(&leader).await), ids_of(&told));
    assert!(on.rest(&leader).await.is_none());
}

/// A pass that is read again holds the same, whatever was committed since.
pub async fn a_pass_read_again_holds_the_same(on: FreshOutbox) {
    let leader = on.lead("first").await;
    on.commit(&events(4)).await;
    let first = on.some(&leader).await;
    let since = events(3);
    on.commit(&since).await;
    let again = on.some(&leader).await;
    assert_eq!(again.pass, first.pass);
    assert_again(on.open_at_once, &again, &first.placed, &since);
}

/// What is committed while a pass is open comes in a later one.
pub async fn what_is_committed_meanwhile_comes_in_a_later_pass(on: FreshOutbox) {
    let leader = on.lead("first").await;
    on.commit(&events(2)).await;
    let first = on.some(&leader).await;
    let later = events(2);
    on.commit(&later).await;
    on.end(&leader, &first).await;
    let second = on.some(&leader).await;
    assert_eq!(ids(&second.placed), ids_of(&later));
}

/// A new leader reads the pass that the old one had, and nothing else.
pub async fn a_pass_outlives_its_leader(on: FreshOutbox) {
    let old = on.lead("first").await;
    on.commit(&events(3)).await;
    let first = on.some(&old).await;
    let since = events(2);
    on.commit(&since).await;
    let new = on.overtaken(&old).await;
    let again = on.some(&new).await;
    assert_eq!(again.pass, first.pass);
    assert_again(on.open_at_once, &again, &first.placed, &since);
}

/// A pass is the same after the outbox was closed and opened, half settled as it was.
pub async fn a_pass_outlives_the_process(on: FreshOutbox) {
    let leader = on.lead("first").await;
    on.commit(&events(4)).await;
    let first = on.some(&leader).await;
    let upto = Some((first.pass, first.placed[1].pos));
    on.stored(Settle { upto, ..settlement(&leader) }).await;
    let since = events(2);
    on.commit(&since).await;
    on.after(LEASE + INSTANT).await;
    let fixed = on.open_at_once;
    let Some((store, _guard)) = on.reopened().await else { return };
    let leader = led(&*store, lead(&kafka(), "second")).await;
    let again = rest(&*store, &leader).await.expect("a pass that was open is open");
    assert_eq!(again.pass, first.pass);
    assert_again(fixed, &again, &first.placed[2..], &since);
    end(&*store, &leader, &again).await;
    assert_eq!(again.placed.len() + drain(&*store, &leader).await.len(), 4);
}

/// Whoever opened the outbox once more sees the same leader, the same pass, and takes over in turn.
pub async fn a_second_process_sees_the_same(on: FreshOutbox) {
    let Some(second) = on.second.clone() else { return };
    let second = second().await;
    let leader = on.lead("first").await;
    assert_eq!(&*follows(&*second, lead(&kafka(), "second")).await, "first");
    on.commit(&events(3)).await;
    let first = on.some(&leader).await;
    on.after(LEASE + INSTANT).await;
    let new = led(&*second, lead(&kafka(), "second")).await;
    let again = rest(&*second, &new).await.expect("a pass that was open is open");
    assert_eq!((again.pass, &again.placed), (first.pass, &first.placed));
    let upto = Some((first.pass, first.upto));
    let late = Settle { upto, ends: true, ..settlement(&leader) };
    assert_eq!(on.settle(late).await, Settled::Stale);
    end(&*second, &new, &again).await;
}

/// M05: each destination has a cursor of its own.
pub async fn every_destination_has_its_own_cursor(on: FreshOutbox) {
    let first = on.lead("first").await;
    let second = on.lead_to(&destination("webhooks"), "first").await;
    let told = events(4);
    on.commit(&told).await;
    assert_eq!(ids(&on.drain(&first).await), ids_of(&told));
    let rest = on.some(&second).await;
    assert_eq!(ids(&rest.placed), ids_of(&told));
    let upto = Some((rest.pass, rest.placed[1].pos));
    on.stored(Settle { upto, ..settlement(&second) }).await;
    assert!(on.rest(&first).await.is_none());
    assert_eq!(ids(&on.drain(&second).await), ids_of(&told[2..]));
}

/// Nothing is written while there is nothing to read.
pub async fn nothing_is_written_while_there_is_nothing_to_read(on: FreshOutbox) {
    let leader = on.lead("first").await;
    on.commit(&events(3)).await;
    on.drain(&leader).await;
    let Some(before) = on.writes().await else { return };
    for _ in 0..10 {
        assert_eq!(window(&*on.store, &leader).await.pass, None);
        assert_eq!(on.due().await, []);
        assert_eq!(on.store.parked_lanes(kafka(), None).await.unwrap(), []);
    }
    assert_eq!(on.writes().await, Some(before));
}
