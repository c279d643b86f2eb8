//! Trouble with the file: each has a clear answer, and nothing that was acknowledged is lost.

use std::{fs, path::Path, sync::Arc, time::Duration};

use rusqlite::Connection;
use semel::{
    Outcome, Store, StoreErrorKind,
    inbox::{
        Consumer, Delivery, InboxStore, InboxSweep, MessageId, Park, Receipt, SourceName, Uncount,
    },
    outbox::OutboxRetain,
    store::{
        ClaimAnswer, Completed,
        capability::{Sweep, SweepBudget},
    },
};
use semel_sqlite::SqliteStore;

use crate::bench::{Bench, ask, claim, done, granted, id, record, run};

/// Checks that opening fails with this kind and a sentence that holds these words.
#[track_caller]
fn refused(path: &Path, kind: StoreErrorKind, words: &str) {
    let error = SqliteStore::builder(path).open().unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn a_path_that_is_a_folder_is_told() {
    let bench = Bench::new();
    refused(bench.folder.path(), StoreErrorKind::Invalid, "is a folder");
}

#[test]
fn a_missing_folder_is_told() {
    let bench = Bench::new();
    let path = bench.folder.path().join("missing").join("semel.db");
    refused(&path, StoreErrorKind::Invalid, "does not exist");
}

#[test]
fn a_store_in_memory_is_refused() {
    refused(Path::new(":memory:"), StoreErrorKind::Invalid, "needs a file");
}

#[test]
fn a_file_of_something_else_is_damaged() {
    let bench = Bench::new();
    fs::write(bench.path(), "no database at all, but long enough to hold a header ".repeat(99))
        .unwrap();
    refused(&bench.path(), StoreErrorKind::Damaged, "no SQLite file");
}

#[tokio::test]
async fn a_damaged_page_is_found_at_open() {
    let bench = Bench::new();
    let store = bench.open();
    for number in 0..200 {
        run(&store, &format!("k{number}"), vec![b'x'; 300]).await;
    }
    drop(store);
    let mut bytes = fs::read(bench.path()).unwrap();
    let half = bytes.len() / 2 / 4096 * 4096;
    bytes[half..half + 4096].fill(0x5a);
    fs::write(bench.path(), bytes).unwrap();
    refused(&bench.path(), StoreErrorKind::Damaged, "restore a backup");
}

#[tokio::test]
async fn a_damaged_outcome_harms_no_other_record() {
    let bench = Bench::new();
    let store = bench.open();
    run(&store, "bad", vec![1; 100]).await;
    run(&store, "good", vec![2; 100]).await;
    let other = Connection::open(bench.path()).unwrap();
    let flip =
        "UPDATE semel_record SET outcome = CAST(x'0100' || outcome AS BLOB) WHERE key = 'bad'";
    assert_eq!(other.execute(flip, []).unwrap(), 1);
    let error = claim(&store, ask("bad", 9)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Damaged);
    assert!(matches!(claim(&store, ask("good", 9)).await.unwrap(), ClaimAnswer::Replay(_)));
    // In one group with others, by the writer: the damaged one fails alone.
    let permit = semel::Permit { id: id("bad"), ..granted(&store, ask("new", 3)).await };
    let (bad, good) = tokio::join!(
        store.complete(permit, done(Outcome::new(200, ""))),
        store.claim(vec![ask("a", 4), ask("a", 5)]),
    );
    assert_eq!(bad.unwrap_err().kind(), StoreErrorKind::Damaged);
    assert!(matches!(good.unwrap()[0].answer, ClaimAnswer::Granted { .. }));
}

/// S02
#[tokio::test]
async fn a_file_locked_by_another_program_is_busy_for_a_bounded_time() {
    let bench = Bench::new();
    let store = bench.builder().busy_wait(Duration::from_millis(50)).open().unwrap();
    run(&store, "k", vec![1]).await;
    let other = Connection::open(bench.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = claim(&store, ask("new", 2)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Busy);
    assert!(error.to_string().contains("locked"), "{error}");
    // Whoever only repeats what is done waits for nobody.
    assert!(matches!(claim(&store, ask("k", 2)).await.unwrap(), ClaimAnswer::Replay(_)));
    other.execute_batch("ROLLBACK").unwrap();
    granted(&store, ask("new", 2)).await;
}

/// What a consumer asks beside its transactions, and what is dropped of an outbox, waits for a second and
/// for 100 ms, behind whatever it is asked; claims wait for as long as the store was told to.
#[tokio::test(flavor = "multi_thread")]
async fn each_verb_waits_for_a_lock_as_long_as_it_says() {
    let bench = Bench::new();
    let store = Arc::new(bench.builder().busy_wait(Duration::from_secs(600)).open().unwrap());
    let other = Connection::open(bench.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let claimed = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { claim(&store, ask("k", 1)).await })
    };
    let consumer = Consumer::new("billing").unwrap();
    let message = MessageId::new(SourceName::new("queue:orders").unwrap(), "a").unwrap();
    let delivery = Delivery::new(message.clone(), Receipt(1), None);
    let fingerprint = delivery.fingerprint();
    let park = Park {
        consumer: consumer.clone(),
        delivery,
        fingerprint,
        moves: false,
        attempts: 1,
        why: "no".into(),
    };
    let waits = async {
        let counted = store.count(consumer.clone(), vec![message.clone()]).await;
        assert_eq!(counted.unwrap_err().kind(), StoreErrorKind::Busy);
        let uncounted = store.uncount(consumer, vec![message], Uncount::Ended).await;
        assert_eq!(uncounted.unwrap_err().kind(), StoreErrorKind::Busy);
        assert_eq!(store.park(park).await.unwrap_err().kind(), StoreErrorKind::Busy);
        assert_eq!(store.sweep_inbox(10).await.unwrap_err().kind(), StoreErrorKind::Busy);
        let retained = store.retain(Duration::ZERO).await.unwrap();
        assert!(retained.held_up.unwrap().contains("locked"));
    };
    tokio::time::timeout(Duration::from_secs(60), waits).await.expect("it waits for the lock");
    other.execute_batch("ROLLBACK").unwrap();
    let claimed = claimed.await.unwrap().unwrap();
    assert!(matches!(claimed, ClaimAnswer::Granted { .. }), "{claimed:?}");
}

#[test]
fn a_file_locked_when_it_is_opened_is_busy() {
    let bench = Bench::new();
    drop(bench.open());
    let other = Connection::open(bench.path()).unwrap();
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; COMMIT").unwrap();
    let error = bench.builder().busy_wait(Duration::from_millis(20)).open().unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Busy, "{error}");
}

