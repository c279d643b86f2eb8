//! What needs processes: a crash, two of them on one file, and disks that are full or cannot be written.
//!
//! A child is this very test binary, asked for one test and told its part by the environment; without
//! a part the test has nothing to do.

use std::{
    collections::HashSet,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
};

use semel::{
    Outcome, State, Store, StoreErrorKind,
    store::{ClaimAnswer, Completed},
};
use semel_sqlite::SqliteStore;

use crate::bench::{Bench, ask, claim, done, granted, record};

const PART: &str = "SEMEL_TEST_FILE";

/// The file that this process is to play its part on, if it is a child.
pub(crate) fn part() -> Option<PathBuf> {
    std::env::var_os(PART).map(PathBuf::from)
}

pub(crate) fn child(test: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(PART, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

pub(crate) fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n@{line}").unwrap();
    out.flush().unwrap();
}

/// The lines that a child tells.
pub(crate) fn told(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.map_while(Result::ok).filter_map(|line| line.strip_prefix('@').map(str::to_owned))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_that_runs_until_it_is_killed() {
    let Some(path) = part() else { return };
    let store = Arc::new(SqliteStore::builder(path).open().unwrap());
    let callers: Vec<_> = (0..16)
        .map(|caller| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for number in 0.. {
                    let key = format!("{caller}-{number}");
                    let permit = granted(&store, ask(&key, caller)).await;
                    tell(&format!("claimed {key}"));
                    let finish = done(Outcome::new(201, key.clone()));
                    assert_eq!(store.complete(permit, finish).await.unwrap(), Completed::Stored);
                    tell(&format!("done {key}"));
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
}

/// S05
#[tokio::test]
async fn everything_acknowledged_before_a_kill_is_there_after_it() {
    let bench = Bench::new();
    for round in 1..=5 {
        let path = bench.folder.path().join(format!("{round}.db"));
        let mut writer = child("process::child_that_runs_until_it_is_killed", &path);
        let mut lines = told(&mut writer);
        let mut acknowledged: Vec<_> = lines.by_ref().take(round * 60).collect();
        writer.kill().unwrap();
        writer.wait().unwrap();
        acknowledged.extend(lines);
        let store = SqliteStore::builder(&path).open().unwrap();
        for line in acknowledged {
            let (word, key) = line.split_once(' ').unwrap();
            let kept = record(&store, key).await.unwrap_or_else(|| panic!("{line} is lost"));
            if word == "done" {
                assert_eq!(kept.state, State::Done);
                assert_eq!(kept.outcome, Some(Outcome::new(201, key.to_owned())));
            }
        }
    }
}

async fn claim_all(store: &SqliteStore, token: u8) -> Vec<String> {
    let mut won = Vec::new();
    for number in 0..300 {
        let key = format!("k{number}");
        match claim(store, ask(&key, token)).await.unwrap() {
            ClaimAnswer::Granted { .. } => won.push(key),
            ClaimAnswer::Refused(_) => {}
            other => panic!("{other:?}"),
        }
    }
    won
}

#[tokio::test]
async fn child_that_claims_all() {
    let Some(path) = part() else { return };
    let store = SqliteStore::builder(path).open().unwrap();
    for key in claim_all(&store, 2).await {
        tell(&key);
    }
}

/// C10
#[tokio::test]
async fn of_two_processes_on_one_file_one_wins_each_key() {
    let bench = Bench::new();
    let store = bench.open();
    let mut other = child("process::child_that_claims_all", &bench.path());
    let mut won: Vec<_> = claim_all(&store, 1).await;
    won.extend(told(&mut other));
    assert!(other.wait().unwrap().success());
    assert_eq!(won.len(), 300);
    assert_eq!(won.into_iter().collect::<HashSet<_>>().len(), 300);
}

/// Runs a script in a mount namespace of its own, in which `$DIR` is a disk of 1 MiB in memory and
/// `$CHILD NAME` plays a part on a file of it.
fn on_a_small_disk(script: &str) {
    let folder = Bench::new();
    let disk = folder.folder.path();
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let script = format!(
        "set -e; mount -t tmpfs -o size=1m semel \"$DIR\"; \
         child() {{ \"$EXE\" --exact \"process::$1\" --nocapture --test-threads=1; }}; {script}"
    );
    let mut unshare = Command::new("unshare");
    unshare.arg("--mount");
    if !is_root {
        unshare.arg("--map-root-user");
    }
    let ran = unshare
        .args(["sh", "-c", &script])
        .env("DIR", disk)
        .env("EXE", std::env::current_exe().unwrap())
        .env(PART, disk.join("semel.db"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.contains("@played"), "{said}\n{errors}");
}

#[tokio::test]
async fn child_on_a_full_disk() {
    let Some(path) = part() else { return };
    let ballast = path.with_file_name("ballast");
    std::fs::write(&ballast, vec![0; 300 * 1024]).unwrap();
    let store = SqliteStore::builder(&path).open().unwrap();
    let mut acknowledged = Vec::new();
    let full = loop {
        let key = format!("k{}", acknowledged.len());
        let answer = match claim(&store, ask(&key, 1)).await {
            Ok(ClaimAnswer::Granted { permit, .. }) => {
                store.complete(permit, done(Outcome::new(201, vec![b'x'; 2_000]))).await
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error),
        };
        match answer {
            Ok(_) => acknowledged.push(key),
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), StoreErrorKind::Full, "{full}");
    assert!(full.to_string().contains("make room"), "{full}");
    assert!(acknowledged.len() > 5, "{}", acknowledged.len());
    for key in &acknowledged {
        assert_eq!(record(&store, key).await.unwrap().state, State::Done);
    }
    std::fs::remove_file(ballast).unwrap();
    granted(&store, ask("after", 1)).await;
    drop(store);
    let store = SqliteStore::builder(&path).open().unwrap();
    for key in &acknowledged {
        assert_eq!(record(&store, key).await.unwrap().state, State::Done);
    }
    assert_eq!(record(&store, "after").await.unwrap().state, State::Running);
    tell("played");
}

#[test]
fn a_full_disk_loses_nothing_and_the_store_goes_on_when_there_is_room() {
    on_a_small_disk("child child_on_a_full_disk");
}

#[tokio::test]
async fn child_that_makes_a_store() {
    let Some(path) = part() else { return };
    let store = SqliteStore::builder(path).open().unwrap();
    granted(&store, ask("k", 1)).await;
}

#[test]
fn child_on_a_disk_that_can_only_be_read() {
    let Some(path) = part() else { return };
    let error = SqliteStore::builder(&path).open().unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::ReadOnly, "{error}");
    assert!(error.to_string().contains("can only be read"), "{error}");
    let missing = SqliteStore::builder(path.with_file_name("new.db")).open().unwrap_err();
    assert_eq!(missing.kind(), StoreErrorKind::ReadOnly, "{missing}");
    tell("played");
}

#[test]
fn a_disk_that_can_only_be_read_is_told() {
    on_a_small_disk(
        "child child_that_makes_a_store; mount -o remount,ro \"$DIR\"; \
         child child_on_a_disk_that_can_only_be_read",
    );
}
