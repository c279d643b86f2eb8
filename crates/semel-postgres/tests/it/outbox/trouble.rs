//! Leaders that are stale, connections that are cut, snapshots that are held.

use std::time::{Duration, Instant};

use semel::{
    StoreErrorKind,
    outbox::{Epoch, Leader, OutboxRetain, OutboxStore, Settle, Settled, Start},
};
use semel_postgres::PostgresStore;
use semel_testkit::{
    conformance::MoveTime,
    servers::{Major, Postgres},
};

use super::steps::*;
use crate::fixture::Fixture;

/// M07: a sequence whose positions would not be drawn in order is refused.
#[tokio::test]
async fn a_sequence_that_hands_out_positions_ahead_is_refused() {
    for change in ["CACHE 32", "INCREMENT 2"] {
        let fixture = Fixture::new(Major::V18).await;
        let store = fixture.open().await;
        let client = fixture.connect().await;
        run(&client, &fixture, &format!("ALTER SEQUENCE semel.outbox_pos {change}")).await;
        let refused = store.lead(ask("kafka", Start::Earliest)).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Invalid);
        assert!(refused.to_string().contains("semel.outbox_pos"), "{refused}");
        run(&client, &fixture, "ALTER SEQUENCE semel.outbox_pos CACHE 1 INCREMENT 1").await;
        lead(&store, "kafka").await;
    }
}

/// M07: nor does a leader read on when the sequence is changed or set back under it: it would pass over
/// what is appended then without a word. Once mended, a replay sends what was appended meanwhile.
#[tokio::test]
async fn a_sequence_that_is_changed_under_a_leader_stops_it() {
    let fixture = Fixture::new(Major::V18).await;
    let store = fixture.open().await;
    let leader = lead(&store, "kafka").await;
    let client = fixture.connect().await;
    run(&client, &fixture, &(publish("1", "a") + &publish("1", "b"))).await;
    assert_eq!(step(&store, &leader, 10).await.events.len(), 2);
    for change in [
        "ALTER SEQUENCE semel.outbox_pos CACHE 20",
        "ALTER SEQUENCE semel.outbox_pos CACHE 1 INCREMENT 2",
        "ALTER SEQUENCE semel.outbox_pos INCREMENT 1 CYCLE",
        "ALTER SEQUENCE semel.outbox_pos NO CYCLE; SELECT setval('semel.outbox_pos', 1)",
    ] {
        run(&client, &fixture, change).await;
        let refused = store.read(leader.clone(), None, 10, 1_000).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Invalid, "{change}");
        assert!(refused.to_string().contains("semel.outbox_pos"), "{change}: {refused}");
    }
    run(&client, &fixture, "SELECT setval('semel.outbox_pos', 2)").await;
    run(&client, &fixture, &publish("1", "c")).await;
    assert_eq!(step(&store, &leader, 10).await.events.len(), 1);
}

/// M22, M23: what comes without an epoch, or with one that is over, settles and renews nothing.
#[tokio::test]
async fn an_epoch_that_is_none_or_over_settles_and_renews_nothing() {
    let fixture = Fixture::new(Major::V15).await;
    let (time, store) = (fixture.moved_time().await, fixture.open().await);
    let old = lead(&store, "kafka").await;
    let client = fixture.connect().await;
    run(&client, &fixture, &publish("1", "a")).await;
    let window = store.read(old.clone(), None, 10, 1_000).await.unwrap();
    time.advance(LEASE).await;
    let new = lead(&store, "kafka").await;
    assert!(new.epoch > old.epoch);
    let settle = Settle { upto: window.pass.map(|pass| (pass, window.upto)), ..settlement(&old) };
    assert_eq!(store.settle(settle).await.unwrap(), Settled::Stale);
    assert_eq!(store.renew(old.clone(), LEASE).await.unwrap(), Settled::Stale);
    assert_eq!(store.resign(old).await.unwrap(), Settled::Stale);
    for query in [
        "SELECT semel.outbox_renew('kafka', NULL, 1)",
        "SELECT semel.outbox_renew(NULL, NULL, 1)",
        "SELECT semel.outbox_settle('kafka', NULL, 1, 9, true, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')",
    ] {
        let row = client.query_one(&*fixture.sql(query), &[]).await.unwrap();
        assert!(!row.get::<_, bool>(0), "{query}");
    }
    assert_eq!(store.renew(new, LEASE).await.unwrap(), Settled::Stored);
}

