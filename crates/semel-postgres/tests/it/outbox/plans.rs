//! How the server reads: by the indexes, however much was delivered and whatever it knows of the table.

use std::time::{Duration, Instant};

use semel::outbox::OutboxStore;
use semel_testkit::servers::Major;

use super::steps::*;
use crate::fixture::Fixture;

/// M68: a few events among many delivered ones are found by reading a few pages, in a table that was never
/// analyzed and in one that was.
#[tokio::test]
async fn a_few_events_among_many_are_found_at_once() {
    for (major, analyzed) in [(Major::V15, false), (Major::V17, true), (Major::V18, false)] {
        let fixture = Fixture::new(major).await;
        delivered(&fixture, analyzed).await;
        let before = blocks(&fixture).await;
        let store = fixture.open().await;
        let leader = lead(&store, "kafka").await;
        let began = Instant::now();
        let window = store.read(leader, None, 100, 100_000).await.unwrap();
        let took = began.elapsed();
        assert_eq!(window.events.len(), 10);
        drop(store);
        let read = blocks(&fixture).await - before;
        assert!(read < 2_000, "{major}: {read} pages of a table of more than 4,000");
        assert!(took < Duration::from_secs(2), "{major}: {took:?}");
    }
}

/// Makes a table of many events that were delivered, and ten that were not.
async fn delivered(fixture: &Fixture, analyzed: bool) {
    let store = fixture.open().await;
    let leader = lead(&store, "kafka").await;
    let client = fixture.connect().await;
    // The server's own look at the table would count as reading.
    let left_alone = "ALTER TABLE semel.outbox_p0 SET (autovacuum_enabled = false)";
    run(&client, fixture, left_alone).await;
    let many = "INSERT INTO semel.outbox (aggregatetype, aggregateid, type, payload)
        SELECT 'order', n::text, 'Placed', decode(repeat('00', 200), 'hex')
        FROM generate_series(1, 100000) AS n";
    run(&client, fixture, many).await;
    while step(&store, &leader, 10_000).await.pass.is_some() {}
    if analyzed {
        run(&client, fixture, "ANALYZE semel.outbox").await;
    }
    assert!(store.read(leader.clone(), None, 10, 1_000).await.unwrap().pass.is_none());
    for n in 0..10 {
        run(&client, fixture, &publish("1", &n.to_string())).await;
    }
    store.resign(leader).await.unwrap();
}

/// How many pages of the outbox were read so far, from memory or disk.
async fn blocks(fixture: &Fixture) -> i64 {
    until_others_ended(fixture).await;
    number(
        fixture,
        "SELECT coalesce(sum(heap_blks_read + heap_blks_hit), 0)::bigint FROM pg_statio_user_tables
        WHERE schemaname = trim(both '\"' FROM trim(trailing '.' FROM 'semel.'))
            AND relname LIKE 'outbox_p%'",
    )
    .await
}

/// Waits until nobody else works on the schema: a session tells for certain what it did when it ends.
async fn until_others_ended(fixture: &Fixture) {
    let client = fixture.connect().await;
    let others = "SELECT count(*) FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND strpos(query, $1) > 0";
    let deadline = Instant::now() + Duration::from_secs(60);
    while client.query_one(others, &[&fixture.schema]).await.unwrap().get::<_, i64>(0) > 0 {
        assert!(Instant::now() < deadline, "somebody still works on {}", fixture.schema);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
