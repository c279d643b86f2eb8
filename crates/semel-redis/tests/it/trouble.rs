//! What the store does when the server is away, full, frozen, emptied, or has lost its replicas.

use std::time::Duration;

use semel::{
    Store,
    StoreErrorKind::{Busy, Damaged, Full, ReadOnly, Unavailable},
    store::{ClaimAnswer, Completed, capability::Inspect},
};
use semel_testkit::servers::{Redis, RedisKind};

use crate::{
    fixture::{Fixture, until},
    words::*,
};

#[tokio::test]
async fn a_server_that_forgot_the_scripts_is_told_them_again() {
    let server = Redis::builder(RedisKind::Redis7).start().await;
    let store = Fixture::of_server(&server).builder().open().await.unwrap();
    finished(&store, &id("k1")).await;
    assert_eq!(server.ask(&["SCRIPT", "FLUSH"]).await, "OK");
    finished(&store, &id("k2")).await;
    assert_eq!(store.counts().await.unwrap().done, 2);
    assert_eq!(server.ask(&["FLUSHALL"]).await, "OK");
    assert_eq!(server.ask(&["SCRIPT", "FLUSH"]).await, "OK");
    // Everything is gone, which no store can notice; what follows is whole.
    assert_eq!(store.counts().await.unwrap().done, 0);
    finished(&store, &id("k1")).await;
    assert_eq!(store.counts().await.unwrap().done, 1);
}

/// S05: what was acknowledged was flushed.
#[tokio::test]
async fn what_was_acknowledged_is_there_after_the_server_was_killed() {
    let mut server = Redis::builder(RedisKind::Valkey9).start().await;
    let store = Fixture::of_server(&server).builder().open().await.unwrap();
    for n in 0..50 {
        finished(&store, &id(&format!("k{n}"))).await;
    }
    let held = hold(&store, &id("held")).await;
    server.kill();
    fails(claim(&store, &ask(&id("k0"))).await, Unavailable, &[]);
    server.restart().await;
    // The first may meet the connection that broke.
    let asked = ask(&id("k0"));
    let answer = until(|| claim(&store, &asked)).await;
    assert!(matches!(answer, ClaimAnswer::Replay(_)), "{answer:?}");
    let counts = store.counts().await.unwrap();
    assert_eq!((counts.done, counts.running), (50, 1));
    assert_eq!(store.complete(held, done("paid")).await.unwrap(), Completed::Stored);
}

#[tokio::test]
async fn a_frozen_server_is_given_up_in_time_and_taken_up_again() {
    let server = Redis::builder(RedisKind::Redis7).start().await;
    let builder = Fixture::of_server(&server).builder().answer_wait(Duration::from_millis(300));
    let store = builder.connect_wait(Duration::from_millis(300)).open().await.unwrap();
    finished(&store, &id("k0")).await;
    server.pause();
    let asked = ask(&id("k1"));
    let claims = (0..20).map(|_| claim(&store, &asked));
    let all = futures_util::future::join_all(claims);
    let answers = tokio::time::timeout(Duration::from_secs(20), all).await.unwrap();
    answers.into_iter().for_each(|answer| fails(answer, Unavailable, &[]));
    server.resume();
    granted(until(|| claim(&store, &asked)).await);
    assert_eq!(store.counts().await.unwrap().running, 1);
}

/// S02: `OOM` refuses what would be written, and nothing is.
#[tokio::test]
async fn a_full_server_refuses_with_nothing_written_and_still_replays() {
    let server = Redis::builder(RedisKind::Valkey9).start().await;
    let store = Fixture::of_server(&server).builder().open().await.unwrap();
    finished(&store, &id("before")).await;
    let held = hold(&store, &id("held")).await;
    assert_eq!(server.ask(&["CONFIG", "SET", "maxmemory", "1"]).await, "OK");
    fails(claim(&store, &ask(&id("k"))).await, Full, &["maxmemory"]);
    fails(store.complete(held.clone(), done("paid")).await, Full, &["maxmemory"]);
    let replay = claim(&store, &ask(&id("before"))).await.unwrap();
    assert!(matches!(replay, ClaimAnswer::Replay(_)), "{replay:?}");
    assert_eq!(server.ask(&["CONFIG", "SET", "maxmemory", "0"]).await, "OK");
    assert_eq!(store.read(vec![id("k")]).await.unwrap().records, [None]);
    assert_eq!(store.complete(held, done("paid")).await.unwrap(), Completed::Stored);
}

