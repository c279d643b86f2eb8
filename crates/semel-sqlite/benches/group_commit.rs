//! How much sharing a commit gains: 64 concurrent callers who each claim and complete, durably,
//! against the same work with one commit for each step.
//!
//! `cargo bench -p semel-sqlite --bench group_commit -- [--json] [--grouped] [--seconds N] [--dir FOLDER]`
//!
//! The folder must lie on the disk in question; a file system in memory has nothing to flush.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a bench measures time and may fail by panicking"
)]

use std::{
    path::{Path, PathBuf},
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

const CALLERS: u64 = 64;

#[derive(Debug)]
struct Options {
    json: bool,
    /// Only the grouped round, for a profiler.
    grouped: bool,
    seconds: u64,
    dir: PathBuf,
}

/// What one round measured.
#[derive(Debug)]
struct Round {
    steps_per_second: f64,
    median: Duration,
    p99: Duration,
}

fn main() {
    let options = options();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if options.grouped {
        let grouped = runtime.block_on(round(&options, 512, CALLERS));
        show("64 callers, grouped commits", &grouped);
        return;
    }
    let alone = runtime.block_on(round(&options, 1, 1));
    let single = runtime.block_on(round(&options, 1, CALLERS));
    let grouped = runtime.block_on(round(&options, 512, CALLERS));
    let replayed = runtime.block_on(replays(&options));
    let ratio = grouped.steps_per_second / single.steps_per_second;
    if options.json {
        println!(
            "{{\"bench\":\"group_commit\",\"callers\":{CALLERS},\"alone_steps_per_s\":{:.0},\
             \"single_steps_per_s\":{:.0},\"grouped_steps_per_s\":{:.0},\"ratio\":{ratio:.2},\
             \"grouped_p50_us\":{},\"grouped_p99_us\":{},\"replays_per_s\":{replayed:.0}}}",
            alone.steps_per_second,
            single.steps_per_second,
            grouped.steps_per_second,
            grouped.median.as_micros(),
            grouped.p99.as_micros(),
        );
        return;
    }
    show("1 caller, one commit per step", &alone);
    show("64 callers, one commit per step", &single);
    show("64 callers, grouped commits", &grouped);
    println!("{:<42} {replayed:>9.0} replays/s", "64 callers, replays");
    println!("grouped / one commit per step: {ratio:.1}");
}

fn show(name: &str, round: &Round) {
    println!(
        "{name:<42} {:>9.0} steps/s   claim+complete p50 {:>8.2?}  p99 {:>8.2?}",
        round.steps_per_second, round.median, round.p99
    );
}

fn options() -> Options {
    let mut options =
        Options { json: false, grouped: false, seconds: 3, dir: std::env::temp_dir() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" => options.json = true,
            "--grouped" => options.grouped = true,
            "--seconds" => options.seconds = words.next().unwrap().parse().unwrap(),
            "--dir" => options.dir = words.next().unwrap().into(),
            _ => {}
        }
    }
    options
}

fn open(folder: &Path, group_max: usize) -> Arc<SqliteStore> {
    let builder = SqliteStore::builder(folder.join("semel.db")).group_max(group_max);
    Arc::new(builder.open().unwrap())
}

/// Claims and completes new intents until the time is over.
async fn round(options: &Options, group_max: usize, callers: u64) -> Round {
    let folder = tempfile::tempdir_in(&options.dir).unwrap();
    let store = open(folder.path(), group_max);
    let serial = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let until = began + Duration::from_secs(options.seconds);
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
async fn replays(options: &Options) -> f64 {
    let folder = tempfile::tempdir_in(&options.dir).unwrap();
    let store = open(folder.path(), 512);
    for serial in 0..1_000 {
        once(&store, serial).await;
    }
    let began = Instant::now();
    let until = began + Duration::from_secs(1);
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
