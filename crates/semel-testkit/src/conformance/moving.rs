//! Records are taken out of a store and into it while nobody writes, and mean the same there.

use std::sync::Arc;

use semel::{
    Fence, IntentId, Outcome, Record, State, StoreErrorKind, Timestamp, Token,
    decide::{FinishKind, Grant, Refusal},
    store::{
        Completed, ReleaseAnswer, Renew,
        capability::{AuditKind, AuditRow, Filter, SweepBudget},
        moving::{Brought, Closed, Move, Standing},
    },
};

use super::{Fresh, verbs::*};

fn mover(on: &Fresh) -> Arc<dyn Move> {
    on.mover.clone().expect("a store that keeps records lets them be moved")
}

async fn listed(on: &Fresh) -> Vec<Record> {
    on.inspect.list(Filter { limit: 100, ..Filter::default() }).await.unwrap()
}

/// Makes one record in every state but running, and then one that runs.
async fn one_of_each(on: &Fresh) -> Vec<Record> {
    on.lost(&id("unknown")).await;
    on.finished(&id("done")).await;
    let permit = on.hold(&id("failed")).await;
    on.complete(&permit, finish(FinishKind::Failed, Some(Outcome::new(402, "no")))).await;
    let permit = on.hold(&id("open")).await;
    on.release(&id("open"), clean(&permit)).await;
    on.hold(&id("running").narrowed([7; 32])).await;
    listed(on).await
}

/// The name of a record after it was moved to another tenant: so one store is both of a move's.
fn moved(id: &IntentId) -> IntentId {
    let mut moved = id.clone();
    moved.scope.tenant = "umbrella".parse().expect("a tenant of the suite is a name");
    moved
}

/// Makes a record of each kind, and brings it under another name.
async fn brought(on: &Fresh) -> Vec<Record> {
    let mut records = one_of_each(on).await;
    records.iter_mut().for_each(|record| record.id = moved(&record.id));
    let mover = mover(on);
    mover.close(Closed::Arriving).await.unwrap();
    let answers = mover.bring(records.clone()).await.unwrap();
    assert_eq!(answers, vec![Brought::Stored; records.len()]);
    mover.open().await.unwrap();
    records
}

/// A closed store refuses whatever would write a record, and nothing changes.
pub async fn a_closed_store_takes_no_writes(on: Fresh) {
    let before = one_of_each(&on).await;
    let of = |state: State| before.iter().find(|record| record.state == state).unwrap().permit();
    let (held, lost, opened) = (of(State::Running), of(State::Unknown), of(State::Open));
    mover(&on).close(Closed::Away).await.unwrap();
    let mut refusals = Vec::new();
    for ask in [ask(&id("new")), ask(&opened.id)] {
        refusals.push(on.store.claim(vec![ask]).await.map(drop));
    }
    for permit in [&held, &lost] {
        let end = on.store.complete(permit.clone(), done(created())).await;
        refusals.push(end.map(drop));
        refusals.push(on.store.release(permit.id.clone(), clean(permit)).await.map(drop));
    }
    refusals.push(on.store.renew(vec![Renew::of(&held, LEASE)]).await.map(drop));
    on.after(SETTLE + LEASE).await;
    // The holder is lost now, which a claim would write.
    refusals.push(on.store.claim(vec![ask(&held.id)]).await.map(drop));
    let not_done = on.store.resolve(lost.id.clone(), verdict(&lost, NOT_DONE), actor()).await;
    refusals.push(not_done.map(drop));
    for (at, refusal) in refusals.into_iter().enumerate() {
        let error = refusal.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::ReadOnly, "refusal {at}: {error}");
    }
    assert_eq!(listed(&on).await, before);
    assert_eq!(on.audit(&lost.id).await, []);
}

/// A store that is closed through one handle is closed through every other, whenever it was opened.
pub async fn a_closed_store_is_closed_for_all(on: Fresh) {
    let (Some(second), mover) = (on.second.clone(), mover(&on)) else { return };
    let before = second().await;
    mover.close(Closed::Away).await.unwrap();
    mover.close(Closed::Away).await.unwrap();
    assert!(mover.standing().await.unwrap().closed.is_some());
    if on.store.capabilities().shared {
        for store in [before, second().await] {
            let refused = store.claim(vec![ask(&id("k"))]).await.unwrap_err();
            assert_eq!(refused.kind(), StoreErrorKind::ReadOnly);
        }
    }
}

