//! What a server must be set to: one that may lose what it acknowledges is refused, with a sentence that says what
//! to set.

use std::time::Duration;

use semel::{
    Store,
    StoreErrorKind::{Invalid, ReadOnly, Unavailable},
    store::{
        ClaimAnswer, Completed, ReleaseAnswer, Renew, Renewed,
        capability::{Durability, Sweep, SweepBudget},
    },
};
use semel_redis::RedisStore;
use semel_testkit::servers::{Redis, RedisCluster, RedisKind, Sentinels};

use crate::{
    fixture::{Fixture, until},
    words::*,
};

async fn server(name: &str, value: &str) -> (Redis, Fixture) {
    server_of(RedisKind::Valkey9, name, value).await
}

async fn server_of(kind: RedisKind, name: &str, value: &str) -> (Redis, Fixture) {
    let server = Redis::builder(kind).setting(name, value).start().await;
    let fixture = Fixture::of_server(&server);
    (server, fixture)
}

/// S05: a server that keeps no file, flushes later or evicts is refused.
#[tokio::test]
async fn settings_that_lose_are_refused_unless_that_is_accepted() {
    let wrong = [
        ("appendonly", "no", "set its appendonly to yes"),
        ("appendfsync", "everysec", "set its appendfsync to always"),
        ("no-appendfsync-on-rewrite", "yes", "set its no-appendfsync-on-rewrite to no"),
        ("maxmemory-policy", "allkeys-lru", "set its maxmemory-policy to noeviction"),
        ("maxmemory-policy", "volatile-ttl", "set its maxmemory-policy to noeviction"),
    ];
    for (name, value, sentence) in wrong {
        let (_server, fixture) = server(name, value).await;
        fails(fixture.builder().open().await, Invalid, &[sentence, "accept_volatile"]);
        let store = fixture.builder().accept_volatile(true).open().await.unwrap();
        assert_eq!(store.capabilities().durability, Durability::Volatile, "{name} {value}");
        finished(&store, &id("k")).await;
    }
}

#[tokio::test]
async fn a_server_that_flushes_later_is_durable_where_its_disk_is_waited_for() {
    let (_server, fixture) = server_of(RedisKind::Redis8, "appendfsync", "everysec").await;
    let builder = fixture.builder().wait_flushed(true).wait_for(Duration::from_secs(10));
    let store = builder.open().await.unwrap();
    assert_eq!(store.capabilities().durability, Durability::Durable);
    finished(&store, &id("k")).await;
    let old = Fixture::new(RedisKind::Redis7).await;
    fails(old.builder().wait_flushed(true).open().await, Invalid, &["Redis 7.2"]);
}

/// S05: Valkey 9.1.2 says that its disk has what it has not: 126 of 172 intents were lost by power cuts.
#[tokio::test]
async fn the_word_of_valkey_about_its_disk_is_not_taken() {
    let (server, fixture) = server("appendfsync", "everysec").await;
    let sentence = "set its appendfsync to always";
    fails(fixture.builder().wait_flushed(true).open().await, Invalid, &["Valkey", sentence]);
    let store = fixture.builder().wait_flushed(true).accept_volatile(true).open().await.unwrap();
    assert_eq!(store.capabilities().durability, Durability::Volatile);
    assert_eq!(server.ask(&["CONFIG", "SET", "appendfsync", "always"]).await, "OK");
    let store = fixture.builder().wait_flushed(true).open().await.unwrap();
    assert_eq!(store.capabilities().durability, Durability::Durable);
}

#[tokio::test]
async fn a_server_that_hides_its_settings_must_be_spoken_for_by_name() {
    let fixture = Fixture::of_user(Redis::shared(RedisKind::Redis7).await).await;
    fails(fixture.builder().open().await, Invalid, &["stating it durable or volatile"]);
    for stated in [Durability::Durable, Durability::Volatile] {
        let store = fixture.builder().stated(stated).open().await.unwrap();
        assert_eq!(store.capabilities().durability, stated);
        finished(&store, &id(&format!("{stated:?}"))).await;
    }
    // Nothing outside of its keys.
    let foreign = fixture.builder().prefix("elsewhere").stated(Durability::Durable);
    let store = foreign.open().await.unwrap();
    fails(claim(&store, &ask(&id("k"))).await, ReadOnly, &["allow EVAL"]);
}

