//! Positions are in the order of commits, whatever happens to the file.

use std::time::Duration;

use rusqlite::Connection;
use semel::outbox::{OutboxRetain, OutboxStore, Pos, Settled, Start, store::Pass};
use semel_testkit::ManualClock;

use super::{LEASE, Shop, lead_from, leader, numbers, settle};

async fn settle_all(shop: &Shop, leader: &semel::outbox::Leader) {
    let window = shop.window(leader).await;
    let mut all = settle(leader, window.pass.zip(Some(window.upto)));
    all.ends = true;
    assert_eq!(shop.store.settle(all).await.unwrap(), Settled::Stored);
}

/// Does what `clear` says to the file after all events were settled, and checks that what is appended
/// then is read all the same.
async fn nothing_is_skipped_after(clear: &str) {
    let mut shop = Shop::new();
    let before = shop.leader().await;
    shop.append("7", 0..5);
    settle_all(&shop, &before).await;
    shop.conn.execute_batch(clear).unwrap();
    let appended = shop.append("7", 5..7);
    let mut leader = before.clone();
    if shop.store.renew(before.clone(), LEASE).await.unwrap() == Settled::Stale {
        // What it settles now would be of positions that are no more.
        let late = settle(&before, Some((Pass(2), Pos(5))));
        assert_eq!(shop.store.settle(late).await.unwrap(), Settled::Stale);
        leader = shop.leader().await;
        assert!(leader.epoch > before.epoch && leader.generation > before.generation);
    }
    let read = shop.waiting(&leader).await;
    assert!(appended.iter().all(|id| read.contains(id)), "{clear}: {read:?} lacks {appended:?}");
    settle_all(&shop, &leader).await;
    assert_eq!(shop.waiting(&leader).await, []);
}

#[tokio::test]
async fn positions_of_a_rolled_back_transaction_are_used_by_the_next() {
    let mut shop = Shop::new();
    let leader = shop.leader().await;
    shop.append("7", 0..2);
    let transact = shop.store.transact();
    let tx = shop.begin();
    transact.publish(&tx, &[super::event("7", 9)]).unwrap();
    drop(tx);
    settle_all(&shop, &leader).await;
    let appended = shop.append("7", 2..3);
    assert_eq!(shop.waiting(&leader).await, appended);
}

#[tokio::test]
async fn a_vacuum_moves_no_event() {
    nothing_is_skipped_after("DELETE FROM semel_outbox WHERE pos < 4; VACUUM").await;
}

#[tokio::test]
async fn positions_go_on_after_the_table_was_emptied() {
    nothing_is_skipped_after("DELETE FROM semel_outbox").await;
}

#[tokio::test]
async fn positions_go_on_after_sqlite_has_forgotten_them() {
    nothing_is_skipped_after("DELETE FROM sqlite_sequence").await;
}

#[tokio::test]
async fn positions_that_began_anew_are_read_from_the_beginning() {
    nothing_is_skipped_after("DELETE FROM semel_outbox; DELETE FROM sqlite_sequence").await;
}

#[tokio::test]
async fn the_position_of_an_event_cannot_be_moved_behind_a_cursor() {
    let mut shop = Shop::new();
    shop.append("7", 0..3);
    for sql in [
        "INSERT INTO semel_outbox (pos, aggregatetype, aggregateid, type) VALUES (1, 'a', 'b', 'c')",
        "INSERT OR REPLACE INTO semel_outbox (pos, aggregatetype, aggregateid, type) \
         VALUES (2, 'a', 'b', 'c')",
        "INSERT INTO semel_outbox (pos, aggregatetype, aggregateid, type) VALUES (-2, 'a', 'b', 'c')",
        "UPDATE semel_outbox SET pos = 9 WHERE pos = 1",
    ] {
        shop.conn.execute(sql, []).unwrap_err();
    }
    assert_eq!(numbers(&shop.conn, "SELECT count(*) FROM semel_outbox"), 3);
}

/// A backup has cursors and events of one instant.
#[tokio::test]
async fn a_backup_that_is_put_back_goes_on_from_its_cursor_under_an_epoch_of_its_own() {
    let mut shop = Shop::new();
    let first = shop.leader().await;
    shop.append("7", 0..3);
    settle_all(&shop, &first).await;
    let unsent = shop.append("7", 3..5);
    let backup = shop.bench.folder.path().join("backup.db");
    shop.conn.execute("VACUUM INTO ?1", [backup.to_str().unwrap()]).unwrap();
    // After the backup another relay takes over, sends all, and is frozen.
    shop.clock.advance(LEASE * 2);
    let frozen = shop.leader().await;
    settle_all(&shop, &frozen).await;
    shop.clock.advance(LEASE * 2);
    let restored = semel_sqlite::SqliteStore::builder(&backup)
        .clock(ManualClock::at(semel::Clock::wall(&*shop.clock)))
        .open()
        .unwrap();
    let after = leader(lead_from(&restored, "a", Start::Earliest).await);
    assert!(after.epoch > frozen.epoch);
    let window = restored.read(after, None, 100, usize::MAX).await.unwrap();
    assert_eq!(super::ids(&window), unsent);
    let late = settle(&frozen, Some((Pass(5), Pos(5))));
    assert_eq!(restored.settle(late).await.unwrap(), Settled::Stale);
}

