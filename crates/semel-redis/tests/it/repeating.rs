//! Replays of what a process saw ended: by plain reads, and never anything else than what a script would say.

use std::{sync::Arc, time::Duration};

use semel::{
    Permit, Store,
    decide::{Finish, Refusal},
    store::{ClaimAnswer, Completed},
};
use semel_redis::RedisStore;
use semel_testkit::servers::{Redis, RedisKind};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Notify,
};

use crate::{
    fixture::{Fixture, until, way_to},
    words::*,
};

/// The question for the time, as it is sent.
const TIME: &[u8] = b"*1\r\n$4\r\nTIME\r\n";

/// How often a server was asked to do something.
async fn calls(server: &Redis, command: &str) -> u64 {
    let said = server.ask(&["INFO", "commandstats"]).await;
    let of = said.lines().find_map(|line| line.strip_prefix(&*format!("cmdstat_{command}:calls=")));
    of.and_then(|of| of.split(',').next()).map_or(0, |count| count.parse().unwrap())
}

async fn ended(store: &RedisStore, key: &str, finish: Finish) -> Permit {
    let permit = hold(store, &id(key)).await;
    assert_eq!(store.complete(permit.clone(), finish).await.unwrap(), Completed::Stored);
    permit
}

/// Replayed and remembered no longer than this.
fn kept(body: &str, replay: Duration, remember: Duration) -> Finish {
    Finish { replay_for: replay, remember_for: remember, ..done(body) }
}

#[track_caller]
fn replays(answer: &ClaimAnswer, body: &str) {
    let ClaimAnswer::Replay(record) = answer else { panic!("not replayed: {answer:?}") };
    assert_eq!(record.outcome, done(body).outcome);
    assert_eq!(record.pointer.as_ref().map(|pointer| &*pointer.id), Some("7"));
}

#[tokio::test]
async fn what_a_process_saw_ended_is_replayed_without_a_script() {
    let server = Redis::builder(RedisKind::Redis7).start().await;
    let fixture = Fixture::of_server(&server);
    let store = fixture.builder().open().await.unwrap();
    ended(&store, "k", done("paid")).await;
    let scripts = calls(&server, "evalsha").await;
    for _ in 0..3 {
        replays(&claim(&store, &ask(&id("k"))).await.unwrap(), "paid");
    }
    assert_eq!(calls(&server, "evalsha").await, scripts);
    // A process that began later finds out by a script, once.
    let later = fixture.builder().open().await.unwrap();
    for _ in 0..3 {
        replays(&claim(&later, &ask(&id("k"))).await.unwrap(), "paid");
    }
    assert_eq!(calls(&server, "evalsha").await, scripts + 1);
    // Other content is refused as ever.
    let mut other = ask(&id("k"));
    other.fingerprint = semel::Fingerprint::of_bytes(b"pay 11");
    let refused = claim(&store, &other).await.unwrap();
    assert!(matches!(refused, ClaimAnswer::Refused(Refusal::Mismatch)), "{refused:?}");
    replays(&claim(&store, &ask(&id("k"))).await.unwrap(), "paid");
}

/// Asks until it is something else than a replay.
async fn over(store: &RedisStore, key: &str) -> ClaimAnswer {
    until(|| async {
        match claim(store, &ask(&id(key))).await.unwrap() {
            ClaimAnswer::Replay(_) => Err("it is still replayed"),
            other => Ok(other),
        }
    })
    .await
}

#[tokio::test]
async fn what_is_over_is_not_replayed_to_those_who_saw_it_end() {
    let server = Redis::shared(RedisKind::Valkey9).await;
    let store = Fixture::of_server(server).builder().open().await.unwrap();
    let short = Duration::from_millis(30);
    ended(&store, "forgotten", kept("paid", short, REMEMBER)).await;
    let answer = over(&store, "forgotten").await;
    assert!(matches!(answer, ClaimAnswer::Refused(Refusal::Forgotten { .. })), "{answer:?}");
    ended(&store, "absent", kept("paid", short, short)).await;
    granted(over(&store, "absent").await);
    in_progress(&claim(&store, &ask(&id("absent"))).await.unwrap());
}

