//! Fencing: every write after a claim compares token, fence and state, and nothing else.

use semel::{
    Permit, State,
    decide::FinishKind,
    store::{
        Completed, ReleaseAnswer, Renew, Renewed,
        capability::{AuditKind, SweepBudget},
    },
};

use super::{Fresh, verbs::*};

/// Shows that a permit can no longer write, whatever it tries.
async fn is_stale(on: &Fresh, permit: &Permit) {
    let record = on.record(&permit.id).await;
    assert_eq!(on.renew(permit).await, Renewed::Stale);
    for kind in [FinishKind::Done, FinishKind::Failed] {
        let answer = on.complete(permit, finish(kind, Some(created()))).await;
        assert_eq!(answer, Completed::Stale, "{kind:?}");
    }
    assert_eq!(on.complete(permit, finish(FinishKind::Unknown, None)).await, Completed::Stale);
    assert_eq!(on.release(&permit.id, clean(permit)).await, ReleaseAnswer::NotHeld);
    assert_eq!(on.record(&permit.id).await, record);
}

/// A foreign token writes nothing.
pub async fn a_foreign_token_changes_nothing(on: Fresh) {
    let permit = on.hold(&id("k")).await;
    is_stale(&on, &foreign(&permit)).await;
}

/// The right token with a foreign fence writes nothing.
pub async fn a_foreign_fence_changes_nothing(on: Fresh) {
    let permit = on.hold(&id("k")).await;
    is_stale(&on, &fenced(&permit, 1)).await;
    assert_eq!(on.complete(&permit, done(created())).await, Completed::Stored);
}

/// A permit of one intent does nothing to another.
pub async fn a_permit_of_another_intent_changes_nothing(on: Fresh) {
    let permit = on.hold(&id("k1")).await;
    on.hold(&id("k2")).await;
    is_stale(&on, &Permit { id: id("k2"), ..permit.clone() }).await;
    is_stale(&on, &Permit { id: named("umbrella", "payments.create", "k1"), ..permit }).await;
}

/// A permit for an intent that nobody claimed does nothing.
pub async fn a_permit_of_nothing_changes_nothing(on: Fresh) {
    let permit = on.hold(&id("k")).await;
    is_stale(&on, &Permit { id: id("absent"), ..permit }).await;
    assert_eq!(on.record(&id("absent")).await, None);
}

/// A foreign permit cannot settle what is unknown.
pub async fn a_foreign_permit_does_not_settle_what_is_unknown(on: Fresh) {
    let permit = on.lost(&id("k")).await;
    is_stale(&on, &foreign(&permit)).await;
    is_stale(&on, &fenced(&permit, 1)).await;
}

/// M28: after a release the permit has ended, in every verb; a repeat of the release is recognised.
pub async fn a_released_permit_has_ended(on: Fresh) {
    let id = id("k");
    let permit = on.hold(&id).await;
    assert_eq!(on.release(&id, clean(&permit)).await, ReleaseAnswer::Stored);
    let record = on.kept(&id).await;
    assert_eq!(on.renew(&permit).await, Renewed::Stale);
    assert_eq!(on.complete(&permit, done(created())).await, Completed::Stale);
    assert_eq!(on.release(&id, clean(&permit)).await, ReleaseAnswer::Already);
    assert_eq!(on.kept(&id).await, record);
}

/// After a completion the permit neither renews nor releases.
pub async fn a_completed_permit_neither_renews_nor_releases(on: Fresh) {
    let id = id("k");
    let permit = on.finished(&id).await;
    let record = on.kept(&id).await;
    assert_eq!(on.renew(&permit).await, Renewed::Stale);
    assert_eq!(on.release(&id, clean(&permit)).await, ReleaseAnswer::NotHeld);
    assert_eq!(on.kept(&id).await, record);
}

/// What is unknown is not renewed: the state decides, not the lease.
pub async fn an_unknown_intent_is_not_renewed(on: Fresh) {
    let id = id("k");
    let permit = on.lost(&id).await;
    assert_eq!(on.renew(&permit).await, Renewed::Stale);
    assert_eq!(on.kept(&id).await.state, State::Unknown);
}

