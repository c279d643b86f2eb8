//! One reply is lost on the way and the connection lives: whoever asks after it would be given the answers of others.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use semel::{
    Store,
    store::{ClaimAnswer, Completed, capability::Inspect},
};
use semel_redis::RedisStore;
use semel_testkit::servers::{Redis, RedisKind};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    fixture::{Fixture, until, way_to},
    words::*,
};

/// Who asked last waits so long for an answer that was lost: none comes after it that says so.
const ANSWER_WAIT: Duration = Duration::from_secs(3);
/// How many ask beside each other.
const CALLERS: usize = 40;

/// A way to a server on which a number of replies is lost, whole, in connections that live on.
struct Lossy {
    address: SocketAddr,
    lose: Arc<AtomicUsize>,
}

impl Lossy {
    async fn to(server: SocketAddr) -> Self {
        let lose = Arc::new(AtomicUsize::new(0));
        let told = Arc::clone(&lose);
        let carry = move |client, upstream| carry(client, upstream, Arc::clone(&told));
        Self { address: way_to(server, carry).await, lose }
    }

    /// Loses the next replies.
    fn lose(&self, replies: usize) {
        self.lose.store(replies, Ordering::SeqCst);
    }

    fn has_lost(&self) -> bool {
        self.lose.load(Ordering::SeqCst) == 0
    }
}

async fn carry(client: TcpStream, upstream: TcpStream, lose: Arc<AtomicUsize>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = upstream.into_split();
    let there = async { tokio::io::copy(&mut from_client, &mut to_server).await.map(drop) };
    let back = async {
        let mut kept = Vec::new();
        loop {
            if from_server.read_buf(&mut kept).await? == 0 {
                return Ok(());
            }
            while let Some(length) = reply(&kept) {
                let reply: Vec<u8> = kept.drain(..length).collect();
                let less = |left: usize| left.checked_sub(1);
                if lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_err() {
                    to_client.write_all(&reply).await?;
                }
            }
        }
    };
    let ended: Result<(), std::io::Error> = tokio::select! {
        ended = there => ended,
        ended = back => ended,
    };
    drop(ended);
}

/// The length of the first reply, by RESP 2; nothing if it is not whole.
fn reply(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")? + 2;
    let number = || std::str::from_utf8(&bytes[1..end - 2]).unwrap().parse::<i64>().unwrap();
    let count = |number: i64| usize::try_from(number).unwrap_or(0);
    let length = match bytes[0] {
        b'$' if number() >= 0 => end + count(number()) + 2,
        b'*' => {
            let mut length = end;
            for _ in 0..count(number()) {
                length += reply(bytes.get(length..)?)?;
            }
            length
        }
        _ => end,
    };
    (bytes.len() >= length).then_some(length)
}

/// Everybody gets the outcome of his own intent or is told that nobody knows, however many replies are lost; and soon
/// all get their own.
async fn is_never_mixed_up(lossy: &Lossy, store: &RedisStore, mark: &str) {
    let body = |n: usize| format!("{mark} {n}");
    for n in 0..CALLERS {
        let id = id(&format!("{mark}-{n}"));
        let permit = until(|| async { claim(store, &ask(&id)).await.map(granted) }).await;
        assert_eq!(store.complete(permit, done(&body(n))).await.unwrap(), Completed::Stored);
    }
    for lost in [1, 2, 3, 5] {
        lossy.lose(lost);
        let repeats = (0..CALLERS).map(|n| {
            let asked = ask(&id(&format!("{mark}-{n}")));
            async move { (n, claim(store, &asked).await) }
        });
        let fresh = (0..CALLERS).map(|n| {
            let asked = ask(&id(&format!("{mark}-{lost}-new-{n}")));
            async move { (asked.clone(), claim(store, &asked).await) }
        });
        let (repeats, fresh) = tokio::join!(join_all(repeats), join_all(fresh));
        assert!(lossy.has_lost(), "nothing was lost");
        for (n, answer) in repeats {
            match answer {
                Ok(ClaimAnswer::Replay(record)) => {
                    assert_eq!(record.outcome, done(&body(n)).outcome, "of another intent");
                }
                Ok(other) => panic!("{n} was answered {other:?}"),
                Err(error) => assert!(!error.kind().is_definite(), "{error:?}"),
            }
        }
        for (asked, answer) in fresh {
            // Whoever was not told finds his claim by its token, and each is granted once.
            let again = until(|| claim(store, &asked)).await;
            let ClaimAnswer::Granted { permit, .. } = again else { panic!("{again:?}") };
            assert_eq!((permit.id, permit.token), (asked.id, asked.token));
            if let Ok(answer) = answer {
                assert_eq!(granted(answer).fence, permit.fence);
            }
        }
    }
    for n in 0..CALLERS {
        let asked = ask(&id(&format!("{mark}-{n}")));
        let answer = until(|| claim(store, &asked)).await;
        let ClaimAnswer::Replay(record) = answer else { panic!("{answer:?}") };
        assert_eq!(record.outcome, done(&body(n)).outcome);
    }
    // Lists go another way, and are mixed up as little.
    lossy.lose(1);
    let (counts, audit) = tokio::join!(store.counts(), store.audit(None, 10));
    for error in [counts.err(), audit.err()].into_iter().flatten() {
        assert!(!error.kind().is_definite(), "{error:?}");
    }
    assert_eq!(until(|| store.counts()).await.done, u64::try_from(CALLERS).unwrap());
}

#[tokio::test]
async fn nobody_is_given_the_answer_of_another_after_a_reply_was_lost() {
    for kind in [RedisKind::Redis7, RedisKind::Valkey9] {
        let server = Redis::shared(kind).await;
        let lossy = Lossy::to(server.address()).await;
        let mut fixture = Fixture::of_server(server);
        fixture.url = format!("redis://{}", lossy.address);
        let store = fixture.builder().answer_wait(ANSWER_WAIT).open().await.unwrap();
        is_never_mixed_up(&lossy, &store, "alone").await;
    }
}

/// The same where each answer has that of a replica behind it.
#[tokio::test]
async fn nor_where_replicas_are_waited_for() {
    let server = Redis::builder(RedisKind::Valkey9).start().await;
    let replica = Redis::builder(RedisKind::Valkey9).replica_of(server.address()).start().await;
    until(|| async { if server.is_copied_by(1).await { Ok(()) } else { Err(()) } }).await;
    let lossy = Lossy::to(server.address()).await;
    let mut fixture = Fixture::of_server(&server);
    fixture.url = format!("redis://{}", lossy.address);
    let builder = fixture.builder().wait_replicas(1).wait_for(ANSWER_WAIT);
    let store = builder.answer_wait(ANSWER_WAIT).connections(2).open().await.unwrap();
    is_never_mixed_up(&lossy, &store, "waiting").await;
    drop(replica);
}