/// A closed store goes on to replay and to refuse by what it keeps.
pub async fn a_closed_store_still_answers_what_is_kept(on: Fresh) {
    one_of_each(&on).await;
    mover(&on).close(Closed::Away).await.unwrap();
    assert_eq!(replayed(on.claim(ask(&id("done"))).await), created());
    assert_eq!(refused(on.claim(other(&id("done"))).await), Refusal::Mismatch);
    unknown(on.claim(ask(&id("unknown"))).await);
    in_progress(on.claim(ask(&id("running").narrowed([7; 32]))).await);
}

/// A store that waits for records takes no others.
pub async fn a_store_that_waits_for_records_takes_no_others(on: Fresh) {
    let mover = mover(&on);
    mover.close(Closed::Away).await.unwrap();
    mover.close(Closed::Arriving).await.unwrap();
    assert_eq!(mover.standing().await.unwrap().closed, Some(Closed::Arriving));
    let refused = on.store.claim(vec![ask(&id("k"))]).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::ReadOnly);
    assert_eq!(refused.to_string(), Closed::Arriving.refusal().to_string());
    mover.close(Closed::Away).await.unwrap();
    let refused = on.store.claim(vec![ask(&id("k"))]).await.unwrap_err();
    assert_eq!(refused.to_string(), Closed::Away.refusal().to_string());
}

/// A store that is opened again goes on where it was.
pub async fn an_opened_store_goes_on(on: Fresh) {
    let (permit, mover) = (on.hold(&id("k")).await, mover(&on));
    let open = Standing { closed: None, floor: Fence::default() };
    assert_eq!(mover.standing().await.unwrap(), open);
    mover.close(Closed::Away).await.unwrap();
    assert_eq!(mover.standing().await.unwrap(), Standing { closed: Some(Closed::Away), ..open });
    mover.open().await.unwrap();
    mover.open().await.unwrap();
    assert_eq!(mover.standing().await.unwrap(), open);
    assert_eq!(on.complete(&permit, done(created())).await, Completed::Stored);
    on.hold(&id("new")).await;
}

/// A record that is brought is kept as it is: names, times, token, fence, outcome.
pub async fn what_is_brought_is_kept_as_it_is(on: Fresh) {
    let mut records = one_of_each(&on).await;
    let whole = records.iter_mut().find(|record| record.state == State::Done).unwrap();
    whole.compare = true;
    whole.incarnation = 5;
    whole.takeovers = 3;
    whole.reason = Some("resolved".into());
    whole.resolved_by = Some([4; 16]);
    whole.claimed_by = None;
    let all: Vec<u8> = (0..=255).collect();
    whole.outcome = Some(Outcome::new(201, all).header("link", "a").header("link", "b"));
    records.iter_mut().for_each(|record| record.id = moved(&record.id));
    mover(&on).close(Closed::Arriving).await.unwrap();
    mover(&on).bring(records.clone()).await.unwrap();
    for record in &records {
        assert_eq!(on.kept(&record.id).await, *record);
    }
    let umbrella = Some(records[0].id.scope.tenant.clone());
    let filter = Filter { tenant: umbrella, limit: 100, ..Filter::default() };
    assert_eq!(on.inspect.list(filter).await.unwrap(), records);
}

/// What is brought is answered as it was: the same replay, the same refusals, nothing runs again.
pub async fn what_is_brought_is_answered_as_before(on: Fresh) {
    let id = |key| moved(&id(key));
    brought(&on).await;
    assert_eq!(replayed(on.claim(ask(&id("done"))).await), created());
    assert_eq!(replayed(on.claim(ask(&id("failed"))).await), Outcome::new(402, "no"));
    assert_eq!(refused(on.claim(other(&id("done"))).await), Refusal::Mismatch);
    unknown(on.claim(ask(&id("unknown"))).await);
    in_progress(on.claim(ask(&id("running").narrowed([7; 32]))).await);
    let (_, grant) = granted(on.claim(other(&id("open"))).await);
    assert_eq!(grant, Some(Grant::Reopened));
}