#[tokio::test]
async fn a_password_that_is_wrong_is_said_and_not_shown() {
    let server = Redis::builder(RedisKind::Valkey9).start().await;
    assert_eq!(server.ask(&["CONFIG", "SET", "requirepass", "secret"]).await, "OK");
    let mut fixture = Fixture::of_server(&server);
    for url in ["redis://", "redis://:public@"] {
        fixture.url = format!("{url}{}", server.address());
        let error = fixture.builder().open().await.unwrap_err();
        assert_eq!(error.kind(), ReadOnly, "{error:?}");
        assert!(!format!("{error:?}").contains("public"));
    }
    fixture.url = format!("redis://:secret@{}", server.address());
    finished(&fixture.builder().open().await.unwrap(), &id("k")).await;
    fixture.url = server.url();
    let store = fixture.builder().password("secret").open().await.unwrap();
    assert!(store.read(vec![id("k")]).await.unwrap().records[0].is_some());
}

#[tokio::test]
async fn a_replica_is_passed_over_for_its_primary() {
    let primary = Redis::shared(RedisKind::Valkey9).await;
    let builder = Redis::builder(RedisKind::Valkey9).replica_of(primary.address());
    let replica = builder.start().await;
    let mut fixture = Fixture::of_server(primary);
    fixture.url = replica.url();
    fails(fixture.builder().open().await, ReadOnly, &["replica", "name the primary"]);
    fixture.url = format!("redis://{},{}", replica.address(), primary.address());
    finished(&fixture.builder().wait_replicas(1).open().await.unwrap(), &id("k")).await;
    let more = fixture.builder().wait_replicas(9).open().await;
    fails(more, Unavailable, &["9 are waited for"]);
}

/// Who names two servers means that the other may take over: that loses what was not copied. And an old primary that
/// came back takes itself for one: with replicas to wait for, it is passed over.
#[tokio::test]
async fn several_servers_are_judged_as_a_failover_and_an_old_primary_is_passed_over() {
    let kind = RedisKind::Valkey9;
    let old = Redis::builder(kind).start().await;
    let primary = Redis::builder(kind).start().await;
    let _replica = Redis::builder(kind).replica_of(primary.address()).start().await;
    let mut fixture = Fixture::of_server(&primary);
    fixture.url = format!("redis://{},{}", old.address(), primary.address());
    fails(fixture.builder().open().await, Invalid, &["wait_replicas", "accept_volatile"]);
    let store = fixture.builder().accept_volatile(true).open().await.unwrap();
    assert_eq!(store.capabilities().durability, Durability::Volatile);
    let store = until(|| fixture.builder().wait_replicas(1).open()).await;
    assert_eq!(store.capabilities().durability, Durability::Durable);
    finished(&store, &id("k")).await;
    fixture.url = primary.url();
    let there = fixture.builder().open().await.unwrap().read(vec![id("k")]).await.unwrap();
    assert!(there.records[0].is_some(), "it went to a server without replicas");
}

#[tokio::test]
async fn a_failover_that_may_lose_is_refused_unless_replicas_are_waited_for() {
    let cluster = RedisCluster::shared(RedisKind::Valkey9).await;
    let mut fixture = Fixture::of_cluster(cluster);
    let bare = RedisStore::builder(&fixture.url).prefix(fixture.prefix.as_str());
    fails(bare.clone().open().await, Invalid, &["wait_replicas"]);
    let store = bare.accept_volatile(true).open().await.unwrap();
    assert_eq!(store.capabilities().durability, Durability::Volatile);
    finished(&store, &id("k")).await;
    let store = fixture.builder().open().await.unwrap();
    assert_eq!(store.capabilities().durability, Durability::Durable);
    fixture.url = format!("redis://{}", fixture.servers[0]);
    fails(fixture.builder().open().await, Invalid, &["cluster=true"]);
}

#[tokio::test]
async fn sentinels_are_told_from_servers() {
    let primary = Redis::builder(RedisKind::Redis7).start().await;
    let sentinels = Sentinels::watch(RedisKind::Redis7, &primary, 0).await;
    let mut fixture = Fixture::of_server(&primary);
    fixture.url = format!("redis://{}", sentinels.addresses()[0]);
    fails(fixture.builder().open().await, Invalid, &["sentinel=NAME"]);
    let hosts: Vec<_> = sentinels.addresses().iter().map(ToString::to_string).collect();
    fixture.url = format!("redis://{}/0?sentinel=nobody", hosts.join(","));
    fails(fixture.builder().open().await, Invalid, &["no sentinel knows", "nobody"]);
    fixture.url = format!("redis://{}/0?sentinel={}", hosts.join(","), Sentinels::NAME);
    let store = fixture.builder().accept_volatile(true).open().await.unwrap();
    finished(&store, &id("k")).await;
}

