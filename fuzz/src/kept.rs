//! What targets that tamper with stored bytes stand on: folders in memory, and short ways to ask a store.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, types::Value};
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

/// Lets any value into any column of a file's tables: the rules of the schema are somebody else's then.
pub(crate) fn loosen(conn: &Connection) {
    let lax = "PRAGMA writable_schema = ON;
        UPDATE sqlite_schema SET sql = replace(replace(replace(
            sql, ' NOT NULL', ''), ') STRICT, WITHOUT', ') WITHOUT'), ') STRICT', ')')
        WHERE type = 'table' AND name LIKE 'semel%' AND name <> 'semel_meta';
        PRAGMA writable_schema = RESET; PRAGMA ignore_check_constraints = ON;";
    conn.execute_batch(lax).expect("the schema can be written");
}

/// Changes rows: again and again a column, a type, a length and the value's bytes. Each place is a table, a column, and
/// which rows of it may be changed.
pub(crate) fn tamper(conn: &Connection, places: &[(&str, &str, &str)], mut changes: &[u8]) {
    while let [place, kind, length, rest @ ..] = changes {
        let (bytes, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        changes = rest;
        let (table, column, rows) = places[usize::from(*place) % places.len()];
        let change = format!("UPDATE {table} SET {column} = ?1 WHERE {rows}");
        // A name that is taken, and what no file can hold, stay out.
        let _ = conn.execute(&change, [value(*kind, bytes)]);
    }
}

/// A value of any type that SQLite has.
pub(crate) fn value(kind: u8, bytes: &[u8]) -> Value {
    let eight = || std::array::from_fn(|at| bytes.get(at).copied().unwrap_or_default());
    match kind % 5 {
        0 => Value::Null,
        1 => Value::Integer(i64::from_le_bytes(eight())),
        2 => Value::Real(f64::from_le_bytes(eight())),
        3 => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
        _ => Value::Blob(bytes.to_vec()),
    }
}

/// Pieces of bytes, a length before each.
pub(crate) struct Pieces<'a>(pub(crate) &'a [u8]);

impl<'a> Pieces<'a> {
    /// The next one; empty at the end.
    pub(crate) fn next(&mut self) -> &'a [u8] {
        let Some((length, rest)) = self.0.split_first() else { return &[] };
        let (piece, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        self.0 = rest;
        piece
    }

    /// The next one; none if its first byte says so.
    pub(crate) fn optional(&mut self) -> Option<&'a [u8]> {
        self.next().split_first().filter(|(first, _)| **first != 0).map(|(_, rest)| rest)
    }

    /// The next one as text, up to its first zero.
    pub(crate) fn text(&mut self) -> String {
        let name = self.next().split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    }
}