/// Whoever held an intent before the move renews and ends it by the same permit.
pub async fn the_holder_of_a_brought_run_ends_it(on: Fresh) {
    let records = brought(&on).await;
    let held = records.iter().find(|record| record.state == State::Running).unwrap().permit();
    assert_eq!(on.renew(&held).await, semel::store::Renewed::Held);
    assert_eq!(on.complete(&held, done(created())).await, Completed::Stored);
    assert_eq!(replayed(on.claim(ask(&held.id)).await), created());
    let lost = records.iter().find(|record| record.state == State::Unknown).unwrap().permit();
    assert_eq!(on.release(&lost.id, clean(&lost)).await, ReleaseAnswer::Stored);
}

/// A run that was brought keeps its lease, and is lost when that is over.
pub async fn a_brought_run_is_lost_as_any(on: Fresh) {
    let records = brought(&on).await;
    let held = records.iter().find(|record| record.state == State::Running).unwrap();
    on.after(LEASE + INSTANT).await;
    unknown(on.claim(ask(&held.id)).await);
    let counts = on.inspect.counts().await.unwrap();
    assert_eq!((counts.running, counts.unknown), (1, 3), "{counts:?}");
}

/// New fences are larger than those of the store that the records came from, also where its clock was
/// ahead.
pub async fn fences_go_on_above_what_was_brought(on: Fresh) {
    let (mover, now) = (mover(&on), on.now().await.as_micros());
    let ahead = Fence::new(now + 3_600_000_000);
    let permit = on.hold(&id("open")).await;
    on.release(&id("open"), clean(&permit)).await;
    let mut record = on.kept(&id("open")).await;
    record.id = moved(&record.id);
    record.fence = Fence::new(ahead.get() + 1_000);
    mover.close(Closed::Arriving).await.unwrap();
    mover.bring(vec![record.clone()]).await.unwrap();
    mover.raise(ahead).await.unwrap();
    mover.raise(Fence::new(1)).await.unwrap();
    assert!(mover.standing().await.unwrap().floor >= ahead);
    mover.open().await.unwrap();
    for key in ["a", "b", "c"] {
        assert!(on.hold(&id(key)).await.fence > ahead);
    }
    assert!(on.hold(&record.id).await.fence > record.fence);
}

/// What is brought once more is recognised, and changes nothing.
pub async fn what_is_brought_twice_is_kept_once(on: Fresh) {
    let records = brought(&on).await;
    let (mover, before) = (mover(&on), listed(&on).await);
    mover.close(Closed::Arriving).await.unwrap();
    let again = mover.bring(records.clone()).await.unwrap();
    assert_eq!(again, vec![Brought::Same; records.len()]);
    assert_eq!(listed(&on).await, before);
}

/// Where another record is kept under a name, it stays and is named; the others of the batch arrive.
pub async fn a_record_that_differs_stays_and_is_named(on: Fresh) {
    let kept = one_of_each(&on).await;
    let mut other = kept[0].clone();
    other.token = Token::from_bytes([9; 16]);
    let mut new = kept[1].clone();
    new.id = moved(&new.id);
    let mover = mover(&on);
    mover.close(Closed::Arriving).await.unwrap();
    let answers = mover.bring(vec![other, new.clone(), kept[2].clone()]).await.unwrap();
    let differs = Brought::Differs(Box::new(kept[0].clone()));
    assert_eq!(answers, [differs, Brought::Stored, Brought::Same]);
    assert_eq!(on.kept(&kept[0].id).await, kept[0]);
    assert_eq!(on.kept(&new.id).await, new);
}

/// What is remembered no longer is not brought.
pub async fn what_is_over_is_not_brought(on: Fresh) {
    on.finished(&id("done")).await;
    let mut record = on.kept(&id("done")).await;
    record.id = moved(&record.id);
    on.after(REMEMBER).await;
    mover(&on).close(Closed::Arriving).await.unwrap();
    let answers = mover(&on).bring(vec![record.clone()]).await.unwrap();
    assert_eq!(answers, [Brought::Over]);
    assert_eq!(on.record(&record.id).await, None);
}