/// What becomes volatile while it serves is found by the next sweep, and taken again once it is set back. What runs
/// meanwhile is ended all the same: a record that may be lost is better than one that says nothing.
#[tokio::test]
async fn a_setting_that_is_changed_while_it_serves_is_refused_from_the_next_sweep_on() {
    let (server, fixture) = server("appendonly", "yes").await;
    let cluster = RedisCluster::start(RedisKind::Valkey9).await;
    let in_cluster = Fixture::of_cluster(&cluster);
    let places = [(fixture, &server), (in_cluster, &cluster.nodes()[1])];
    for (fixture, server) in places {
        let store = fixture.builder().open().await.unwrap();
        store.sweep(SweepBudget::default()).await.unwrap();
        let wrong = [
            ("maxmemory-policy", "allkeys-lru", "noeviction"),
            ("appendfsync", "everysec", "always"),
            ("no-appendfsync-on-rewrite", "yes", "no"),
        ];
        for (name, value, right) in wrong {
            finished(&store, &id(name)).await;
            let held = hold(&store, &id(&format!("{name}-held"))).await;
            let given = hold(&store, &id(&format!("{name}-given"))).await;
            assert_eq!(server.ask(&["CONFIG", "SET", name, value]).await, "OK");
            fails(store.sweep(SweepBudget::default()).await, Invalid, &[name, right]);
            fails(claim(&store, &ask(&id("k"))).await, ReadOnly, &[name, right]);
            // What was acknowledged before is told, and what runs goes on and ends.
            let replay = claim(&store, &ask(&id(name))).await.unwrap();
            assert!(matches!(replay, ClaimAnswer::Replay(_)), "{replay:?}");
            in_progress(&claim(&store, &ask(&given.id)).await.unwrap());
            assert_eq!(store.renew(vec![Renew::of(&held, LEASE)]).await.unwrap(), [Renewed::Held]);
            assert_eq!(store.complete(held, done("paid")).await.unwrap(), Completed::Stored);
            let released = given_back(&given, "early");
            let released = store.release(given.id.clone(), released).await.unwrap();
            assert_eq!(released.answer, ReleaseAnswer::Stored);
            fails(claim(&store, &ask(&given.id)).await, ReadOnly, &[name, right]);
            assert_eq!(server.ask(&["CONFIG", "SET", name, right]).await, "OK");
            store.sweep(SweepBudget::default()).await.unwrap();
        }
        finished(&store, &id("k")).await;
    }
}

/// The same where it is met by a connection that is made anew: what ran before the server was started otherwise.
#[tokio::test]
async fn a_run_ends_on_a_server_that_was_started_with_other_settings() {
    let (server, fixture) = server("appendfsync", "always").await;
    let store = fixture.builder().open().await.unwrap();
    let held = hold(&store, &id("k")).await;
    assert_eq!(server.ask(&["CONFIG", "SET", "appendfsync", "everysec"]).await, "OK");
    server.ask(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    let refused = async || match claim(&store, &ask(&id("new"))).await {
        Err(error) if error.kind() == ReadOnly => Ok(error),
        other => Err(other),
    };
    let refused = until(refused).await.to_string();
    assert!(refused.contains("set its appendfsync to always"), "{refused}");
    assert_eq!(store.read(vec![id("new")]).await.unwrap().records, [None]);
    assert_eq!(store.complete(held, done("paid")).await.unwrap(), Completed::Stored);
}

/// Where it was accepted that the server loses, it may go on to lose more.
#[tokio::test]
async fn a_volatile_server_may_become_more_so() {
    let (server, fixture) = server("appendfsync", "everysec").await;
    let store = fixture.builder().accept_volatile(true).open().await.unwrap();
    assert_eq!(server.ask(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await, "OK");
    store.sweep(SweepBudget::default()).await.unwrap();
    finished(&store, &id("k")).await;
}