/// M35: whoever takes over writes one row, whatever waits.
#[tokio::test]
async fn a_take_over_writes_one_row() {
    let fixture = Fixture::new(Major::V17).await;
    let (time, store) = (fixture.moved_time().await, fixture.open().await);
    let leader = lead(&store, "kafka").await;
    // A session counts what it wrote, so it is another that appends.
    let (client, writer) = (fixture.connect().await, fixture.connect().await);
    let many =
        "SELECT semel.publish('order', n::text, 'Placed', '') FROM generate_series(1, 5000) n";
    run(&writer, &fixture, many).await;
    step(&store, &leader, 10).await;
    let rows =
        "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del)::bigint FROM pg_stat_xact_user_tables";
    time.advance(LEASE).await;
    run(&client, &fixture, "BEGIN").await;
    let lead = "SELECT semel.outbox_lead('kafka', 'other', 1000000, false)";
    client.query(&*fixture.sql(lead), &[]).await.unwrap();
    let written: i64 = client.query_one(rows, &[]).await.unwrap().get(0);
    assert_eq!(written, 1);
    run(&client, &fixture, "COMMIT").await;
}

/// M64: while a snapshot is held, the rows of a cursor stay few and the last is found at once.
#[tokio::test]
async fn a_held_snapshot_bloats_no_cursor() {
    let fixture = Fixture::new(Major::V15).await;
    let store = fixture.open().await;
    let leader = lead(&store, "kafka").await;
    let reader = fixture.connect().await;
    reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    let client = fixture.connect().await;
    for n in 0..400 {
        run(&client, &fixture, &publish("1", &n.to_string())).await;
        assert_eq!(step(&store, &leader, 10).await.events.len(), 1);
    }
    let rows = number(&fixture, "SELECT count(*) FROM semel.outbox_cursor").await;
    assert!(rows < 200, "{rows} rows");
    let last = "SELECT c.* FROM semel.outbox_cursor AS c
        WHERE c.destination = 'kafka' ORDER BY c.seq DESC LIMIT 1";
    let pages = pages(&fixture, last).await;
    assert!(pages <= 8, "{pages} pages");
    reader.batch_execute("COMMIT").await.unwrap();
}

/// M61, M65: retention waits 100 ms at most for a transaction that appended, and so does whoever appends
/// behind it; when the transaction has ended, it drops.
#[tokio::test]
async fn retention_waits_for_nobody_long() {
    let fixture = Fixture::new(Major::V17).await;
    let store = fixture.open().await;
    let leader = lead(&store, "kafka").await;
    let (open, client) = (fixture.connect().await, fixture.connect().await);
    run(&client, &fixture, &publish("1", "a")).await;
    drain(&store, &leader, 10).await;
    run(&open, &fixture, &format!("BEGIN; {}", publish("1", "open"))).await;
    let began = Instant::now();
    let said = store.retain(Duration::ZERO).await.unwrap();
    assert!(said.held_up.is_some_and(|why| why.contains("open for long")));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    // It left nothing behind that others would wait for.
    run(&client, &fixture, &format!("SET lock_timeout = '1s'; {}", publish("1", "b"))).await;
    run(&open, &fixture, "COMMIT").await;
    drain(&store, &leader, 10).await;
    let mut dropped = 0;
    for _ in 0..4 {
        dropped += store.retain(Duration::ZERO).await.unwrap().dropped;
    }
    assert!(dropped > 0);
    assert_eq!(number(&fixture, "SELECT count(*) FROM semel.outbox").await, 0);
    run(&client, &fixture, &publish("1", "c")).await;
    assert_eq!(told(&drain(&store, &leader, 10).await), ["c"]);
}

