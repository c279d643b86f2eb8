//! What the tests stand on: a store in a folder of its own, and short ways to ask it.

use std::time::Duration;

use semel::{
    Fingerprint, IntentId, Key, Operation, Outcome, Permit, Record, Scope, Store, StoreError,
    Tenant, Timestamp, Token,
    decide::{Ask, Compare, Finish, FinishKind, OnLost, ReleaseAsk},
    store::{ClaimAnswer, Claimed},
};
use semel_sqlite::{SqliteBuilder, SqliteStore};
use tempfile::TempDir;

/// A folder that lives as long as the test.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) folder: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("semel.db")
    }

    pub(crate) fn builder(&self) -> SqliteBuilder {
        SqliteStore::builder(self.path())
    }

    pub(crate) fn open(&self) -> SqliteStore {
        self.builder().open().unwrap()
    }
}

pub(crate) fn id(key: &str) -> IntentId {
    let scope =
        Scope::new(Tenant::new("acme").unwrap(), Operation::new("payments.create").unwrap());
    scope.intent(Key::new(key).unwrap())
}

pub(crate) fn token(number: u8) -> Token {
    Token::from_bytes([number; 16])
}

pub(crate) fn ask(key: &str, number: u8) -> Ask {
    Ask {
        id: id(key),
        token: token(number),
        fingerprint: Fingerprint::of_bytes(b"pay 10"),
        older: Vec::new(),
        not_after: Timestamp::MAX,
        lease: Duration::from_secs(30),
        on_lost: OnLost::Hold,
        compare: Compare::Strict,
        claimed_by: None,
    }
}

pub(crate) fn done(outcome: Outcome) -> Finish {
    Finish {
        kind: FinishKind::Done,
        outcome: Some(outcome),
        reason: None,
        replay_for: Duration::from_secs(60),
        remember_for: Duration::from_secs(600),
    }
}

pub(crate) fn release(permit: &Permit) -> ReleaseAsk {
    ReleaseAsk {
        token: permit.token,
        fence: Some(permit.fence),
        compare: false,
        reason: None,
        remember_for: Duration::from_secs(600),
    }
}

pub(crate) async fn claim(store: &SqliteStore, ask: Ask) -> Result<ClaimAnswer, StoreError> {
    let mut claimed: Vec<Claimed> = store.claim(vec![ask]).await?;
    Ok(claimed.remove(0).answer)
}

pub(crate) async fn granted(store: &SqliteStore, ask: Ask) -> Permit {
    match claim(store, ask).await.unwrap() {
        ClaimAnswer::Granted { permit, .. } => permit,
        other => panic!("not granted: {other:?}"),
    }
}

pub(crate) async fn record(store: &SqliteStore, key: &str) -> Option<Record> {
    store.read(vec![id(key)]).await.unwrap().records.remove(0)
}

/// Claims and completes.
pub(crate) async fn run(store: &SqliteStore, key: &str, body: Vec<u8>) -> Permit {
    let permit = granted(store, ask(key, 1)).await;
    let finish = done(Outcome::new(201, body));
    assert_eq!(
        store.complete(permit.clone(), finish).await.unwrap(),
        semel::store::Completed::Stored
    );
    permit
}
