//! Refusals, and their fixed order: mismatch, unknown, forgotten, in progress, replay.

use semel::{
    Fingerprint, State,
    decide::{Ask, Compare, Grant, OnLost, Refusal},
    fingerprint::PlanId,
};

use super::{Fresh, verbs::*};

fn by_plan(plan: u8, digest: u8) -> Fingerprint {
    Fingerprint::new(PlanId::new([plan; 8]), [digest; 32])
}

/// L26: other content under a used key is a mismatch at once, while the holder still works.
pub async fn other_content_is_a_mismatch_while_running(on: Fresh) {
    let id = id("k");
    on.hold(&id).await;
    assert_eq!(refused(on.claim(other(&id)).await), Refusal::Mismatch);
}

/// Other content does not take over a lost holder, nor make it unknown.
pub async fn other_content_is_a_mismatch_when_the_holder_is_lost(on: Fresh) {
    let id = id("k");
    on.hold(&id).await;
    let record = on.kept(&id).await;
    on.after(LEASE + INSTANT).await;
    for on_lost in [OnLost::Hold, OnLost::Reconcile, OnLost::Rerun] {
        let answer = on.claim(Ask { on_lost, ..other(&id) }).await;
        assert_eq!(refused(answer), Refusal::Mismatch, "{on_lost:?}");
    }
    assert_eq!(on.kept(&id).await, record);
}

/// C59: other content under a finished key is a mismatch, not a replay.
pub async fn mismatch_comes_before_replay(on: Fresh) {
    let id = id("k");
    on.finished(&id).await;
    assert_eq!(refused(on.claim(other(&id)).await), Refusal::Mismatch);
}

/// Mismatch is told before unknown.
pub async fn mismatch_comes_before_unknown(on: Fresh) {
    let id = id("k");
    on.lost(&id).await;
    assert_eq!(refused(on.claim(other(&id)).await), Refusal::Mismatch);
    unknown(on.claim(ask(&id)).await);
}

/// Mismatch is told before forgotten: the tombstone keeps the fingerprint.
pub async fn mismatch_comes_before_forgotten(on: Fresh) {
    let id = id("k");
    on.finished(&id).await;
    on.after(REPLAY).await;
    assert_eq!(refused(on.claim(other(&id)).await), Refusal::Mismatch);
    assert_eq!(refused(on.claim(ask(&id)).await).code(), "forgotten");
}

/// C29: a refused caller changes nothing: the record, the holder and the outcome stay.
pub async fn a_refused_caller_changes_nothing(on: Fresh) {
    let (held, done) = (id("held"), id("done"));
    on.hold(&held).await;
    on.finished(&done).await;
    let before = (on.kept(&held).await, on.kept(&done).await);
    for id in [&held, &done] {
        refused(on.claim(other(id)).await);
    }
    in_progress(on.claim(ask(&held)).await);
    assert_eq!((on.kept(&held).await, on.kept(&done).await), before);
    assert_eq!(replayed(on.claim(ask(&done)).await), created());
}

/// Replay-first replays whatever the content.
pub async fn replay_first_replays_other_content(on: Fresh) {
    let id = id("k");
    on.finished(&id).await;
    let answer = on.claim(Ask { compare: Compare::ReplayFirst, ..other(&id) }).await;
    assert_eq!(replayed(answer), created());
}

/// Replay-first does not compare while the holder works, when there is nothing to run again.
pub async fn replay_first_waits_for_the_holder_whatever_the_content(on: Fresh) {
    let id = id("k");
    on.hold(&id).await;
    in_progress(on.claim(Ask { compare: Compare::ReplayFirst, ..other(&id) }).await);
}

/// Replay-first still compares where something would run: at a take-over.
pub async fn replay_first_compares_a_take_over(on: Fresh) {
    let id = id("k");
    let first = Ask { on_lost: OnLost::Rerun, compare: Compare::ReplayFirst, ..ask(&id) };
    on.take(first.clone()).await;
    on.after(LEASE + INSTANT).await;
    let differs = Ask { token: token(), fingerprint: content("pay 11"), ..first.clone() };
    assert_eq!(refused(on.claim(differs).await), Refusal::Mismatch);
    let (_, grant) = granted(on.claim(Ask { token: token(), ..first }).await);
    assert_eq!(grant, Some(Grant::TakenOver { ask_first: false }));
}

/// A record made by an older plan is compared by that plan.
pub async fn an_older_plan_is_compared_by_the_records_plan(on: Fresh) {
    let id = id("k");
    let permit = on.take(Ask { fingerprint: by_plan(1, 1), ..ask(&id) }).await;
    on.complete(&permit, done(created())).await;
    let same = Ask { fingerprint: by_plan(2, 9), older: vec![by_plan(1, 1)], ..ask(&id) };
    assert_eq!(replayed(on.claim(same).await), created());
    let differs = Ask { fingerprint: by_plan(2, 9), older: vec![by_plan(1, 2)], ..ask(&id) };
    assert_eq!(refused(on.claim(differs).await), Refusal::Mismatch);
}

/// A record made by a plan that the caller no longer has cannot be compared, and says which plan.
pub async fn an_unknown_plan_is_incomparable(on: Fresh) {
    let id = id("k");
    let permit = on.take(Ask { fingerprint: by_plan(1, 1), ..ask(&id) }).await;
    let newer = Ask { fingerprint: by_plan(2, 1), older: vec![by_plan(3, 1)], ..ask(&id) };
    let incomparable = Refusal::Incomparable { plan: PlanId::new([1; 8]) };
    assert_eq!(refused(on.claim(newer.clone()).await), incomparable);
    on.complete(&permit, done(created())).await;
    assert_eq!(refused(on.claim(Ask { token: token(), ..newer }).await), incomparable);
}

/// A take-over by a newer plan keeps the fingerprint that the intent was first recorded with.
pub async fn a_take_over_keeps_the_first_fingerprint(on: Fresh) {
    let id = id("k");
    on.take(Ask { fingerprint: by_plan(1, 1), ..rerun(&id) }).await;
    on.after(LEASE + INSTANT).await;
    let newer = Ask { fingerprint: by_plan(2, 9), older: vec![by_plan(1, 1)], ..rerun(&id) };
    on.take(newer).await;
    let record = on.kept(&id).await;
    assert_eq!((record.state, record.fingerprint), (State::Running, by_plan(1, 1)));
}