#[tokio::test]
async fn what_others_did_since_is_told_and_not_what_was_seen() {
    let server = Redis::builder(RedisKind::Redis7).start().await;
    let fixture = Fixture::of_server(&server);
    let (store, other) = tokio::join!(fixture.builder().open(), fixture.builder().open());
    let (store, other) = (store.unwrap(), other.unwrap());
    ended(&store, "k", done("paid")).await;
    assert_eq!(server.ask(&["FLUSHALL"]).await, "OK");
    let permit = hold(&other, &id("k")).await;
    in_progress(&claim(&store, &ask(&id("k"))).await.unwrap());
    assert_eq!(other.complete(permit, done("other")).await.unwrap(), Completed::Stored);
    replays(&claim(&store, &ask(&id("k"))).await.unwrap(), "other");
    replays(&claim(&store, &ask(&id("k"))).await.unwrap(), "other");
}

/// A way to a server that stops once before a client asks for the time, and says so.
#[derive(Default)]
struct Stop {
    stopped: Notify,
    goes_on: Notify,
}

impl Stop {
    async fn carry(self: Arc<Self>, client: TcpStream, server: TcpStream) {
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let requests = async {
            let mut piece = vec![0; 1 << 16];
            loop {
                let count = from_client.read(&mut piece).await.unwrap_or(0);
                let said = &piece[..count];
                let at = said.windows(TIME.len()).position(|part| part == TIME).unwrap_or(count);
                to_server.write_all(&said[..at]).await.unwrap();
                if at < count {
                    self.stopped.notify_one();
                    self.goes_on.notified().await;
                    to_server.write_all(&said[at..]).await.unwrap();
                }
                if count == 0 {
                    break;
                }
            }
        };
        tokio::select! {
            () = requests => {}
            _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
        }
    }
}

/// What a claim is told that has read its record and not yet asked for the time, while others go on.
async fn held_between<F: Future<Output = ()>>(
    finish: Finish,
    meanwhile: impl FnOnce(RedisStore) -> F,
) -> ClaimAnswer {
    let server = Redis::builder(RedisKind::Redis7).start().await;
    let mut fixture = Fixture::of_server(&server);
    let other = fixture.builder().open().await.unwrap();
    let stop = Arc::new(Stop::default());
    let way = Arc::clone(&stop);
    let carry = move |client, server| Arc::clone(&way).carry(client, server);
    fixture.url = format!("redis://{}", way_to(server.address(), carry).await);
    let store = fixture.builder().open().await.unwrap();
    ended(&store, "k", finish).await;
    let reads = calls(&server, "mget").await;
    let asked = ask(&id("k"));
    let others = async {
        stop.stopped.notified().await;
        // The read is on its way, and comes first.
        let is_read = || async { (calls(&server, "mget").await > reads).then_some(()).ok_or("no") };
        until(is_read).await;
        meanwhile(other).await;
        stop.goes_on.notify_one();
    };
    let (answer, ()) = tokio::join!(claim(&store, &asked), others);
    answer.unwrap()
}

#[tokio::test]
async fn a_record_that_is_over_between_the_read_and_the_time_is_not_replayed() {
    let short = Duration::from_millis(300);
    let forgotten = held_between(kept("paid", short, REMEMBER), |other| async move {
        over(&other, "k").await;
    });
    let claimed = held_between(kept("paid", short, short), |other| async move {
        granted(over(&other, "k").await);
    });
    let (forgotten, claimed) = tokio::join!(forgotten, claimed);
    assert!(matches!(forgotten, ClaimAnswer::Refused(Refusal::Forgotten { .. })), "{forgotten:?}");
    in_progress(&claimed);
}

/// The answer is as of the read; whatever is done behind it comes later.
#[tokio::test]
async fn a_record_that_stays_is_replayed_whatever_lies_between_the_read_and_the_time() {
    let answer = held_between(done("paid"), |other| async move {
        ended(&other, "another", done("other")).await;
    });
    replays(&answer.await, "paid");
}
