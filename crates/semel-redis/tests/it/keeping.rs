//! How long the server keeps what: the end of a retention is the end of a key, and a lease never is.

use semel::{
    Store,
    store::capability::{Sweep, SweepBudget},
};
use semel_testkit::servers::{Redis, RedisKind};

use crate::{fixture::Fixture, words::*};

/// What a key is called, and for how many milliseconds it lives on: -1 for ever.
async fn lives(server: &Redis, fixture: &Fixture, what: &str) -> Vec<i64> {
    let keys = server.ask(&["KEYS", &format!("{{{}.*:{what}:*", fixture.prefix)]).await;
    let mut lives = Vec::new();
    for key in keys.lines() {
        lives.push(server.ask(&["PTTL", key]).await.parse().unwrap());
    }
    lives
}

/// C22: a key of the server expires with its retention, and none with its lease.
#[tokio::test]
async fn retention_ends_with_the_key_and_a_lease_never_does() {
    let server = Redis::shared(RedisKind::Valkey9).await;
    let fixture = Fixture::of_server(server);
    let store = fixture.builder().open().await.unwrap();
    let permit = hold(&store, &id("k")).await;
    assert_eq!(lives(server, &fixture, "r").await, [-1]);
    store.complete(permit, done("paid")).await.unwrap();
    let (records, outcomes) =
        (lives(server, &fixture, "r").await, lives(server, &fixture, "o").await);
    // A minute more than asked: what is over is judged by the store's time, not by whether the key is there.
    let within = |left: &i64, span: std::time::Duration| {
        let most = i64::try_from(span.as_millis()).unwrap() + 60_000;
        assert!((most - 60_000..=most).contains(left), "{left} of {most}");
    };
    assert_eq!((records.len(), outcomes.len()), (1, 1));
    within(&records[0], REMEMBER);
    within(&outcomes[0], REPLAY);
}

#[tokio::test]
async fn what_the_server_dropped_by_itself_leaves_nothing_behind_the_sweep() {
    let server = Redis::shared(RedisKind::Redis7).await;
    let fixture = Fixture::of_server(server);
    let store = fixture.builder().open().await.unwrap();
    let permit = hold(&store, &id("k")).await;
    let mut finish = done("paid");
    (finish.replay_for, finish.remember_for) = (LEASE / 600, LEASE / 600);
    store.complete(permit.clone(), finish).await.unwrap();
    // The server's own time cannot be moved: what it would do in a minute is done by hand.
    for what in ["r", "o"] {
        let keys = server.ask(&["KEYS", &format!("{{{}.*:{what}:*", fixture.prefix)]).await;
        server.ask(&["DEL", keys.trim()]).await;
    }
    let swept = async || store.sweep(SweepBudget::default()).await.unwrap().deleted;
    let deadline = std::time::Instant::now() + LEASE;
    while swept().await == 0 {
        assert!(std::time::Instant::now() < deadline, "the sweep finds nothing");
    }
    let left = server.ask(&["KEYS", &format!("{{{}.*", fixture.prefix)]).await;
    let left: Vec<_> = left.lines().filter(|key| !key.ends_with(":floor")).collect();
    assert!(left.is_empty(), "{left:?}");
    // The name is free, and its fences go on above the last.
    assert!(hold(&store, &id("k")).await.fence > permit.fence);
}
