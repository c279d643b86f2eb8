//! What goes on for long, at a size at which it would be seen: small rows under a held snapshot, and
//! retention beside those who append.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use semel::outbox::OutboxRetain;
use semel_postgres::PostgresStore;
use semel_testkit::servers::{Major, Postgres};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::steps::*;
use crate::fixture::Fixture;

/// A schema in a server where no other test holds a snapshot.
async fn alone() -> Fixture {
    static SERVER: OnceCell<Postgres> = OnceCell::const_new();
    let fixture = Fixture::of_server(SERVER.get_or_init(|| Postgres::start(Major::V17)).await);
    PostgresStore::migrate(&fixture.builder()).await.unwrap();
    fixture
}

/// Renews a leadership so many times, each in a transaction of its own.
async fn renew(fixture: &Fixture, epoch: u64, times: u32) {
    let renew = format!(
        "DO $$ BEGIN FOR n IN 1 .. {times} LOOP
            IF NOT semel.outbox_renew('kafka', {epoch}, 60000000) THEN RAISE 'not renewed'; END IF;
            COMMIT;
        END LOOP; END $$"
    );
    fixture.connect().await.batch_execute(&fixture.sql(&renew)).await.unwrap();
}

/// How much room the rows take, and the rows with their index.
async fn bytes(fixture: &Fixture) -> [i64; 2] {
    let rows = number(fixture, "SELECT pg_relation_size('semel.outbox_cursor')").await;
    [rows, number(fixture, "SELECT pg_total_relation_size('semel.outbox_cursor')").await]
}

/// M64: thousands of moves under one held snapshot leave a table of the size of what was written, in which
/// the last row is found by a few pages; once the snapshot is gone the room is used again.
#[tokio::test]
async fn thousands_of_moves_under_a_held_snapshot_cost_little_room_and_no_time() {
    const MOVES: u32 = 4_000;
    let fixture = alone().await;
    let store = fixture.open().await;
    let leader = lead(&store, "kafka").await;
    let reader = fixture.connect().await;
    reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    renew(&fixture, leader.epoch.0, MOVES).await;
    let rows = number(&fixture, "SELECT count(*) FROM semel.outbox_cursor").await;
    assert!(rows < 200, "{rows} rows");
    let [under, all] = bytes(&fixture).await;
    assert!(all < 512 * i64::from(MOVES), "{all} bytes");
    let find = "SELECT seq FROM semel.outbox_cursor WHERE destination = 'kafka'
        ORDER BY seq DESC LIMIT 1";
    let pages = pages(&fixture, find).await;
    assert!(pages <= 8, "{pages} pages");
    reader.batch_execute("COMMIT").await.unwrap();
    let client = fixture.connect().await;
    client.batch_execute(&fixture.sql("VACUUM semel.outbox_cursor")).await.unwrap();
    renew(&fixture, leader.epoch.0, MOVES / 2).await;
    let [after, _] = bytes(&fixture).await;
    assert!(after <= under, "the room is used again: {after} bytes after {under}");
}

/// M61, M62, M65: while four append without a pause, retention drops partition after partition of what every
/// destination has: nobody who appends fails or waits for a second, and what is left is little.
#[tokio::test(flavor = "multi_thread")]
async fn retention_beside_those_who_append_fails_nobody_and_bounds_the_table() {
    let fixture = alone().await;
    let store = fixture.open().await;
    let leader = lead(&store, "kafka").await;
    let stop = CancellationToken::new();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (fixture, stop) = (fixture.clone(), stop.clone());
            tokio::spawn(async move {
                let client = fixture.connect().await;
                run(&client, &fixture, "SET lock_timeout = '1s'").await;
                let mut written = 0;
                while !stop.is_cancelled() {
                    let told = format!("{writer} {written}");
                    run(&client, &fixture, &publish(&writer.to_string(), &told)).await;
                    written += 1;
                }
                written
            })
        })
        .collect();
    let (mut read, mut dropped, began) = (Vec::new(), 0, Instant::now());
    while dropped < 5 {
        read.extend(told(&step(&store, &leader, 1_000).await.events));
        let said = store.retain(Duration::ZERO).await.unwrap();
        dropped += said.dropped;
        assert!(began.elapsed() < Duration::from_secs(60), "{dropped} dropped, {said:?}");
    }
    let left = number(&fixture, "SELECT count(*) FROM semel.outbox").await;
    stop.cancel();
    let mut written = 0;
    for writer in writers {
        written += writer.await.unwrap();
    }
    read.extend(told(&drain(&store, &leader, 1_000).await));
    let distinct: HashSet<_> = read.iter().collect();
    assert_eq!((read.len(), distinct.len()), (written, written));
    assert!(left < i64::try_from(written).unwrap(), "{left} of {written} are left");
}