#[tokio::test]
async fn a_destination_that_begins_now_gets_what_is_committed_from_now_on() {
    let mut shop = Shop::new();
    shop.append("7", 0..3);
    let leader = leader(lead_from(&shop.store, "late", Start::Now).await);
    assert_eq!(shop.waiting(&leader).await, []);
    let appended = shop.append("7", 3..4);
    assert_eq!(shop.waiting(&leader).await, appended);
}

/// M62: the table is bounded whatever is appended meanwhile, and positions go on when all is dropped.
#[tokio::test]
async fn retention_bounds_the_table_and_positions_go_on() {
    let mut shop = Shop::new();
    let leader = shop.leader().await;
    let keep_for = Duration::from_secs(60);
    for round in 0..3 {
        shop.append("7", 0..2_500);
        settle_all(&shop, &leader).await;
        let settled = shop.store.retain(keep_for).await.unwrap();
        assert_eq!((settled.dropped > 0, settled.held_up), (round > 0, None));
        while shop.store.retain(keep_for).await.unwrap().dropped > 0 {}
        assert_eq!(numbers(&shop.conn, "SELECT count(*) FROM semel_outbox"), 2_500);
        shop.clock.advance(keep_for * 2);
    }
    while shop.store.retain(keep_for).await.unwrap().dropped > 0 {}
    assert_eq!(numbers(&shop.conn, "SELECT count(*) FROM semel_outbox"), 0);
    let appended = shop.append("7", 0..1);
    assert_eq!(shop.waiting(&leader).await, appended);
}

#[tokio::test]
async fn events_are_kept_for_the_destination_that_lags_which_is_told() {
    let mut shop = Shop::new();
    let keep_for = Duration::from_secs(60);
    shop.append("7", 0..3);
    shop.clock.advance(keep_for * 2);
    let held = shop.store.retain(keep_for).await.unwrap();
    assert!(held.held_up.unwrap().contains("ever led"));
    let (fast, slow) = (shop.leader().await, leader(super::lead(&shop.store, "slow").await));
    settle_all(&shop, &fast).await;
    let held = shop.store.retain(keep_for).await.unwrap();
    assert_eq!(held.dropped, 0);
    assert!(held.held_up.unwrap().contains("slow"));
    settle_all(&shop, &slow).await;
    let dropped = shop.store.retain(keep_for).await.unwrap();
    assert_eq!((dropped.dropped, dropped.held_up), (3, None));
}

/// An application whose clock runs ahead does not keep its events for ever.
#[tokio::test]
async fn events_from_the_future_go_with_the_older_ones_behind_them() {
    let mut shop = Shop::new();
    let leader = shop.leader().await;
    shop.append("7", 0..4);
    shop.conn.execute_batch("UPDATE semel_outbox SET at_us = 1 << 60 WHERE pos < 3").unwrap();
    settle_all(&shop, &leader).await;
    shop.clock.advance(LEASE * 10);
    assert_eq!(shop.store.retain(LEASE).await.unwrap().dropped, 4);
}

/// M68: whatever was delivered, what waits is found by one look into the key.
#[tokio::test]
async fn no_look_of_the_relay_scans_a_table() {
    let mut shop = Shop::new();
    let leader = shop.leader().await;
    shop.append("7", 0..100);
    settle_all(&shop, &leader).await;
    let conn = Connection::open(shop.bench.path()).unwrap();
    for name in [
        "window",
        "destination",
        "top",
        "due",
        "behind",
        "lanes",
        "unpark",
        "list_id",
        "list_intent",
    ] {
        let path = format!("{}/sql/outbox/{name}.sql", env!("CARGO_MANIFEST_DIR"));
        let sql = std::fs::read_to_string(path).unwrap();
        let mut plan = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        for at in 1..=plan.parameter_count() {
            plan.raw_bind_parameter(at, 1).unwrap();
        }
        let mut rows = plan.raw_query();
        while let Some(row) = rows.next().unwrap() {
            let step: String = row.get(3).unwrap();
            // SQLite's own memory of positions has a row per table. Sorting would read all.
            let scans = step.starts_with("SCAN")
                && !step.contains("CONSTANT")
                && step != "SCAN sqlite_sequence";
            assert!(!scans && !step.contains("TEMP B-TREE"), "{name}: {step}");
        }
    }
}
