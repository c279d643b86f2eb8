//! Retention: judged by the store's time at the moment of reading, not by whether the sweep came.

use std::time::Duration;

use semel::{
    Phase, State,
    decide::{Grant, Refusal},
    outcome::Pointer,
    store::capability::SweepBudget,
};

use super::{Fresh, verbs::*};

/// S13, C22: an outcome is replayed up to the last instant of `replay_for`.
pub async fn an_outcome_is_replayed_for_all_of_its_time(on: Fresh) {
    let id = id("k");
    on.finished(&id).await;
    for _ in 0..2 {
        on.after(REPLAY / 2 - INSTANT).await;
        assert_eq!(replayed(on.claim(ask(&id)).await), created());
    }
}

/// C83: past `replay_for` the outcome is forgotten, and the fact and the pointer are remembered.
pub async fn a_forgotten_outcome_leaves_a_tombstone(on: Fresh) {
    let id = id("k");
    on.finished(&id).await;
    let settled_at = on.kept(&id).await.settled_at;
    on.after(REPLAY).await;
    let pointer = Some(Pointer { kind: "payment".into(), id: "pay_7".into() });
    let told = Refusal::Forgotten { settled_at, pointer };
    assert_eq!(refused(on.claim(ask(&id)).await), told);
    assert_eq!(refused(on.claim(rerun(&id)).await), told);
    on.after(REMEMBER - REPLAY - INSTANT).await;
    assert_eq!(refused(on.claim(ask(&id)).await), told);
}

/// The sweep changes nothing of what a caller meets.
pub async fn a_swept_tombstone_says_the_same(on: Fresh) {
    let Some(sweep) = on.sweep.clone() else { return };
    let id = id("k");
    on.finished(&id).await;
    on.after(REPLAY).await;
    let before = refused(on.claim(ask(&id)).await);
    assert_eq!(sweep.sweep(SweepBudget::default()).await.unwrap().forgotten, 1);
    assert_eq!(refused(on.claim(ask(&id)).await), before);
    assert_eq!(refused(on.claim(other(&id)).await), Refusal::Mismatch);
    assert_eq!(on.kept(&id).await.outcome, None);
}

/// What was dropped is not to be had again: by a clock behind the one it was dropped by, as that of a
/// promoted standby, it is forgotten all the same, and not replayed as nothing.
pub async fn a_swept_outcome_stays_forgotten_by_a_clock_behind(on: Fresh) {
    let Some(sweep) = on.sweep.clone() else { return };
    let id = id("k");
    on.finished(&id).await;
    on.after(REPLAY).await;
    let before = refused(on.claim(ask(&id)).await);
    assert_eq!(sweep.sweep(SweepBudget::default()).await.unwrap().forgotten, 1);
    on.time.turn_back(REPLAY / 2).await;
    assert_eq!(refused(on.claim(ask(&id)).await), before);
    assert_eq!(on.phase(&id).await, Phase::Forgotten);
}

/// Past `remember_for` the key is as if it had never been used, whether or not the sweep came.
pub async fn a_record_is_absent_past_its_memory(on: Fresh) {
    let id = id("k");
    on.finished(&id).await;
    on.after(REMEMBER).await;
    assert_eq!(on.phase(&id).await, Phase::Absent);
    let (permit, grant) = granted(on.claim(other(&id)).await);
    assert_eq!((permit.incarnation, grant), (0, Some(Grant::Fresh)));
    let record = on.kept(&id).await;
    assert_eq!((record.outcome, record.pointer, record.takeovers), (None, None, 0));
    assert_eq!((record.created_at, record.fingerprint), (record.claimed_at, content("pay 11")));
}

/// What is open is forgotten past `remember_for`, and what it compared with it.
pub async fn an_open_record_is_absent_past_its_memory(on: Fresh) {
    let id = id("k");
    let permit = on.hold(&id).await;
    let in_doubt = semel::decide::ReleaseAsk { compare: true, ..clean(&permit) };
    on.release(&id, in_doubt).await;
    on.after(REMEMBER).await;
    let (_, grant) = granted(on.claim(other(&id)).await);
    assert_eq!(grant, Some(Grant::Fresh));
}

/// What runs, and what is unknown, is never forgotten.
pub async fn nothing_unfinished_is_ever_forgotten(on: Fresh) {
    let (running, lost) = (id("running"), id("unknown"));
    on.lost(&lost).await;
    on.hold(&running).await;
    on.after(Duration::from_secs(400 * 24 * 3_600)).await;
    assert_eq!(on.phase(&running).await, Phase::Stored(State::Running));
    assert_eq!(on.phase(&lost).await, Phase::Stored(State::Unknown));
    unknown(on.claim(ask(&running)).await);
    unknown(on.claim(ask(&lost)).await);
}

/// A memory shorter than the replay is as long as the replay.
pub async fn a_memory_is_never_shorter_than_the_replay(on: Fresh) {
    let id = id("k");
    let permit = on.hold(&id).await;
    let hasty = semel::decide::Finish { remember_for: INSTANT, ..done(created()) };
    on.complete(&permit, hasty).await;
    on.after(REPLAY - INSTANT).await;
    assert_eq!(replayed(on.claim(ask(&id)).await), created());
}

/// The longest retention that a policy allows does not overflow.
pub async fn a_retention_of_a_century_is_kept(on: Fresh) {
    let id = id("k");
    let permit = on.hold(&id).await;
    let century = Duration::from_secs(100 * 366 * 24 * 3_600);
    let finish =
        semel::decide::Finish { replay_for: century, remember_for: century, ..done(created()) };
    on.complete(&permit, finish).await;
    on.after(Duration::from_secs(10 * 366 * 24 * 3_600)).await;
    assert_eq!(replayed(on.claim(ask(&id)).await), created());
}