#[tokio::test]
async fn a_full_file_refuses_new_intents_and_keeps_room_for_the_ends_of_old_ones() {
    let bench = Bench::new();
    let store = bench.builder().page_max(128).open().unwrap();
    let mut brief = done(Outcome::new(201, vec![b'x'; 200]));
    brief.replay_for = Duration::ZERO;
    brief.remember_for = Duration::ZERO;
    let mut held = Vec::new();
    for number in 0..20 {
        held.push(granted(&store, ask(&format!("held{number}"), 1)).await);
    }
    let mut finished = 0;
    let full = loop {
        match claim(&store, ask(&format!("k{finished}"), 1)).await {
            Ok(ClaimAnswer::Granted { permit, .. }) => {
                let stored = store.complete(permit, brief.clone()).await.unwrap();
                assert_eq!(stored, Completed::Stored);
                finished += 1;
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), StoreErrorKind::Full);
    assert!(full.to_string().contains("page bound"), "{full}");
    for permit in held {
        let stored = store.complete(permit.clone(), brief.clone()).await.unwrap();
        assert_eq!(stored, Completed::Stored);
    }
    for number in 0..finished {
        assert!(record(&store, &format!("k{number}")).await.is_some());
    }
    // What is remembered no longer makes room.
    while store.sweep(SweepBudget::default()).await.unwrap().more {}
    granted(&store, ask("again", 7)).await;
}

#[tokio::test]
async fn an_end_too_large_for_a_full_file_fails_alone() {
    let bench = Bench::new();
    let store = bench.builder().page_max(64).open().unwrap();
    let large = granted(&store, ask("large", 1)).await;
    let small = granted(&store, ask("small", 2)).await;
    let (large, small) = tokio::join!(
        store.complete(large, done(Outcome::new(200, vec![0; 1024 * 1024]))),
        store.complete(small, done(Outcome::new(200, "fits"))),
    );
    assert_eq!(large.unwrap_err().kind(), StoreErrorKind::Full);
    assert_eq!(small.unwrap(), Completed::Stored);
    assert_eq!(record(&store, "large").await.unwrap().state, semel::State::Running);
}

#[tokio::test]
async fn a_newer_schema_is_refused_at_open_and_while_it_is_open() {
    let bench = Bench::new();
    let store = bench.open();
    run(&store, "k", vec![1]).await;
    let other = Connection::open(bench.path()).unwrap();
    other
        .execute_batch(
            "INSERT INTO semel_migration VALUES (9999, 'x', zeroblob(32), 0);
             UPDATE semel_meta SET schema = 9999",
        )
        .unwrap();
    for asked in ["k", "new"] {
        let error = claim(&store, ask(asked, 5)).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Version);
        assert!(error.to_string().contains("upgrade"), "{error}");
    }
    drop(store);
    refused(&bench.path(), StoreErrorKind::Version, "upgrade semel");
    assert_eq!(SqliteStore::schema_version(bench.path()).unwrap(), 9999);
}

#[test]
fn a_file_without_a_schema_is_migrated_only_if_wanted() {
    let bench = Bench::new();
    drop(Connection::open(bench.path()).unwrap());
    let error = bench.builder().migrate(false).open().unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Version);
    assert_eq!(SqliteStore::schema_version(bench.path()).unwrap(), 0);
    assert_eq!(SqliteStore::migrate(bench.path()).unwrap(), 0);
    assert_eq!(SqliteStore::schema_version(bench.path()).unwrap(), SqliteStore::schema_current());
    bench.builder().migrate(false).open().unwrap();
}

#[test]
fn the_schema_of_a_missing_file_is_not_made_up() {
    let bench = Bench::new();
    assert!(SqliteStore::schema_version(bench.path()).is_err());
    assert!(!bench.path().exists());
}

#[tokio::test]
async fn the_log_stays_bounded() {
    let bench = Bench::new();
    let store = bench.open();
    for number in 0..60 {
        run(&store, &format!("k{number}"), vec![b'x'; 1024 * 1024]).await;
    }
    let log = fs::metadata(bench.path().with_extension("db-wal")).unwrap().len();
    assert!(log < 48 * 1024 * 1024, "the log has {log} bytes after 60 MiB");
}

#[test]
fn a_new_file_may_be_opened_by_many_at_once() {
    for _ in 0..5 {
        let bench = Bench::new();
        let begin = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            let open = || {
                begin.wait();
                bench.builder().open().map(drop)
            };
            let opening: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            for opened in opening {
                opened.join().unwrap().unwrap();
            }
        });
    }
}
