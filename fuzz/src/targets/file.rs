//! Any bytes anywhere in the file of a SQLite store: it opens or says that it is damaged, every verb answers or says
//! so, and no outcome is replayed but the one that was stored.
//!
//! Again and again: two bytes of a place, the length of what is written there, and the bytes.

use std::{cell::OnceCell, fs, path::PathBuf, time::Duration};

use semel::{
    Outcome, Store, StoreError, StoreErrorKind,
    decide::FinishKind,
    store::{
        ClaimAnswer,
        capability::{Filter, Inspect, Sweep, SweepBudget},
    },
};
use semel_sqlite::SqliteStore;
use tempfile::TempDir;
use tokio::time::timeout;

use crate::{
    kept::{ask, claim, finish, folder, granted, outcome},
    runtime,
};

const KEYS: [&str; 3] = ["done", "failed", "held"];
const PATIENCE: Duration = Duration::from_secs(10);

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    thread_local! {
        static SOUND: OnceCell<Sound> = const { OnceCell::new() };
    }
    SOUND.with(|sound| {
        let sound = sound.get_or_init(|| runtime(Sound::new()));
        fs::write(&sound.path, tampered(&sound.bytes, data)).expect("the folder can be written to");
        for rest in ["-wal", "-shm"] {
            let _ = fs::remove_file(format!("{}{rest}", sound.path.display()));
        }
        runtime(async {
            timeout(PATIENCE, check(sound)).await.expect("every verb ends");
        });
    });
}

/// A file that nobody tampered with.
struct Sound {
    bytes: Vec<u8>,
    path: PathBuf,
    _folder: TempDir,
}

impl Sound {
    async fn new() -> Self {
        let folder = folder();
        let made = folder.path().join("sound.db");
        let store = SqliteStore::builder(&made).open().expect("a new file");
        for (key, kind) in [("done", FinishKind::Done), ("failed", FinishKind::Failed)] {
            let permit = granted(&store, key, 1).await;
            let ended = finish(kind, Some(outcome(key)));
            store.complete(permit, ended).await.expect("it is held");
        }
        granted(&store, "held", 1).await;
        drop(store);
        let bytes = fs::read(&made).expect("the file");
        Self { bytes, path: folder.path().join("tampered.db"), _folder: folder }
    }
}

fn tampered(sound: &[u8], mut changes: &[u8]) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    while let [high, low, length, rest @ ..] = changes {
        let (written, rest) = rest.split_at(rest.len().min(usize::from(*length % 64)));
        changes = rest;
        let at = usize::from(u16::from_be_bytes([*high, *low])) * bytes.len() / 0x1_0000;
        let end = (at + written.len()).min(bytes.len());
        bytes[at..end].copy_from_slice(&written[..end - at]);
    }
    bytes
}

async fn check(sound: &Sound) {
    let Some(store) = told(SqliteStore::builder(&sound.path).open()) else { return };
    for key in KEYS {
        if let Some(ClaimAnswer::Replay(record)) = told(claim(&store, ask(key, 2)).await) {
            let kept: Option<Outcome> = record.outcome.clone();
            assert!(kept.is_none_or(|kept| kept == outcome(key)), "{record:?}");
        }
    }
    told(claim(&store, ask("new", 3)).await);
    told(store.list(Filter { limit: 10, ..Filter::default() }).await);
    told(store.counts().await);
    told(store.sweep(SweepBudget { records: 10 }).await);
}

/// An answer, or a word that says that the file is not what it was: damaged, of another version or not to be used.
fn told<T>(answer: Result<T, StoreError>) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer),
        Err(error) => {
            let known = [
                StoreErrorKind::Damaged,
                StoreErrorKind::Full,
                StoreErrorKind::Invalid,
                StoreErrorKind::ReadOnly,
                StoreErrorKind::Unavailable,
                StoreErrorKind::Version,
            ];
            assert!(known.contains(&error.kind()), "{error:?}");
            assert!(!error.to_string().is_empty());
            None
        }
    }
}
