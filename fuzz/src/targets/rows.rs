//! Any values in any columns of a stored row, as somebody might put them there: every verb answers or says that the
//! store is damaged, no outcome is replayed but the one that was stored, and no other record is harmed.
//!
//! The first byte says how far the intent came. Then, again and again: a column, a type, a length and the value's bytes.

use std::{cell::RefCell, time::Duration};

use rusqlite::Connection;
use semel::{
    Outcome, Permit, Record, Store,
    decide::{FinishKind, ReleaseAsk, ResolveAsk, Verdict},
    store::{
        Actor, ClaimAnswer, Completed, Renew,
        capability::{Filter, Inspect, Sweep, SweepBudget},
    },
};
use semel_sqlite::SqliteStore;
use tempfile::TempDir;
use tokio::time::timeout;

use crate::{
    kept::{ask, claim, finish, folder, granted, id, loosen, outcome, sound, value},
    runtime,
};

const COLUMNS: [&str; 26] = [
    "tenant",
    "operation",
    "key",
    "facet",
    "state",
    "token",
    "fence",
    "plan",
    "digest",
    "renewed_at_us",
    "lease_us",
    "takeovers",
    "compare",
    "incarnation",
    "created_at_us",
    "claimed_at_us",
    "settled_at_us",
    "claimed_by",
    "reason",
    "resolved_by",
    "pointer_kind",
    "pointer_id",
    "replay_until_us",
    "remember_until_us",
    "sweep_at_us",
    "outcome",
];
const KEY: &str = "k";
const PATIENCE: Duration = Duration::from_secs(5);

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    thread_local! {
        static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
    }
    let Some((stage, changes)) = data.split_first() else { return };
    runtime(async {
        let kept = match KEPT.take() {
            Some(kept) => kept,
            None => Kept::new().await,
        };
        timeout(PATIENCE, kept.check(*stage, changes)).await.expect("every verb ends");
        KEPT.set(Some(kept));
    });
}

struct Kept {
    store: SqliteStore,
    other: Connection,
    _folder: TempDir,
}

impl Kept {
    async fn new() -> Self {
        let folder = folder();
        let path = folder.path().join("semel.db");
        drop(SqliteStore::builder(&path).open().expect("a new file"));
        let other = Connection::open(&path).expect("the file");
        loosen(&other);
        let store = SqliteStore::builder(&path).open().expect("the same file");
        let permit = granted(&store, "good", 1).await;
        let done = finish(FinishKind::Done, Some(outcome("good")));
        assert_eq!(store.complete(permit, done).await.ok(), Some(Completed::Stored));
        Self { store, other, _folder: folder }
    }

    async fn check(&self, stage: u8, changes: &[u8]) {
        self.other.execute("DELETE FROM semel_record WHERE key IS NOT 'good'", []).expect("rows");
        let permit = granted(&self.store, KEY, 1).await;
        let kind = [FinishKind::Done, FinishKind::Failed, FinishKind::Unknown];
        if let Some(kind) = kind.get(usize::from(stage % 4)) {
            let ended = finish(*kind, Some(outcome(KEY)));
            self.store.complete(permit.clone(), ended).await.expect("it is held");
        }
        self.tamper(changes);
        self.every_verb(&permit).await;
        match claim(&self.store, ask("good", 2)).await {
            Ok(ClaimAnswer::Replay(record)) => replays(&record, "good"),
            answer => panic!("another record was harmed: {answer:?}"),
        }
    }

    fn tamper(&self, mut changes: &[u8]) {
        while let [column, kind, length, rest @ ..] = changes {
            let (bytes, rest) = rest.split_at(rest.len().min(usize::from(*length)));
            changes = rest;
            let column = COLUMNS[usize::from(*column) % COLUMNS.len()];
            let change = format!("UPDATE semel_record SET {column} = ?1 WHERE key IS NOT 'good'");
            // A name that is taken, and what no file can hold, stay out.
            let _ = self.other.execute(&change, [value(*kind, bytes)]);
        }
    }

    async fn every_verb(&self, permit: &Permit) {
        let store = &self.store;
        for token in [1, 2] {
            match sound(claim(store, ask(KEY, token)).await) {
                Some(ClaimAnswer::Replay(record)) => replays(&record, KEY),
                _ => continue,
            }
        }
        if let Some(reading) = sound(store.read(vec![id(KEY), id("good")]).await) {
            reading.records.iter().flatten().for_each(shown);
        }
        let lease = Duration::from_secs(1);
        sound(store.renew(vec![Renew::of(permit, lease)]).await);
        let done = finish(FinishKind::Done, Some(outcome(KEY)));
        if let Some(Completed::Already(record)) = sound(store.complete(permit.clone(), done).await)
        {
            replays(&record, KEY);
        }
        let release = ReleaseAsk {
            token: permit.token,
            fence: Some(permit.fence),
            compare: false,
            reason: None,
            remember_for: lease,
        };
        sound(store.release(id(KEY), release).await);
        let (actor, resolve) = resolving(permit);
        sound(store.resolve(id(KEY), resolve, actor).await);
        if let Some(records) = sound(store.list(Filter { limit: 10, ..Filter::default() }).await) {
            records.iter().for_each(shown);
        }
        sound(store.counts().await);
        sound(store.audit(None, 10).await);
        sound(store.sweep(SweepBudget { records: 10 }).await);
    }
}

fn resolving(permit: &Permit) -> (Actor, ResolveAsk) {
    let actor = Actor { name: "fuzz".into(), note: "none".into() };
    let ask = ResolveAsk {
        resolve_id: [7; 16],
        token: permit.token,
        fence: permit.fence,
        verdict: Verdict::Done(outcome(KEY)),
        settle_for: Duration::ZERO,
        force: true,
        replay_for: Duration::from_secs(1),
        remember_for: Duration::from_secs(1),
    };
    (actor, ask)
}

/// What is replayed is what was stored, or nothing.
fn replays(record: &Record, key: &str) {
    shown(record);
    let kept: Option<Outcome> = record.outcome.clone();
    assert!(kept.is_none_or(|kept| kept == outcome(key)), "{record:?}");
}

/// A record can be shown, and asked when it ends, whatever it holds.
fn shown(record: &Record) {
    assert!(!format!("{record:?}").is_empty());
    let _ =
        (record.lease.ends_at(), record.phase(record.created_at), record.lapsed(record.claimed_at));
}
