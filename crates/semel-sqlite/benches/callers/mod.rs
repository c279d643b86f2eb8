//! The work that is measured: callers who claim and complete new intents, and callers who repeat
//! finished ones. The workspace's own bench measures the same.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use semel::{
    Fingerprint, Key, Operation, Outcome, Permit, Scope, Store, Tenant, Timestamp, Token,
    decide::{Ask, Compare, Finish, FinishKind, OnLost},
    store::{ClaimAnswer, Completed},
};
use semel_sqlite::SqliteStore;

/// How many callers there are.
pub(crate) const CALLERS: u64 = 64;

/// What one round measured. A claim is a step, and a completion is one.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) steps_per_second: f64,
    pub(crate) median: Duration,
    pub(crate) p99: Duration,
}

fn open(folder: &Path, group_max: usize) -> Arc<SqliteStore> {
    let builder = SqliteStore::builder(folder.join("semel.db")).group_max(group_max);
    Arc::new(builder.open().unwrap())
}

/// Claims and completes new intents until the time is over.
pub(crate) async fn round(dir: &Path, span: Duration, group_max: usize, callers: u64) -> Round {
    let folder = tempfile::tempdir_in(dir).unwrap();
    let store = open(folder.path(), group_max);
    let serial = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let until = began + span;
    let callers: Vec<_> = (0..callers)
        .map(|_| {
            let (store, serial) = (Arc::clone(&store), Arc::clone(&serial));
            tokio::spawn(async move {
                let mut spans = Vec::new();
                while Instant::now() < until {
                    let began = Instant::now();
                    once(&store, serial.fetch_add(1, Ordering::Relaxed)).await;
                    spans.push(began.elapsed());
                }
                spans
            })
        })
        .collect();
    let mut spans = Vec::new();
    for caller in callers {
        spans.extend(caller.await.unwrap());
    }
    let elapsed = began.elapsed().as_secs_f64();
    spans.sort();
    let steps = 2.0 * f64::from(u32::try_from(spans.len()).unwrap());
    let at = |percent: usize| spans[(spans.len() - 1) * percent / 100];
    Round { steps_per_second: steps / elapsed, median: at(50), p99: at(99) }
}

async fn once(store: &SqliteStore, serial: u64) {
    let permit = granted(store, serial).await;
    let outcome = Outcome::new(201, vec![b'x'; 200])
        .header("content-type", "application/json")
        .header("location", "/payments/7");
    let finish = Finish {
        kind: FinishKind::Done,
        outcome: Some(outcome),
        reason: None,
        replay_for: Duration::from_secs(86_400),
        remember_for: Duration::from_secs(30 * 86_400),
    };
    assert_eq!(store.complete(permit, finish).await.unwrap(), Completed::Stored);
}

async fn granted(store: &SqliteStore, serial: u64) -> Permit {
    match store.claim(vec![ask(serial, 1)]).await.unwrap().remove(0).answer {
        ClaimAnswer::Granted { permit, .. } => permit,
        other => unreachable!("{other:?}"),
    }
}

fn ask(serial: u64, token: u8) -> Ask {
    // Keys that lie far from each other, as random ones do.
    let key = format!("{:016x}-{serial}", serial.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let scope =
        Scope::new(Tenant::new("acme").unwrap(), Operation::new("payments.create").unwrap());
    let mut bytes = [token; 16];
    bytes[..8].copy_from_slice(&serial.to_be_bytes());
    Ask {
        id: scope.intent(Key::new(key).unwrap()),
        token: Token::from_bytes(bytes),
        fingerprint: Fingerprint::of_bytes(b"pay 10"),
        older: Vec::new(),
        not_after: Timestamp::MAX,
        lease: Duration::from_secs(30),
        on_lost: OnLost::Hold,
        compare: Compare::Strict,
        claimed_by: None,
    }
}

/// Replays 1,000 finished intents until the time is over.
pub(crate) async fn replays(dir: &Path, span: Duration) -> f64 {
    let folder = tempfile::tempdir_in(dir).unwrap();
    let store = open(folder.path(), 512);
    for serial in 0..1_000 {
        once(&store, serial).await;
    }
    let began = Instant::now();
    let until = began + span;
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut count = 0_u32;
                while Instant::now() < until {
                    for serial in 0..16 {
                        let ask = ask((serial * CALLERS + caller) % 1_000, 2);
                        let answer = store.claim(vec![ask]).await.unwrap().remove(0).answer;
                        assert!(matches!(answer, ClaimAnswer::Replay(_)));
                        count += 1;
                    }
                    tokio::task::yield_now().await;
                }
                count
            })
        })
        .collect();
    let mut count = 0;
    for caller in callers {
        count += caller.await.unwrap();
    }
    f64::from(count) / began.elapsed().as_secs_f64()
}
