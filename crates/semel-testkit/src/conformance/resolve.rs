//! Resolving what is unknown: a compare-and-set by an operator or a reconciler, with an audit.

use semel::{
    Fence, Outcome, State,
    decide::{Ask, Grant, Refusal, Resolution, ResolveAsk, Verdict},
    store::{Completed, ReleaseAnswer, Renewed, capability::AuditKind},
};

use super::{Fresh, verbs::*};

/// C26: "done" gives every retry the outcome that was found out.
pub async fn done_is_replayed(on: Fresh) {
    let id = id("k");
    let permit = on.lost(&id).await;
    let ask_done = verdict(&permit, Verdict::Done(created()));
    assert_eq!(on.resolve(&id, ask_done).await, Resolution::Stored);
    assert_eq!(replayed(on.claim(ask(&id)).await), created());
    let record = on.kept(&id).await;
    assert_eq!((record.state, record.reason.as_deref()), (State::Done, Some("resolved")));
}

/// "Failed" gives every retry the final failure.
pub async fn failed_is_replayed(on: Fresh) {
    let id = id("k");
    let permit = on.lost(&id).await;
    let refusal = Outcome::new(402, "no money");
    let ask_failed = verdict(&permit, Verdict::Failed(refusal.clone()));
    assert_eq!(on.resolve(&id, ask_failed).await, Resolution::Stored);
    assert_eq!(replayed(on.claim(ask(&id)).await), refusal);
    assert_eq!(on.kept(&id).await.state, State::Failed);
}

/// C64: after "not done" the next retry with the same content runs, once; other content is refused.
pub async fn not_done_runs_the_same_content_once(on: Fresh) {
    let id = id("k");
    let permit = on.lost(&id).await;
    on.after(SETTLE).await;
    assert_eq!(on.resolve(&id, verdict(&permit, NOT_DONE)).await, Resolution::Stored);
    assert_eq!(refused(on.claim(other(&id)).await), Refusal::Mismatch);
    let (again, grant) = granted(on.claim(ask(&id)).await);
    assert_eq!((again.incarnation, grant), (0, Some(Grant::Reopened)));
    in_progress(on.claim(ask(&id)).await);
}

/// "Not done" with a new incarnation changes the keys of the steps.
pub async fn not_done_can_begin_a_new_incarnation(on: Fresh) {
    let id = id("k");
    let permit = on.lost(&id).await;
    on.after(SETTLE).await;
    let anew = Verdict::NotDone { new_incarnation: true };
    assert_eq!(on.resolve(&id, verdict(&permit, anew)).await, Resolution::Stored);
    assert_eq!(on.hold(&id).await.incarnation, 1);
}

/// "Not done" is refused while the lost holder may still be sending, and says until when.
pub async fn not_done_too_early_is_refused(on: Fresh) {
    let id = id("k");
    let permit = on.lost(&id).await;
    let record = on.kept(&id).await;
    let until = record.lease.ends_at().after(SETTLE);
    let early = verdict(&permit, NOT_DONE);
    assert_eq!(on.resolve(&id, early.clone()).await, Resolution::TooEarly(until));
    assert_eq!(on.kept(&id).await, record);
    on.after(until.since(on.now().await)).await;
    assert_eq!(on.resolve(&id, early).await, Resolution::Stored);
}

/// "Not done" can be forced; "done" is never too early.
pub async fn not_done_can_be_forced_and_done_needs_no_force(on: Fresh) {
    let (one, two) = (id("k1"), id("k2"));
    let permit = on.lost(&one).await;
    let forced = ResolveAsk { force: true, ..verdict(&permit, NOT_DONE) };
    assert_eq!(on.resolve(&one, forced).await, Resolution::Stored);
    let permit = on.lost(&two).await;
    let ask_done = verdict(&permit, Verdict::Done(created()));
    assert_eq!(on.resolve(&two, ask_done).await, Resolution::Stored);
}

/// A resolution is idempotent by its id; one of another id meets what is there.
pub async fn a_resolution_is_idempotent_by_its_id(on: Fresh) {
    let id = id("k");
    let permit = on.lost(&id).await;
    let first = verdict(&permit, Verdict::Done(created()));
    assert_eq!(on.resolve(&id, first.clone()).await, Resolution::Stored);
    let record = on.kept(&id).await;
    assert_eq!(record.resolved_by, Some(first.resolve_id));
    assert_eq!(on.resolve(&id, first).await, Resolution::Already);
    let second = ResolveAsk { force: true, ..verdict(&permit, NOT_DONE) };
    assert_eq!(on.resolve(&id, second).await, Resolution::Changed(State::Done));
    assert_eq!(on.kept(&id).await, record);
    assert_eq!(on.audit(&id).await.len(), 1);
}

