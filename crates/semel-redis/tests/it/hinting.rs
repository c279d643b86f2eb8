//! Whoever waits hears of an end in another process at once, by publish and subscribe, and without it by polling.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt;
use redis::Client;
use semel::{
    Begun, Call, Engine, Fingerprint, Policy, Store,
    store::{
        Completed,
        capability::{Durability, Hint, Notify},
    },
};
use semel_redis::RedisStore;
use semel_testkit::{
    ManualClock,
    servers::{Redis, RedisKind, Sentinels},
};
use tokio::sync::broadcast::Receiver;

use crate::{
    fixture::{Fixture, until},
    words::*,
};

/// How long something may take that comes soon.
const SOON: Duration = Duration::from_secs(60);

/// How many connections of a server listen.
async fn listening(server: &Redis) -> usize {
    server
        .ask(&["CLIENT", "LIST", "TYPE", "pubsub"])
        .await
        .lines()
        .filter(|l| !l.is_empty())
        .count()
}

async fn is(server: &Redis, count: usize) {
    until(|| async {
        let now = listening(server).await;
        if now == count { Ok(()) } else { Err(now) }
    })
    .await;
}

/// Waits for the hint at one of the ends, whatever else is told.
async fn ended(hints: &mut Receiver<Hint>) -> Hint {
    let told = async {
        loop {
            if let Ok(hint @ Hint::Ended(_)) = hints.recv().await {
                return hint;
            }
        }
    };
    tokio::time::timeout(SOON, told).await.expect("a hint comes")
}

/// Ends watched runs until one of the ends is heard of.
async fn is_told(store: &RedisStore, name: &str) {
    let mut hints = store.hints();
    for round in 0..200 {
        let id = id(&format!("{name}-{round}"));
        let permit = until(|| async { claim(store, &ask(&id)).await.map(granted) }).await;
        until(|| store.watch(vec![id.clone()])).await;
        until(|| store.complete(permit.clone(), done("paid"))).await;
        let heard = async { while !matches!(hints.recv().await, Ok(Hint::Ended(_))) {} };
        if tokio::time::timeout(Duration::from_millis(200), heard).await.is_ok() {
            return;
        }
    }
    panic!("no end is ever heard of")
}

/// No time passes for the waiter, so that no poll of its asks: what wakes it is told by the server.
#[tokio::test]
async fn a_waiter_is_told_of_the_end_in_another_process_and_holds_no_connection_meanwhile() {
    let server = Redis::builder(RedisKind::Valkey9).start().await;
    let fixture = Fixture::of_server(&server);
    let there = fixture.builder().open().await.unwrap();
    let here = Arc::new(fixture.builder().open().await.unwrap());
    let clock = ManualClock::new();
    let engine = Engine::builder(here.clone()).clock(clock.clone()).notify(here.clone()).build();
    let permit = hold(&there, &id("k")).await;
    let before = server.ask(&["CLIENT", "LIST", "TYPE", "normal"]).await.lines().count();
    let policy = Arc::new(Policy { wait: Duration::from_secs(300), ..Policy::default() });
    let waiters: Vec<_> = (0..50)
        .map(|_| {
            let (engine, policy) = (engine.clone(), Arc::clone(&policy));
            let call = Call::new(id("k"), Fingerprint::of_bytes(b"pay 10"), policy);
            tokio::spawn(async move { engine.begin(call).await })
        })
        .collect();
    is(&server, 1).await;
    until(|| async { if engine.waiting() == 50 { Ok(()) } else { Err(engine.waiting()) } }).await;
    let meanwhile = server.ask(&["CLIENT", "LIST", "TYPE", "normal"]).await.lines().count();
    assert_eq!(meanwhile, before, "fifty waiters wait on no connection of theirs");
    assert_eq!(there.complete(permit, done("paid")).await.unwrap(), Completed::Stored);
    for waiter in waiters {
        let begun = tokio::time::timeout(SOON, waiter).await.expect("it is woken").unwrap();
        assert!(matches!(begun, Ok(Begun::Replay(_))), "{begun:?}");
    }
}

#[tokio::test]
async fn an_end_for_which_nobody_waits_costs_no_message() {
    let server = Redis::shared(RedisKind::Redis7).await;
    let fixture = Fixture::of_server(server);
    let store = fixture.builder().open().await.unwrap();
    let mut heard = Client::open(server.url()).unwrap().get_async_pubsub().await.unwrap();
    heard.subscribe(format!("{}:ended", fixture.prefix)).await.unwrap();
    let [unwatched, watched] = [hold(&store, &id("a")).await, hold(&store, &id("b")).await];
    store.watch(vec![watched.id.clone()]).await.unwrap();
    for permit in [unwatched, watched] {
        assert_eq!(store.complete(permit, done("paid")).await.unwrap(), Completed::Stored);
    }
    let first = tokio::time::timeout(SOON, heard.on_message().next()).await.unwrap().unwrap();
    assert!(first.get_payload_bytes().ends_with(b"\0b"), "{first:?}");
}