/// M34: a primary that takes no writes any more is left, and looked for again.
#[tokio::test]
async fn a_primary_that_was_demoted_is_said_with_nothing_written() {
    let (server, other) = tokio::join!(
        Redis::builder(RedisKind::Redis7).start(),
        Redis::builder(RedisKind::Redis7).start()
    );
    let store = Fixture::of_server(&server).builder().open().await.unwrap();
    finished(&store, &id("k")).await;
    let port = other.address().port().to_string();
    assert_eq!(server.ask(&["REPLICAOF", "127.0.0.1", &port]).await, "OK");
    fails(claim(&store, &ask(&id("new"))).await, ReadOnly, &["replica"]);
    assert_eq!(server.ask(&["REPLICAOF", "NO", "ONE"]).await, "OK");
    let asked = ask(&id("new"));
    granted(until(|| claim(&store, &asked)).await);
}

#[tokio::test]
async fn a_server_that_wants_more_replicas_refuses_with_nothing_written() {
    let server = Redis::builder(RedisKind::Redis7).start().await;
    let store = Fixture::of_server(&server).builder().open().await.unwrap();
    assert_eq!(server.ask(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await, "OK");
    fails(claim(&store, &ask(&id("k"))).await, Busy, &["fewer replicas"]);
    assert_eq!(server.ask(&["CONFIG", "SET", "min-replicas-to-write", "0"]).await, "OK");
    assert_eq!(store.read(vec![id("k")]).await.unwrap().records, [None]);
}

/// S05: below the asked count nothing is acknowledged: neither a claim, nor an end, nor what others find of them.
#[tokio::test]
async fn nothing_is_granted_or_told_before_the_replica_has_it() {
    let primary = Redis::builder(RedisKind::Valkey9).start().await;
    let replica = Redis::builder(RedisKind::Valkey9).replica_of(primary.address()).start().await;
    let fixture = Fixture::of_server(&primary);
    let builder = fixture.builder().wait_replicas(1).wait_for(Duration::from_millis(200));
    let store = builder.connections(2).open().await.unwrap();
    let held = hold(&store, &id("held")).await;
    replica.pause();
    let asked = ask(&id("k"));
    fails(claim(&store, &asked).await, Unavailable, &["replicas that have it in time: 0, and 1"]);
    fails(
        store.complete(held.clone(), done("paid")).await,
        Unavailable,
        &["replicas that have it in time: 0, and 1"],
    );
    // It is stored, and may be lost: whoever replayed it would tell of what never was.
    fails(
        claim(&store, &ask(&id("held"))).await,
        Unavailable,
        &["replicas that have it in time: 0, and 1"],
    );
    fails(
        store.read(vec![id("held")]).await,
        Unavailable,
        &["replicas that have it in time: 0, and 1"],
    );
    replica.resume();
    let again = until(|| claim(&store, &asked)).await;
    assert!(matches!(again, ClaimAnswer::Granted { grant: None, .. }), "{again:?}");
    let again = store.complete(held, done("twice")).await.unwrap();
    assert!(matches!(again, Completed::Already(_)), "{again:?}");
}

#[tokio::test]
async fn a_key_that_is_not_the_stores_is_told_as_damage() {
    let server = Redis::shared(RedisKind::Redis7).await;
    let fixture = Fixture::of_server(server);
    let store = fixture.builder().open().await.unwrap();
    finished(&store, &id("k")).await;
    let keys = server.ask(&["KEYS", &format!("{{{}.*:r:*", fixture.prefix)]).await;
    let key = keys.lines().next().unwrap();
    server.ask(&["SET", key, "\u{2}"]).await;
    fails(claim(&store, &ask(&id("k"))).await, semel::StoreErrorKind::Version, &["upgrade"]);
    server.ask(&["SET", key, "?"]).await;
    fails(claim(&store, &ask(&id("k"))).await, Damaged, &["none of semel's"]);
    server.ask(&["DEL", key]).await;
    server.ask(&["LPUSH", key, "x"]).await;
    fails(claim(&store, &ask(&id("k"))).await, Damaged, &["not the store's"]);
    // A floor that is cut is no mark of a store that was closed.
    server.ask(&["DEL", key]).await;
    let floor = key.replace(key.split_once("}:").unwrap().1, "floor");
    server.ask(&["SET", &floor, "x"]).await;
    fails(claim(&store, &ask(&id("k"))).await, Damaged, &["not the store's"]);
}