/// A resolution is a compare-and-set on the token and the fence that the operator saw.
pub async fn a_resolution_of_another_claim_changes_nothing(on: Fresh) {
    let id = id("k");
    let permit = on.lost(&id).await;
    let record = on.kept(&id).await;
    let right = verdict(&permit, Verdict::Done(created()));
    let fence = Fence::new(permit.fence.get() - 1);
    for wrong in [
        ResolveAsk { token: token(), ..right.clone() },
        ResolveAsk { fence, force: true, ..right.clone() },
    ] {
        assert_eq!(on.resolve(&id, wrong).await, Resolution::Changed(State::Unknown));
    }
    assert_eq!(on.kept(&id).await, record);
    assert_eq!(on.audit(&id).await, []);
}

/// Only what is unknown is resolved.
pub async fn only_what_is_unknown_is_resolved(on: Fresh) {
    let (running, finished, open) = (id("running"), id("done"), id("open"));
    let permits = [on.hold(&running).await, on.finished(&finished).await, on.hold(&open).await];
    on.release(&open, clean(&permits[2])).await;
    for (permit, state) in permits.iter().zip([State::Running, State::Done, State::Open]) {
        let record = on.kept(&permit.id).await;
        let forced = ResolveAsk { force: true, ..verdict(permit, NOT_DONE) };
        assert_eq!(on.resolve(&permit.id, forced).await, Resolution::Changed(state));
        assert_eq!(on.kept(&permit.id).await, record);
    }
    let absent = id("absent");
    let asked = verdict(&permits[0], NOT_DONE);
    assert_eq!(on.resolve(&absent, asked).await, Resolution::Absent);
    assert_eq!(on.record(&absent).await, None);
}

/// A resolution kills the old permit: the late completion is refused, and kept as a conflict.
pub async fn a_completion_after_a_resolution_is_a_conflict(on: Fresh) {
    for (key, said) in [("k1", Verdict::Done(created())), ("k2", NOT_DONE)] {
        let id = id(key);
        let permit = on.lost(&id).await;
        on.resolve(&id, ResolveAsk { force: true, ..verdict(&permit, said) }).await;
        let record = on.kept(&id).await;
        let late = done(Outcome::new(500, "late"));
        assert_eq!(on.complete(&permit, late).await, Completed::Stale);
        assert_eq!(on.kept(&id).await, record);
        let audit: Vec<_> = on.audit(&id).await.into_iter().map(|row| row.kind).collect();
        assert_eq!(audit, [AuditKind::Conflict, AuditKind::Resolve]);
    }
}

/// A resolution kills the old permit: it neither renews nor releases.
pub async fn a_resolved_permit_neither_renews_nor_releases(on: Fresh) {
    for (key, said) in [("k1", Verdict::Failed(created())), ("k2", NOT_DONE)] {
        let id = id(key);
        let permit = on.lost(&id).await;
        on.resolve(&id, ResolveAsk { force: true, ..verdict(&permit, said) }).await;
        let record = on.kept(&id).await;
        assert_eq!(on.renew(&permit).await, Renewed::Stale);
        assert_eq!(on.release(&id, clean(&permit)).await, ReleaseAnswer::NotHeld);
        assert_eq!(on.kept(&id).await, record);
    }
}

/// Who resolved, and why, is in the audit.
pub async fn a_resolution_is_audited(on: Fresh) {
    let id = id("k");
    let permit = on.lost(&id).await;
    on.resolve(&id, verdict(&permit, Verdict::Done(created()))).await;
    let rows = on.audit(&id).await;
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert_eq!((row.kind, &*row.actor, &row.id), (AuditKind::Resolve, "ada", &id));
    assert!(row.note.contains("asked the bank") && row.note.contains("done"), "{}", row.note);
    assert!(row.at <= on.now().await);
}

/// After "not done" and a new claim, the resolution that comes again changes nothing.
pub async fn a_resolution_repeated_after_the_next_claim_changes_nothing(on: Fresh) {
    let id = id("k");
    let permit = on.lost(&id).await;
    let said = ResolveAsk { force: true, ..verdict(&permit, NOT_DONE) };
    assert_eq!(on.resolve(&id, said.clone()).await, Resolution::Stored);
    let new = on.take(Ask { claimed_by: None, ..ask(&id) }).await;
    assert_eq!(on.resolve(&id, said).await, Resolution::Changed(State::Running));
    assert_eq!(on.kept(&id).await.permit(), new);
}
