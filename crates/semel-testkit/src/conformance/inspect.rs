//! Reads for operators: lists, pages, counts and the audit.

use semel::{
    IntentId, State,
    store::{
        BATCH_MAX,
        capability::{AuditKind, AuditRow, Counts, Filter},
    },
};

use super::{Fresh, verbs::*};

const ALL: Filter =
    Filter { tenant: None, operation: None, state: None, stuck: false, after: None, limit: 100 };

async fn listed(on: &Fresh, filter: Filter) -> Vec<IntentId> {
    on.inspect.list(filter).await.unwrap().into_iter().map(|record| record.id).collect()
}

/// Makes one record in every state, the running one past its lease.
async fn one_of_each(on: &Fresh) -> [IntentId; 5] {
    let ids = ["done", "failed", "open", "running", "unknown"].map(id);
    on.lost(&ids[4]).await;
    on.finished(&ids[0]).await;
    let permit = on.hold(&ids[1]).await;
    on.complete(&permit, finish(semel::decide::FinishKind::Failed, Some(created()))).await;
    let permit = on.hold(&ids[2]).await;
    on.release(&ids[2], clean(&permit)).await;
    on.hold(&ids[3]).await;
    on.after(LEASE + INSTANT).await;
    ids
}

/// Records are listed in the order of their names: tenant, operation, key, facet.
pub async fn records_are_listed_in_the_order_of_their_names(on: Fresh) {
    let mut ids = vec![
        named("b", "a", "a"),
        named("a", "b", "a"),
        named("a", "a", "B"),
        named("a", "a", "b"),
        named("a", "a", "a").narrowed([0; 32]),
        named("a", "a", "a").narrowed([9; 32]),
        named("a", "a", "a"),
        named("ä", "a", "a"),
        named("Z", "a", "a"),
    ];
    for id in &ids {
        on.hold(id).await;
    }
    ids.sort();
    assert_eq!(listed(&on, ALL).await, ids);
}

/// A listed record is the record that is read.
pub async fn a_listed_record_is_whole(on: Fresh) {
    let ids = one_of_each(&on).await;
    for record in on.inspect.list(ALL).await.unwrap() {
        assert_eq!(on.kept(&record.id).await, record);
    }
    assert_eq!(listed(&on, ALL).await.len(), ids.len());
}

/// Filters choose by tenant, operation and state, together.
pub async fn filters_choose(on: Fresh) {
    let ids = one_of_each(&on).await;
    let foreign = [named("umbrella", "payments.create", "k"), named("acme", "orders.create", "k")];
    for id in &foreign {
        on.hold(id).await;
    }
    let tenant = |id: &IntentId| Some(id.scope.tenant.clone());
    let operation = |id: &IntentId| Some(id.scope.operation.clone());
    let by_tenant = Filter { tenant: tenant(&foreign[0]), ..ALL };
    assert_eq!(listed(&on, by_tenant).await, [foreign[0].clone()]);
    let by_operation = Filter { operation: operation(&foreign[1]), ..ALL };
    assert_eq!(listed(&on, by_operation).await, [foreign[1].clone()]);
    let states = [State::Done, State::Failed, State::Open, State::Running, State::Unknown];
    for (state, id) in states.into_iter().zip(&ids) {
        let filter =
            Filter { state: Some(state), operation: operation(id), tenant: tenant(id), ..ALL };
        assert_eq!(listed(&on, filter).await, *std::slice::from_ref(id), "{state}");
    }
}

/// Stuck is what runs past its lease, and nothing else.
pub async fn stuck_is_what_runs_past_its_lease(on: Fresh) {
    let ids = one_of_each(&on).await;
    on.hold(&id("alive")).await;
    assert_eq!(listed(&on, Filter { stuck: true, ..ALL }).await, [ids[3].clone()]);
}

/// What is no longer remembered is not listed.
pub async fn what_is_no_longer_remembered_is_not_listed(on: Fresh) {
    on.finished(&id("k")).await;
    on.after(REMEMBER - INSTANT).await;
    assert_eq!(listed(&on, ALL).await, [id("k")]);
    on.after(INSTANT).await;
    assert_eq!(listed(&on, ALL).await, []);
}