/// A record that no verb would have written is refused with its name.
pub async fn a_brought_record_over_a_bound_is_refused(on: Fresh) {
    on.finished(&id("done")).await;
    let mut record = on.kept(&id("done")).await;
    record.id = moved(&record.id);
    record.claimed_by = Some("x".repeat(100_000).into());
    mover(&on).close(Closed::Arriving).await.unwrap();
    let refused = mover(&on).bring(vec![record.clone()]).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Invalid);
    assert!(refused.to_string().contains(&record.id.to_string()), "{refused}");
    assert_eq!(on.record(&record.id).await, None);
}

/// Nothing is brought into a store that others may be using, nor into one whose records were taken away.
pub async fn nothing_is_brought_into_a_store_that_is_not_closed_for_it(on: Fresh) {
    on.finished(&id("done")).await;
    let mut record = on.kept(&id("done")).await;
    record.id = moved(&record.id);
    for is_closed in [false, true] {
        let refused = mover(&on).bring(vec![record.clone()]).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Invalid, "{is_closed}");
        let refused = mover(&on).recall(vec![row("k", 1, "n")]).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Invalid, "{is_closed}");
        mover(&on).close(Closed::Away).await.unwrap();
    }
    assert_eq!((on.record(&record.id).await, on.audit(&id("k")).await), (None, vec![]));
}

/// A record that was brought is dropped when its time is over, and never before.
pub async fn a_brought_record_is_swept_as_any(on: Fresh) {
    let Some(sweep) = on.sweep.clone() else { return };
    let records = brought(&on).await;
    let swept = sweep.sweep(SweepBudget::default()).await.unwrap();
    assert_eq!((swept.forgotten, swept.deleted), (0, 0));
    on.after(REMEMBER).await;
    while sweep.sweep(SweepBudget::default()).await.unwrap().more {}
    for record in records {
        let stays = matches!(record.state, State::Running | State::Unknown);
        assert_eq!(on.record(&record.id).await.is_some(), stays, "{}", record.id);
    }
}

fn row(key: &str, at: u64, note: &str) -> AuditRow {
    AuditRow {
        id: id(key),
        at: Timestamp::from_micros(at),
        kind: AuditKind::Release,
        actor: "ada".into(),
        note: note.into(),
    }
}

/// The rows of one intent, by their notes.
fn of(rows: &[AuditRow], key: &str) -> Vec<Box<str>> {
    rows.iter().filter(|row| row.id == id(key)).map(|row| row.note.clone()).collect()
}

async fn trail(mover: &dyn Move) -> Vec<AuditRow> {
    let (mut rows, mut from) = (Vec::new(), Some(0));
    while let Some(at) = from {
        let page = mover.trail(at).await.unwrap();
        rows.extend(page.rows);
        from = page.next;
    }
    rows
}

/// The audit is read whole, each intent's rows in the order they were written.
pub async fn the_audit_is_read_from_its_beginning(on: Fresh) {
    for n in 0_u64..40 {
        let key = format!("k{}", n % 5);
        on.inspect.note(row(&key, n, &n.to_string())).await.unwrap();
    }
    let rows = trail(&*mover(&on)).await;
    assert_eq!(rows.len(), 40);
    assert_eq!(of(&rows, "k3"), ["3", "8", "13", "18", "23", "28", "33", "38"].map(Box::from));
}

/// Rows of another store's audit are added in order, and none of them twice.
pub async fn the_audit_is_recalled_once_and_in_order(on: Fresh) {
    let mover = mover(&on);
    let rows: Vec<_> = (1..=30).map(|n| row(&format!("k{}", n % 3), n, &n.to_string())).collect();
    mover.close(Closed::Arriving).await.unwrap();
    assert_eq!(mover.recall(rows[..10].to_vec()).await.unwrap(), 10);
    assert_eq!(mover.recall(rows.clone()).await.unwrap(), 20);
    assert_eq!(mover.recall(rows.clone()).await.unwrap(), 0);
    assert_eq!(of(&trail(&*mover).await, "k0"), of(&rows, "k0"));
    let newest = on.inspect.audit(None, 3).await.unwrap();
    assert_eq!(newest, [rows[29].clone(), rows[28].clone(), rows[27].clone()]);
    let mut of_one = on.audit(&id("k2")).await;
    of_one.reverse();
    assert_eq!(of(&of_one, "k2"), of(&rows, "k2"));
}
