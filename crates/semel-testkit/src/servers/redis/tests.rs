//! What tests rely on: kills, promotions, and a cluster that goes on.

use super::*;

#[tokio::test]
async fn every_kind_serves_and_keeps_what_it_was_told_over_a_kill() {
    for kind in RedisKind::ALL {
        let mut server = Redis::builder(kind).start().await;
        assert_eq!(server.ask(&["SET", "k", "v"]).await, "OK");
        server.kill();
        server.restart().await;
        assert_eq!(server.ask(&["GET", "k"]).await, "v", "{kind:?}");
        let said = server.ask(&["INFO", "server"]).await;
        let version =
            if kind == RedisKind::Valkey9 { "valkey_version:9" } else { "redis_version:" };
        assert!(said.contains(version), "{said}");
    }
}

#[tokio::test]
async fn a_replica_is_promoted_when_the_primary_is_gone() {
    let kind = RedisKind::Redis7;
    let mut primary = Redis::builder(kind).start().await;
    let replica = Redis::builder(kind).replica_of(primary.address()).start().await;
    let sentinels = Sentinels::watch(kind, &primary, 1).await;
    assert_eq!(sentinels.primary().await, primary.address());
    primary.ask(&["SET", "k", "v"]).await;
    assert_eq!(primary.ask(&["WAIT", "1", "10000"]).await, "1");
    primary.kill();
    assert_eq!(sentinels.promoted(primary.address()).await, replica.address());
    assert_eq!(replica.ask(&["GET", "k"]).await, "v");
}

#[tokio::test]
async fn a_cluster_goes_on_when_a_primary_is_gone() {
    let mut cluster = RedisCluster::start(RedisKind::Valkey9).await;
    let gone = cluster.addresses()[0];
    assert_eq!(cluster.primaries().await.len(), 3);
    cluster.node(0).kill();
    cluster.until_whole().await;
    let primaries = cluster.primaries().await;
    assert!(primaries.len() == 3 && !primaries.contains(&gone), "{primaries:?}");
}

/// Whatever changes the user on the way meets none of them: what a library made there would be root's, and shut to the
/// server.
#[tokio::test]
async fn the_variables_of_a_server_are_met_by_it_alone() {
    let told = Scratch::new("loader", Medium::Memory);
    let output = told.path().join("told");
    // The loader of each program that meets them writes down what it begins.
    let builder = Redis::builder(RedisKind::Redis7).env("LD_DEBUG", "libs");
    let server = builder.env("LD_DEBUG_OUTPUT", output.to_str().unwrap()).start().await;
    assert_eq!(server.ask(&["PING"]).await, "PONG");
    let files = std::fs::read_dir(told.path()).unwrap().flatten();
    let text: String = files.map(|file| std::fs::read_to_string(file.path()).unwrap()).collect();
    let begun: Vec<_> =
        text.lines().filter_map(|line| line.split_once("initialize program: ")).collect();
    let is_server = |(_, program): &(&str, &str)| program.ends_with("redis-server");
    assert!(!begun.is_empty() && begun.iter().all(is_server), "{begun:?}");
}