/// S28, M23: the overtaken holder's renewal fails, and does not lengthen the new holder's lease.
pub async fn an_overtaken_holder_does_not_renew(on: Fresh) {
    let id = id("k");
    let (old, new) = on.taken_over(&id).await;
    let lease = on.kept(&id).await.lease;
    on.after(LEASE / 2).await;
    assert_eq!(on.renew(&old).await, Renewed::Stale);
    assert_eq!(on.kept(&id).await.lease, lease);
    assert_eq!(on.renew(&new).await, Renewed::Held);
}

/// M28: the overtaken holder's completion is refused and kept as a conflict, and the run of the new holder is
/// what it was; the new one's is stored.
pub async fn an_overtaken_completion_is_a_conflict(on: Fresh) {
    let id = id("k");
    let (old, new) = on.taken_over(&id).await;
    let run = on.kept(&id).await;
    assert_eq!(on.complete(&old, done(semel::Outcome::new(500, "old"))).await, Completed::Stale);
    assert_eq!(on.kept(&id).await, run);
    let conflicts = on.audit(&id).await;
    assert_eq!(conflicts.len(), 1);
    assert_eq!(conflicts[0].kind, AuditKind::Conflict);
    assert_eq!(on.complete(&new, done(created())).await, Completed::Stored);
    assert_eq!(replayed(on.claim(rerun(&id)).await), created());
}

/// M29: the overtaken holder's release leaves the new holder alone.
pub async fn an_overtaken_release_leaves_the_new_holder(on: Fresh) {
    let id = id("k");
    let (old, new) = on.taken_over(&id).await;
    assert_eq!(on.release(&id, clean(&old)).await, ReleaseAnswer::NotHeld);
    let by_token = semel::decide::ReleaseAsk { fence: None, ..clean(&old) };
    assert_eq!(on.release(&id, by_token).await, ReleaseAnswer::NotHeld);
    assert_eq!(on.kept(&id).await.permit(), new);
    in_progress(on.claim(rerun(&id)).await);
}

/// A batch of renewals is answered item by item, in the order asked.
pub async fn every_renewal_of_a_batch_is_decided_by_itself(on: Fresh) {
    let (one, two) = (on.hold(&id("k1")).await, on.finished(&id("k2")).await);
    let stranger = foreign(&one);
    on.after(LEASE / 2).await;
    let batch = [&stranger, &one, &two].map(|permit| Renew::of(permit, LEASE)).to_vec();
    let answers = on.store.renew(batch).await.unwrap();
    assert_eq!(answers, [Renewed::Stale, Renewed::Held, Renewed::Stale]);
    assert!(!on.kept(&one.id).await.lapsed(on.now().await.after(LEASE * 3 / 4)));
}

/// The fence grows with every claim of a key: after a release, after a take-over, and after the
/// record was forgotten altogether.
pub async fn fences_grow_from_claim_to_claim(on: Fresh) {
    let id = id("k");
    let first = on.take(rerun(&id)).await;
    on.release(&id, clean(&first)).await;
    let second = on.take(rerun(&id)).await;
    on.after(LEASE + INSTANT).await;
    let third = on.take(rerun(&id)).await;
    on.complete(&third, done(created())).await;
    on.after(REMEMBER).await;
    let fourth = on.take(rerun(&id)).await;
    let fences = [first.fence, second.fence, third.fence, fourth.fence];
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

/// The fence grows past what the sweep has deleted, even when the store's time does not help.
pub async fn fences_grow_past_the_sweep(on: Fresh) {
    let Some(sweep) = on.sweep.clone() else { return };
    let id = id("k");
    let mut last = on.hold(&id).await;
    // Claims without a pause between them push the fence ahead of the time.
    for _ in 0..100 {
        on.release(&id, clean(&last)).await;
        let next = on.hold(&id).await;
        assert!(next.fence > last.fence);
        last = next;
    }
    on.complete(&last, finish_at_once()).await;
    on.after(INSTANT).await;
    while sweep.sweep(SweepBudget::default()).await.unwrap().more {}
    assert_eq!(on.record(&id).await, None);
    assert!(on.hold(&id).await.fence > last.fence);
}

fn finish_at_once() -> semel::decide::Finish {
    let none = std::time::Duration::ZERO;
    semel::decide::Finish { replay_for: none, remember_for: none, ..done(created()) }
}
