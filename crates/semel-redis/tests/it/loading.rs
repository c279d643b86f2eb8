//! What is met while a server that was restarted still loads its file.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use semel::{
    Store,
    StoreErrorKind::{Busy, Unavailable},
    store::{ClaimAnswer, Completed, capability::Inspect},
};
use semel_redis::RedisStore;
use semel_testkit::servers::{Redis, RedisKind};

use crate::{
    fixture::{Fixture, until},
    words::*,
};

/// A server that has a finished intent and a held one, and is restarted.
struct Scene {
    server: Redis,
    fixture: Fixture,
    store: RedisStore,
    held: semel::Permit,
}

impl Scene {
    async fn loading(kind: RedisKind) -> Self {
        let mut server = Redis::builder(kind).start().await;
        let fixture = Fixture::of_server(&server);
        let store = fixture.builder().open().await.unwrap();
        finished(&store, &id("done")).await;
        let held = hold(&store, &id("held")).await;
        server.restart_loading().await;
        // The first question meets the connection that broke.
        fails(store.read(vec![id("done")]).await, Unavailable, &[]);
        Self { server, fixture, store, held }
    }
}

/// Whoever asks meanwhile is told to come again, in time, and nothing was done; afterwards all is as it was.
async fn is_told_to_come_again(kind: RedisKind) {
    let Scene { server, store, held, .. } = Scene::loading(kind).await;
    let (new, old) = (ask(&id("new")), ask(&id("done")));
    let began = Instant::now();
    let (claimed, replayed, completed, read) = tokio::join!(
        claim(&store, &new),
        claim(&store, &old),
        store.complete(held.clone(), done("paid")),
        store.read(vec![id("held")]),
    );
    // Nine pauses of a second in all, and ten answers between two keys that are loaded.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    fails(claimed, Busy, &["loading"]);
    fails(replayed, Busy, &["loading"]);
    fails(completed, Busy, &["loading"]);
    fails(read, Busy, &["loading"]);
    server.loaded().await;
    assert_eq!(store.read(vec![id("new")]).await.unwrap().records, [None]);
    let answer = claim(&store, &new).await.unwrap();
    assert!(matches!(answer, ClaimAnswer::Granted { grant: Some(_), .. }), "{answer:?}");
    in_progress(&claim(&store, &ask(&id("new"))).await.unwrap());
    let replay = claim(&store, &old).await.unwrap();
    assert!(matches!(replay, ClaimAnswer::Replay(_)), "{replay:?}");
    assert_eq!(store.complete(held, done("paid")).await.unwrap(), Completed::Stored);
    let counts = store.counts().await.unwrap();
    assert_eq!((counts.done, counts.running), (2, 1), "{kind:?}");
}

/// S02: `LOADING` is told as what passes, by every verb, in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_loads_its_file_grants_and_tells_nothing_and_all_may_ask_again() {
    join_all(RedisKind::ALL.map(is_told_to_come_again)).await;
}

/// C01: many who keep asking while it loads: one is granted the intent, whoever asked when.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_all_who_ask_while_the_server_loads_one_is_granted() {
    let Scene { server, store, .. } = Scene::loading(RedisKind::Valkey9).await;
    let asks: Vec<_> = (0..40).map(|_| ask(&id("wanted"))).collect();
    let answers = join_all(asks.iter().map(|asked| until(|| claim(&store, asked))));
    let (answers, ()) = tokio::join!(answers, server.loaded());
    let (granted, others): (Vec<_>, Vec<_>) = answers
        .into_iter()
        .partition(|answer| matches!(answer, ClaimAnswer::Granted { grant: Some(_), .. }));
    assert_eq!(granted.len(), 1, "{granted:?}");
    others.iter().for_each(in_progress);
    assert_eq!(store.counts().await.unwrap().running, 2);
}

/// A store opens on a server that loads, since its settings are told already, and is asked as soon as it has
/// loaded. What must be tried first, waiting for a disk, is told as what passes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_opens_while_the_server_loads_or_says_that_it_does() {
    let Scene { server, fixture, .. } = Scene::loading(RedisKind::Redis8).await;
    let flushed = || fixture.builder().wait_flushed(true).open();
    fails(flushed().await, Busy, &["loading"]);
    let opened = fixture.builder().open().await.unwrap();
    fails(claim(&opened, &ask(&id("new"))).await, Busy, &["loading"]);
    server.loaded().await;
    granted(claim(&opened, &ask(&id("new"))).await.unwrap());
    assert_eq!(flushed().await.unwrap().counts().await.unwrap().running, 2);
}
