//! What a server says when it can or will do nothing for now: what callers are told, and what they meet when it passes.

use redis::cmd;
use semel::{
    Store,
    StoreErrorKind::{Busy, Full, ReadOnly},
    store::Completed,
};
use semel_testkit::servers::{Redis, RedisKind};

use crate::{
    fixture::{Fixture, connect, until},
    words::*,
};

/// S02: `MISCONF`: a server that cannot save refuses what would be written, and nothing is.
#[tokio::test]
async fn a_server_that_cannot_save_refuses_with_nothing_written() {
    let builder = Redis::builder(RedisKind::Redis7).setting("dbfilename", "taken");
    let server = builder.setting("save", "3600 1").start().await;
    let store = Fixture::of_server(&server).builder().open().await.unwrap();
    let held = hold(&store, &id("held")).await;
    let folder = server.ask(&["CONFIG", "GET", "dir"]).await;
    let folder = folder.lines().find(|line| line.starts_with('/')).unwrap().to_owned();
    let taken = std::path::Path::new(&folder).join("taken");
    std::fs::create_dir(&taken).unwrap();
    saves(&server, "err").await;
    fails(claim(&store, &ask(&id("k"))).await, Full, &["disk"]);
    fails(store.complete(held.clone(), done("paid")).await, Full, &["disk"]);
    std::fs::remove_dir(&taken).unwrap();
    saves(&server, "ok").await;
    assert_eq!(store.read(vec![id("k")]).await.unwrap().records, [None]);
    assert_eq!(store.complete(held, done("paid")).await.unwrap(), Completed::Stored);
}

/// Has a server save until it went as is wanted.
async fn saves(server: &Redis, wanted: &str) {
    until(|| async {
        server.ask(&["BGSAVE"]).await;
        let said = server.ask(&["INFO", "persistence"]).await;
        let wanted = format!("rdb_last_bgsave_status:{wanted}");
        said.contains(&wanted).then_some(()).ok_or(said)
    })
    .await;
}

/// `BUSY`: a server that runs somebody's endless script is asked again, and does it when that has ended.
#[tokio::test]
async fn a_server_that_is_busy_with_a_script_is_asked_again() {
    let server =
        Redis::builder(RedisKind::Redis7).setting("busy-reply-threshold", "20").start().await;
    let store = Fixture::of_server(&server).builder().open().await.unwrap();
    let mut other = connect(server.address()).await;
    let endless = tokio::spawn(async move {
        cmd("EVAL").arg("while true do end").arg(0).query_async::<()>(&mut other).await
    });
    let asked = ask(&id("k"));
    until(|| async {
        match claim(&store, &asked).await {
            Err(error) if error.kind() == Busy => Ok(error.to_string()),
            other => Err(other),
        }
    })
    .await;
    let (answer, ()) = tokio::join!(
        until(|| claim(&store, &asked)),
        until(|| async {
            let said = server.ask(&["SCRIPT", "KILL"]).await;
            if said.contains("OK") { Ok(()) } else { Err(said) }
        })
    );
    granted(answer);
    endless.await.unwrap().unwrap_err();
}

/// `MASTERDOWN`, as scripts say it: a replica that has lost its primary and answers nothing old.
#[tokio::test]
async fn a_replica_without_its_primary_is_no_primary() {
    let builder = Redis::builder(RedisKind::Redis7).setting("replica-serve-stale-data", "no");
    let server = builder.start().await;
    let store = Fixture::of_server(&server).builder().open().await.unwrap();
    finished(&store, &id("k")).await;
    // Nobody listens at this port.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = nobody.local_addr().unwrap().port().to_string();
    drop(nobody);
    assert_eq!(server.ask(&["REPLICAOF", "127.0.0.1", &port]).await, "OK");
    let asked = ask(&id("new"));
    fails(claim(&store, &asked).await, ReadOnly, &["replica"]);
    fails(claim(&store, &ask(&id("k"))).await, ReadOnly, &["replica"]);
    assert_eq!(server.ask(&["REPLICAOF", "NO", "ONE"]).await, "OK");
    granted(until(|| claim(&store, &asked)).await);
}
