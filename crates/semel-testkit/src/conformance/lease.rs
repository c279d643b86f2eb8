//! The lease: until when a holder may be believed alive, and what follows when it is over.

use std::time::Duration;

use semel::{
    State,
    decide::{Ask, FinishKind, Grant, OnLost, Refusal},
    store::{Completed, ReleaseAnswer, Renew, Renewed},
};

use super::{Fresh, TurnedBack, verbs::*};

/// C31, C34: a live holder is not overtaken, up to the last instant of its lease.
pub async fn a_live_holder_is_not_overtaken(on: Fresh) {
    let id = id("k");
    let permit = on.take(rerun(&id)).await;
    on.after(LEASE - INSTANT).await;
    for on_lost in [OnLost::Hold, OnLost::Reconcile, OnLost::Rerun] {
        in_progress(on.claim(Ask { on_lost, ..ask(&id) }).await);
    }
    assert_eq!(on.kept(&id).await.permit(), permit);
}

/// A renewal moves the end of the lease.
pub async fn a_renewed_lease_outlives_its_first_end(on: Fresh) {
    let id = id("k");
    let permit = on.take(rerun(&id)).await;
    for _ in 0..5 {
        on.after(LEASE * 2 / 3).await;
        assert_eq!(on.renew(&permit).await, Renewed::Held);
        in_progress(on.claim(rerun(&id)).await);
    }
    on.after(LEASE + INSTANT).await;
    granted(on.claim(rerun(&id)).await);
}

/// A renewal repeated changes nothing but the time.
pub async fn a_renewal_can_be_repeated(on: Fresh) {
    let permit = on.hold(&id("k")).await;
    assert_eq!(on.renew(&permit).await, Renewed::Held);
    assert_eq!(on.renew(&permit).await, Renewed::Held);
    assert_eq!(on.kept(&permit.id).await.permit(), permit);
}

/// A lapsed lease alone invalidates nothing: the holder renews, and goes on.
pub async fn a_lapsed_lease_can_be_renewed(on: Fresh) {
    let id = id("k");
    let permit = on.hold(&id).await;
    on.after(LEASE * 3).await;
    assert_eq!(on.renew(&permit).await, Renewed::Held);
    in_progress(on.claim(ask(&id)).await);
}

/// A lapsed lease alone invalidates nothing: the holder completes.
pub async fn a_lapsed_lease_can_be_completed(on: Fresh) {
    let id = id("k");
    let permit = on.hold(&id).await;
    on.after(LEASE * 3).await;
    assert_eq!(on.complete(&permit, done(created())).await, Completed::Stored);
    assert_eq!(replayed(on.claim(ask(&id)).await), created());
}

/// A lapsed lease alone invalidates nothing: the holder releases.
pub async fn a_lapsed_lease_can_be_released(on: Fresh) {
    let id = id("k");
    let permit = on.hold(&id).await;
    on.after(LEASE * 3).await;
    assert_eq!(on.release(&id, clean(&permit)).await, ReleaseAnswer::Stored);
}

/// C32: under hold, the claim that finds a lost holder makes the intent unknown, and nobody runs it.
pub async fn hold_makes_a_lost_holder_unknown(on: Fresh) {
    let id = id("k");
    let permit = on.hold(&id).await;
    let claimed_at = on.kept(&id).await.claimed_at;
    on.after(LEASE + INSTANT).await;
    let told = Refusal::Unknown { claimed_at, claimed_by: Some("request-1".into()) };
    assert_eq!(refused(on.claim(ask(&id)).await), told);
    let record = on.kept(&id).await;
    assert_eq!((record.state, record.permit()), (State::Unknown, permit));
    assert_eq!(refused(on.claim(ask(&id)).await), told);
    unknown(on.claim(rerun(&id)).await);
    on.after(REMEMBER * 1_000).await;
    unknown(on.claim(ask(&id)).await);
}

/// C34: under rerun, the next caller is granted a lost holder's intent, with a new token and fence.
pub async fn rerun_takes_over_a_lost_holder(on: Fresh) {
    let id = id("k");
    let (old, new) = on.taken_over(&id).await;
    assert!(new.token != old.token && new.fence > old.fence);
    assert_eq!(new.incarnation, old.incarnation);
    let record = on.kept(&id).await;
    assert_eq!((record.state, record.takeovers), (State::Running, 1));
    assert!(record.created_at < record.claimed_at);
    in_progress(on.claim(rerun(&id)).await);
}