/// One connection for all who wait; none before somebody does, and none after the store is gone.
#[tokio::test]
async fn a_process_listens_on_one_connection_while_it_has_its_store() {
    let server = Redis::builder(RedisKind::Redis8).start().await;
    let store = Fixture::of_server(&server).builder().open().await.unwrap();
    finished(&store, &id("k")).await;
    assert_eq!(listening(&server).await, 0);
    for n in 0..20 {
        store.watch(vec![id(&format!("k{n}"))]).await.unwrap();
    }
    is(&server, 1).await;
    drop(store);
    is(&server, 0).await;
}

/// Who listens hears that it missed something, once it listens, and again after the connection broke.
#[tokio::test]
async fn hints_go_on_after_the_server_was_killed() {
    let mut server = Redis::builder(RedisKind::Valkey9).start().await;
    let store = Fixture::of_server(&server).builder().open().await.unwrap();
    let mut hints = store.hints();
    store.watch(vec![id("k")]).await.unwrap();
    let missed = tokio::time::timeout(SOON, hints.recv()).await.expect("it listens").unwrap();
    assert_eq!(missed, Hint::Missed);
    is_told(&store, "before").await;
    let mut hints = store.hints();
    server.kill();
    server.restart().await;
    let missed = tokio::time::timeout(SOON, hints.recv()).await.expect("it listens again").unwrap();
    assert_eq!(missed, Hint::Missed);
    is_told(&store, "after").await;
}

/// What somebody else publishes there is passed over.
#[tokio::test]
async fn what_is_no_name_on_the_channel_is_passed_over() {
    let server = Redis::builder(RedisKind::Redis7).start().await;
    let fixture = Fixture::of_server(&server);
    let store = fixture.builder().open().await.unwrap();
    let mut hints = store.hints();
    store.watch(vec![id("k")]).await.unwrap();
    is(&server, 1).await;
    let channel = format!("{}:ended", fixture.prefix);
    for nonsense in ["", "nonsense", "a\0b", "a\0b\0c\0d"] {
        assert_eq!(server.ask(&["PUBLISH", &channel, nonsense]).await, "1");
    }
    let permit = hold(&store, &id("k")).await;
    assert_eq!(store.complete(permit, done("paid")).await.unwrap(), Completed::Stored);
    assert_eq!(ended(&mut hints).await, Hint::Ended(id("k")));
}

/// A user who may neither publish nor listen ends runs all the same; whoever waits polls.
#[tokio::test]
async fn without_the_right_to_publish_runs_end_and_are_found_by_polling() {
    let fixture = Fixture::of_user(Redis::shared(RedisKind::Redis7).await).await;
    let store = fixture.builder().stated(Durability::Durable).open().await.unwrap();
    let store = Arc::new(store);
    let engine = Engine::builder(store.clone()).notify(store.clone()).build();
    let permit = hold(&*store, &id("k")).await;
    let call = Call::new(
        id("k"),
        Fingerprint::of_bytes(b"pay 10"),
        Arc::new(Policy { wait: SOON, ..Policy::default() }),
    );
    let waiter = tokio::spawn({
        let engine = engine.clone();
        async move { engine.begin(call).await }
    });
    until(|| async { if engine.waiting() == 1 { Ok(()) } else { Err(engine.waiting()) } }).await;
    store.watch(vec![id("k")]).await.unwrap();
    assert_eq!(store.complete(permit, done("paid")).await.unwrap(), Completed::Stored);
    let begun = tokio::time::timeout(SOON, waiter).await.expect("it polls").unwrap();
    assert!(matches!(begun, Ok(Begun::Replay(_))), "{begun:?}");
}

/// After a failover the process listens to the new primary.
#[tokio::test]
async fn hints_go_on_behind_sentinels_after_a_failover() {
    let mut primary = Redis::builder(RedisKind::Valkey9).start().await;
    let replica = Redis::builder(RedisKind::Valkey9).replica_of(primary.address()).start().await;
    until(|| async { if primary.is_copied_by(1).await { Ok(()) } else { Err(()) } }).await;
    let sentinels = Sentinels::watch(RedisKind::Valkey9, &primary, 1).await;
    let hosts: Vec<_> = sentinels.addresses().iter().map(ToString::to_string).collect();
    let url = format!("redis://{}?sentinel={}", hosts.join(","), Sentinels::NAME);
    let builder = Fixture::of(url, vec![], false).builder().wait_replicas(0);
    let store = builder.accept_volatile(true).open().await.unwrap();
    is_told(&store, "before").await;
    let gone = primary.address();
    primary.kill();
    assert_eq!(sentinels.promoted(gone).await, replica.address());
    is_told(&store, "after").await;
}
