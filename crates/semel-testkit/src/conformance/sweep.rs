//! The sweep: bounded, conditional, and blind to everything that is not over.

use semel::{
    Phase, State,
    decide::Grant,
    store::capability::{SweepBudget, Swept},
};

use super::{Fresh, verbs::*};

const ALL: SweepBudget = SweepBudget { records: 500 };

/// Outcomes past `replay_for` are dropped, their tombstones stay.
pub async fn it_drops_what_is_no_longer_replayed(on: Fresh) {
    let Some(sweep) = on.sweep.clone() else { return };
    let id = id("k");
    on.finished(&id).await;
    on.after(REPLAY).await;
    assert_eq!(sweep.sweep(ALL).await.unwrap(), Swept { forgotten: 1, ..Swept::default() });
    let record = on.kept(&id).await;
    assert_eq!((record.state, record.outcome), (State::Done, None));
    assert!(record.pointer.is_some());
    assert_eq!(sweep.sweep(ALL).await.unwrap(), Swept::default());
}

/// Records past `remember_for` are deleted, the open ones too.
pub async fn it_deletes_what_is_no_longer_remembered(on: Fresh) {
    let Some(sweep) = on.sweep.clone() else { return };
    let (finished, open) = (id("done"), id("open"));
    on.finished(&finished).await;
    let permit = on.hold(&open).await;
    on.release(&open, clean(&permit)).await;
    on.after(REMEMBER).await;
    assert_eq!(sweep.sweep(ALL).await.unwrap(), Swept { deleted: 2, ..Swept::default() });
    assert_eq!((on.record(&finished).await, on.record(&open).await), (None, None));
    assert_eq!(granted(on.claim(ask(&finished)).await).1, Some(Grant::Fresh));
}

/// What runs and what is unknown is never swept, however long ago.
pub async fn it_never_touches_what_is_unfinished(on: Fresh) {
    let Some(sweep) = on.sweep.clone() else { return };
    let (running, lost) = (id("running"), id("unknown"));
    on.lost(&lost).await;
    on.hold(&running).await;
    on.after(REMEMBER * 1_000).await;
    let before = (on.kept(&running).await, on.kept(&lost).await);
    assert_eq!(sweep.sweep(ALL).await.unwrap(), Swept::default());
    assert_eq!((on.kept(&running).await, on.kept(&lost).await), before);
}

/// What is not due is not touched.
pub async fn it_never_touches_what_is_still_kept(on: Fresh) {
    let Some(sweep) = on.sweep.clone() else { return };
    let (finished, open) = (id("done"), id("open"));
    on.finished(&finished).await;
    let permit = on.hold(&open).await;
    on.release(&open, clean(&permit)).await;
    on.after(REPLAY - INSTANT).await;
    assert_eq!(sweep.sweep(ALL).await.unwrap(), Swept::default());
    assert_eq!(replayed(on.claim(ask(&finished)).await), created());
    assert_eq!(on.phase(&open).await, Phase::Stored(State::Open));
}

/// One step touches no more than its budget, says whether more is due, and comes to an end.
pub async fn a_step_is_bounded_and_says_whether_more_is_due(on: Fresh) {
    let Some(sweep) = on.sweep.clone() else { return };
    for n in 0..7 {
        on.finished(&id(&format!("k{n}"))).await;
    }
    on.after(REMEMBER).await;
    let budget = SweepBudget { records: 3 };
    let mut steps = Vec::new();
    loop {
        let step = sweep.sweep(budget).await.unwrap();
        steps.push((step.deleted, step.more));
        if !step.more {
            break;
        }
        assert!(steps.len() < 10, "the sweep does not come to an end: {steps:?}");
    }
    assert!(steps.iter().all(|(deleted, _)| *deleted <= 3), "{steps:?}");
    assert_eq!(steps.iter().map(|(deleted, _)| deleted).sum::<u64>(), 7, "{steps:?}");
    assert!(steps[0].1, "more was due after three of seven");
}

/// An intent that was taken up again is not swept by what its old end said.
pub async fn it_never_touches_what_was_taken_up_again(on: Fresh) {
    let Some(sweep) = on.sweep.clone() else { return };
    let id = id("k");
    let permit = on.hold(&id).await;
    on.release(&id, clean(&permit)).await;
    on.after(REMEMBER - INSTANT).await;
    let again = on.hold(&id).await;
    on.after(REMEMBER).await;
    assert_eq!(sweep.sweep(ALL).await.unwrap(), Swept::default());
    assert_eq!(on.kept(&id).await.permit(), again);
}