/// Under reconcile, the next caller is granted it with the mark "ask first".
pub async fn reconcile_takes_over_and_asks_first(on: Fresh) {
    let id = id("k");
    let reconcile = || Ask { on_lost: OnLost::Reconcile, ..ask(&id) };
    on.take(reconcile()).await;
    on.after(LEASE + INSTANT).await;
    let (_, grant) = granted(on.claim(reconcile()).await);
    assert_eq!(grant, Some(Grant::TakenOver { ask_first: true }));
}

/// A renewal of no length ends the lease at once.
pub async fn a_renewal_of_nothing_ends_the_lease(on: Fresh) {
    let id = id("k");
    let permit = on.take(rerun(&id)).await;
    let renewal = Renew::of(&permit, Duration::ZERO);
    assert_eq!(on.store.renew(vec![renewal]).await.unwrap(), [Renewed::Held]);
    let (_, grant) = granted(on.claim(rerun(&id)).await);
    assert_eq!(grant, Some(Grant::TakenOver { ask_first: false }));
}

/// The late holder is the only truth there is: its completion ends what was unknown.
pub async fn a_late_completion_ends_what_is_unknown(on: Fresh) {
    let id = id("k");
    let permit = on.lost(&id).await;
    assert_eq!(on.complete(&permit, done(created())).await, Completed::Stored);
    assert_eq!(replayed(on.claim(ask(&id)).await), created());
    assert_eq!(on.audit(&id).await, []);
}

/// The late holder's final failure ends what was unknown.
pub async fn a_late_failure_ends_what_is_unknown(on: Fresh) {
    let id = id("k");
    let permit = on.lost(&id).await;
    let answer = on.complete(&permit, finish(FinishKind::Failed, Some(created()))).await;
    assert_eq!(answer, Completed::Stored);
    assert_eq!(on.kept(&id).await.state, State::Failed);
}

/// The late holder's release opens what was unknown.
pub async fn a_late_release_opens_what_is_unknown(on: Fresh) {
    let id = id("k");
    let permit = on.lost(&id).await;
    assert_eq!(on.release(&id, clean(&permit)).await, ReleaseAnswer::Stored);
    let (_, grant) = granted(on.claim(ask(&id)).await);
    assert_eq!(grant, Some(Grant::Reopened));
}

/// A holder that cannot say whether it acted makes the intent unknown at once; told twice it is
/// recognised, and the truth is still accepted.
pub async fn a_holder_in_doubt_makes_it_unknown(on: Fresh) {
    let id = id("k");
    let permit = on.hold(&id).await;
    let doubt =
        semel::decide::Finish { reason: Some("reset".into()), ..finish(FinishKind::Unknown, None) };
    assert_eq!(on.complete(&permit, doubt.clone()).await, Completed::Stored);
    let record = on.kept(&id).await;
    assert_eq!((record.state, record.reason.as_deref()), (State::Unknown, Some("reset")));
    assert_eq!(on.complete(&permit, doubt).await, Completed::Already(Box::new(record)));
    unknown(on.claim(rerun(&id)).await);
    assert_eq!(on.complete(&permit, done(created())).await, Completed::Stored);
}

/// A clock turned back revives no lease. A store whose time goes on is not moved by it; one whose
/// time goes back rewrites a lease that was renewed in the future at the first claim, so that it
/// lasts one length at most.
pub async fn a_clock_turned_back_lengthens_no_lease(on: Fresh) {
    let id = id("k");
    on.take(rerun(&id)).await;
    let before = on.now().await;
    on.time.turn_back(Duration::from_secs(3_600)).await;
    let after = on.now().await;
    match on.turned_back {
        TurnedBack::GoesOn => assert!(after >= before, "time went back"),
        TurnedBack::Follows => assert!(after < before, "time was declared to go back"),
    }
    in_progress(on.claim(rerun(&id)).await);
    assert!(on.kept(&id).await.lease.renewed_at <= on.now().await);
    on.after(LEASE + INSTANT).await;
    granted(on.claim(rerun(&id)).await);
}