/// Pages follow each other without a gap and without a repeat.
pub async fn pages_follow_each_other(on: Fresh) {
    let mut ids: Vec<_> = (0..10).map(|n| id(&format!("k{n}"))).collect();
    ids.push(id("k3").narrowed([3; 32]));
    for id in &ids {
        on.hold(id).await;
    }
    ids.sort();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = listed(&on, Filter { after: after.clone(), limit: 3, ..ALL }).await;
        assert!(page.len() <= 3);
        let Some(last) = page.last() else { break };
        after = Some(last.clone());
        seen.extend(page);
    }
    assert_eq!(seen, ids);
}

/// A list is bounded, whatever is asked.
pub async fn a_list_is_bounded(on: Fresh) {
    let asks: Vec<_> = (0..BATCH_MAX + 10).map(|n| ask(&id(&format!("k{n}")))).collect();
    for asks in asks.chunks(BATCH_MAX) {
        on.store.claim(asks.to_vec()).await.unwrap();
    }
    let all = listed(&on, Filter { limit: u32::MAX, ..ALL }).await;
    assert_eq!(all.len(), BATCH_MAX);
}

/// Counts are by what records mean now.
pub async fn counts_are_by_what_records_mean(on: Fresh) {
    assert_eq!(on.inspect.counts().await.unwrap(), Counts::default());
    let ids = one_of_each(&on).await;
    let oldest = on.kept(&ids[3]).await.claimed_at;
    on.hold(&id("alive")).await;
    let counts = on.inspect.counts().await.unwrap();
    let wanted = Counts {
        done: 2,
        forgotten: 0,
        open: 1,
        running: 2,
        stuck: 1,
        unknown: 1,
        oldest_running: Some(oldest),
    };
    assert_eq!(counts, wanted);
    on.after(REPLAY).await;
    let counts = on.inspect.counts().await.unwrap();
    assert_eq!((counts.done, counts.forgotten, counts.stuck), (0, 2, 2));
    on.after(REMEMBER).await;
    let counts = on.inspect.counts().await.unwrap();
    assert_eq!((counts.done, counts.forgotten, counts.open), (0, 0, 0));
    assert_eq!((counts.running, counts.unknown), (2, 1));
}

/// The audit comes newest first, of one intent or of all, and bounded.
pub async fn the_audit_comes_newest_first(on: Fresh) {
    let row = |key: &str, note: &str, at| AuditRow {
        id: id(key),
        at,
        kind: AuditKind::Release,
        actor: "ada".into(),
        note: note.into(),
    };
    let now = on.now().await;
    for (key, note) in [("k1", "first"), ("k2", "second"), ("k1", "third")] {
        on.inspect.note(row(key, note, now)).await.unwrap();
    }
    let notes = |rows: Vec<AuditRow>| rows.into_iter().map(|row| row.note).collect::<Vec<_>>();
    let all = notes(on.inspect.audit(None, 10).await.unwrap());
    assert_eq!(all, ["third".into(), "second".into(), Box::<str>::from("first")]);
    let of_one = notes(on.inspect.audit(Some(id("k1")), 10).await.unwrap());
    assert_eq!(of_one, ["third".into(), Box::<str>::from("first")]);
    assert_eq!(notes(on.inspect.audit(None, 1).await.unwrap()), ["third".into()]);
}

/// An audit row comes back as it was written.
pub async fn an_audit_row_comes_back_whole(on: Fresh) {
    let kinds = [AuditKind::Conflict, AuditKind::Lapse, AuditKind::Release, AuditKind::Resolve];
    for (n, kind) in kinds.into_iter().enumerate() {
        let key = format!("k{n}");
        let row = AuditRow {
            id: id(&key).narrowed([7; 32]),
            at: on.now().await,
            kind,
            actor: "Ada Lövelace".into(),
            note: "c'est la vie; -- \u{1f9fe}".into(),
        };
        on.inspect.note(row.clone()).await.unwrap();
        assert_eq!(on.inspect.audit(Some(row.id.clone()), 10).await.unwrap(), [row]);
    }
}