/// A partition is closed without being read: by its CHECK, which says what its bound says.
#[tokio::test]
async fn a_partition_is_closed_without_being_read() {
    for major in Major::ALL {
        let fixture = Fixture::new(major).await;
        let store = fixture.open().await;
        let client = fixture.connect().await;
        run(&client, &fixture, &publish("1", "a")).await;
        let leader = lead(&store, "kafka").await;
        drain(&store, &leader, 10).await;
        assert!(store.retain(Duration::ZERO).await.unwrap().more);
        let bounds =
            "SELECT count(*) FROM semel.outbox_partitions() WHERE until_pos = 1099511627776";
        assert_eq!(number(&fixture, bounds).await, 1, "{major}");
        assert_eq!(store.retain(Duration::ZERO).await.unwrap().dropped, 1, "{major}");
        assert_eq!(number(&fixture, "SELECT count(*) FROM semel.outbox_partitions()").await, 1);
    }
}

/// M88, M89: whichever connections of the store are ended, leadership and order stay.
#[tokio::test]
async fn connections_that_are_ended_cost_no_leadership() {
    let server = Postgres::start(Major::V15).await;
    let store = PostgresStore::builder(server.url()).open().await.unwrap();
    let leader = lead(&store, "kafka").await;
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
    let mut read = Vec::new();
    for n in 0..5 {
        server.run_sql(&publish("1", &n.to_string())).await;
        server.run_sql(end).await;
        read.extend(told(&again(&store, &leader).await));
        server.run_sql(end).await;
        let renewed = patient(|| store.renew(leader.clone(), LEASE)).await;
        assert_eq!(renewed, Settled::Stored);
    }
    read.dedup();
    assert_eq!(read, ["0", "1", "2", "3", "4"]);
}

/// M91: a server that is killed in the middle of a pass comes back with the same pass, and only the
/// current epoch settles it.
#[tokio::test]
async fn a_server_killed_in_the_middle_comes_back_with_the_pass() {
    let mut server = Postgres::start(Major::V15).await;
    let store = PostgresStore::builder(server.url()).open().await.unwrap();
    let leader = lead(&store, "kafka").await;
    server.run_sql(&format!("{}{}", publish("1", "a"), publish("1", "b"))).await;
    server.run_sql("CHECKPOINT").await;
    let before = store.read(leader.clone(), None, 1, 1_000).await.unwrap();
    server.kill();
    server.restart().await;
    server.run_sql(&publish("1", "c")).await;
    let after = patient(|| store.read(leader.clone(), None, 1, 1_000)).await;
    assert_eq!((after.pass, &after.events), (before.pass, &before.events));
    let settle = Settle { upto: after.pass.map(|pass| (pass, after.upto)), ..settlement(&leader) };
    let stale = Settle { epoch: Epoch(leader.epoch.0 - 1), ..settle.clone() };
    assert_eq!(store.settle(stale).await.unwrap(), Settled::Stale);
    assert_eq!(store.settle(settle).await.unwrap(), Settled::Stored);
    assert_eq!(told(&drain(&store, &leader, 10).await), ["b", "c"]);
}

/// Drains, over and over if the connection is lost.
async fn again(store: &PostgresStore, leader: &Leader) -> Vec<semel::outbox::Placed> {
    let mut all = Vec::new();
    loop {
        let window = patient(|| store.read(leader.clone(), None, 10, 1_000)).await;
        all.extend(window.events);
        let Some(pass) = window.pass else { return all };
        let upto = Some((pass, window.upto));
        let settle = Settle { upto, ends: window.ends, ..settlement(leader) };
        assert_eq!(patient(|| store.settle(settle.clone())).await, Settled::Stored);
    }
}

/// Asks until it is answered.
pub(super) async fn patient<T, F>(mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, semel::StoreError>>,
{
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(Instant::now() < deadline, "{error:?}"),
        }
    }
}
