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
        let store = fixture.open().await;
        let leader = lead(&store, "kafka").await;
        let client = fixture.connect().await;
        let many = "INSERT INTO semel.outbox (aggregatetype, aggregateid, type, payload)
            SELECT 'order', n::text, 'Placed', decode(repeat('00', 200), 'hex')
            FROM generate_series(1, 100000) AS n";
        run(&client, &fixture, many).await;
        while step(&store, &leader, 10_000).await.pass.is_some() {}
        if analyzed {
            run(&client, &fixture, "ANALYZE semel.outbox").await;
        }
        let before = blocks(&fixture).await;
        assert!(store.read(leader.clone(), None, 10, 1_000).await.unwrap().pass.is_none());
        for n in 0..10 {
            run(&client, &fixture, &publish("1", &n.to_string())).await;
        }
        let began = Instant::now();
        let window = store.read(leader.clone(), None, 100, 100_000).await.unwrap();
        let took = began.elapsed();
        assert_eq!(window.events.len(), 10);
        let read = blocks(&fixture).await - before;
        assert!(read < 2_000, "{major}: {read} pages of a table of more than 4,000");
        assert!(took < Duration::from_secs(2), "{major}: {took:?}");
    }
}

/// How many pages of the outbox were read so far, from memory or disk.
async fn blocks(fixture: &Fixture) -> i64 {
    // Other sessions tell what they did when they are idle for a second, or end.
    let client = fixture.connect().await;
    let idle = "SELECT count(*) FROM pg_stat_clear_snapshot()";
    client.batch_execute(idle).await.unwrap();
    number(
        fixture,
        "SELECT coalesce(sum(heap_blks_read + heap_blks_hit), 0)::bigint FROM pg_statio_user_tables
        WHERE schemaname = trim(both '\"' FROM trim(trailing '.' FROM 'semel.'))
            AND relname LIKE 'outbox_p%'",
    )
    .await
}
