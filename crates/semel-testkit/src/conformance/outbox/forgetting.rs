//! Forgetting a destination that nobody leads any more.

use semel::{
    StoreErrorKind,
    outbox::{OutboxAuditKind, Settle, Settled},
};

use super::{FreshOutbox, verbs::*};

async fn forget(on: &FreshOutbox) -> bool {
    on.inspect.forget(kafka(), actor()).await.expect("a destination is forgotten")
}

/// A destination that is led is not forgotten.
pub async fn what_is_led_is_not_forgotten(on: FreshOutbox) {
    let leader = on.lead("first").await;
    on.park_lane(&leader, "a", 1).await;
    let refused = on.inspect.forget(kafka(), actor()).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Invalid);
    assert_eq!(on.parked().await.len(), 1);
    assert_eq!(on.store.renew(leader, LEASE).await.unwrap(), Settled::Stored);
}

/// A destination goes with its cursor and its parked rows, and only once.
pub async fn a_destination_is_forgotten_whole(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let other = on.lead_to(&destination("webhooks"), "first").await;
    on.park_lane(&leader, "a", 2).await;
    on.store.resign(leader).await.unwrap();
    assert!(forget(&on).await);
    assert!(!forget(&on).await);
    assert_eq!(on.parked().await, []);
    assert_eq!(on.state_of(&kafka()).await, None);
    assert_eq!(on.drain(&other).await.len(), 2);
}

/// One whose leader's lease is over can be forgotten too.
pub async fn a_lapsed_destination_can_be_forgotten(on: FreshOutbox) {
    on.lead("first").await;
    on.after(LEASE + INSTANT).await;
    assert!(forget(&on).await);
}

/// A destination that is led anew begins anew.
pub async fn a_forgotten_destination_begins_anew(on: FreshOutbox) {
    let leader = on.lead("first").await;
    let told = events(3);
    on.commit(&told).await;
    on.drain(&leader).await;
    on.store.resign(leader).await.unwrap();
    forget(&on).await;
    let leader = on.lead("first").await;
    assert_eq!(ids(&on.drain(&leader).await), ids_of(&told));
}

/// A leader of before changes nothing of a destination that was forgotten and is led anew.
pub async fn a_leader_of_before_settles_nothing(on: FreshOutbox) {
    let old = on.lead("first").await;
    on.commit(&events(3)).await;
    let rest = on.some(&old).await;
    on.after(LEASE + INSTANT).await;
    forget(&on).await;
    let late = Settle { upto: Some((rest.pass, rest.upto)), ends: true, ..settlement(&old) };
    assert_eq!(on.settle(late.clone()).await, Settled::Stale);
    assert_eq!(on.store.renew(old.clone(), LEASE).await.unwrap(), Settled::Stale);
    let new = on.lead("second").await;
    assert!(new.epoch > old.epoch, "an epoch came back: {new:?} after {old:?}");
    on.some(&new).await;
    assert_eq!(on.settle(late).await, Settled::Stale);
    assert_eq!(on.some(&new).await.placed.len(), 3);
}

/// That a destination was forgotten stays in the audit, with how many rows went.
pub async fn forgetting_is_audited(on: FreshOutbox) {
    let leader = on.lead("first").await;
    on.park_lane(&leader, "a", 2).await;
    on.store.resign(leader).await.unwrap();
    forget(&on).await;
    forget(&on).await;
    let audit = on.inspect.outbox_audit(Some(kafka()), 10).await.unwrap();
    assert_eq!(audit.len(), 1, "{audit:?}");
    let said = (audit[0].kind, audit[0].rows, audit[0].event, &*audit[0].actor);
    assert_eq!(said, (OutboxAuditKind::Forget, 2, None, "ada"));
}
