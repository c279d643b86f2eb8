//! What targets that tamper with stored bytes stand on: folders in memory, and short ways to ask a store.

use std::{path::Path, time::Duration};

use semel::{
    Fingerprint, IntentId, Key, Operation, Outcome, Permit, Scope, Store, StoreError,
    StoreErrorKind, Tenant, Timestamp, Token,
    decide::{Ask, Compare, Finish, FinishKind, OnLost},
    store::ClaimAnswer,
};
use semel_sqlite::SqliteStore;
use tempfile::TempDir;

/// Makes a folder, in memory where the machine offers that: nothing is looked for in a flush.
pub(crate) fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a folder")
}

/// The name of an intent.
pub(crate) fn id(key: &str) -> IntentId {
    let scope = Scope::new(Tenant::new("t").expect("a tenant"), Operation::new("o").expect("one"));
    scope.intent(Key::new(key).expect("a key"))
}

/// What a record keeps.
pub(crate) fn outcome(key: &str) -> Outcome {
    Outcome::new(201, key.to_owned()).header("location", "/x").pointer("thing", key)
}

/// Asks for an intent.
pub(crate) fn ask(key: &str, token: u8) -> Ask {
    Ask {
        id: id(key),
        token: Token::from_bytes([token; 16]),
        fingerprint: Fingerprint::of_bytes(b"a"),
        older: Vec::new(),
        not_after: Timestamp::MAX,
        lease: Duration::from_secs(30),
        on_lost: OnLost::Hold,
        compare: Compare::Strict,
        claimed_by: None,
    }
}

/// Claims one intent.
pub(crate) async fn claim(store: &SqliteStore, ask: Ask) -> Result<ClaimAnswer, StoreError> {
    Ok(store.claim(vec![ask]).await?.remove(0).answer)
}

/// Claims an intent that nobody holds.
pub(crate) async fn granted(store: &SqliteStore, key: &str, token: u8) -> Permit {
    match claim(store, ask(key, token)).await {
        Ok(ClaimAnswer::Granted { permit, .. }) => permit,
        other => panic!("nobody holds {key}: {other:?}"),
    }
}

/// Ends a run.
pub(crate) fn finish(kind: FinishKind, outcome: Option<Outcome>) -> Finish {
    Finish {
        kind,
        outcome,
        reason: Some("test".into()),
        replay_for: Duration::from_secs(86_400),
        remember_for: Duration::from_secs(30 * 86_400),
    }
}

/// An answer, or the word that stored bytes are not what they were.
pub(crate) fn sound<T>(answer: Result<T, StoreError>) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer),
        Err(error) => {
            // A changed byte may also be the one that tells a newer version.
            let known = [StoreErrorKind::Damaged, StoreErrorKind::Version];
            assert!(known.contains(&error.kind()), "{error:?}");
            None
        }
    }
}
