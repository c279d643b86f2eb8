//! What a claim and its end cost beside two bare `SET`s on the same kind of connection, a replay beside a bare
//! `GET`, and a finished record in memory beside a bare key.
//!
//! `cargo bench -p semel-redis --bench leased -- [--json] [--seconds N] [--callers N]`
//!
//! The server is a private one that flushes every write, on the disk of the temporary folder.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a bench measures time and may fail by panicking"
)]

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use redis::{Client, aio::MultiplexedConnection, cmd};
use semel::{
    Fingerprint, IntentId, Key, Operation, Outcome, Scope, Store, Tenant, Timestamp, Token,
    decide::{Ask, Compare, Finish, FinishKind, OnLost},
    store::{ClaimAnswer, Completed},
};
use semel_redis::RedisStore;
use semel_testkit::servers::{Medium, Redis, RedisKind};

const RETAIN: Duration = Duration::from_secs(3_600);
const BODY: &str = "{\"id\":7,\"state\":\"paid\",\"amount\":1000}";
/// How often each side is measured, in turns.
const TURNS: u32 = 3;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let number = |name: &str, or: u64| {
        let at = words.iter().position(|word| word == name);
        at.and_then(|at| words.get(at + 1)).map_or(or, |word| word.parse().unwrap())
    };
    let span = Duration::from_secs(number("--seconds", 2));
    let callers = number("--callers", 64);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let told = runtime.block_on(measured(span, callers));
    if words.iter().any(|word| word == "--json") {
        println!(
            "{{\"bench\":\"leased\",\"callers\":{callers},\"pairs_per_s\":{:.0},\"bare_pairs_per_s\":{:.0},\
             \"pair_ratio\":{:.2},\"replays_per_s\":{:.0},\"gets_per_s\":{:.0},\"replay_ratio\":{:.2},\
             \"bytes_per_record\":{}}}",
            told.pairs,
            told.bare_pairs,
            told.pairs / told.bare_pairs,
            told.replays,
            told.gets,
            told.replays / told.gets,
            told.bytes,
        );
        return;
    }
    println!("{callers} callers, claim and end       {:>9.0} /s", told.pairs);
    println!("{callers} callers, SET NX and SET      {:>9.0} /s", told.bare_pairs);
    println!("ratio                         {:>9.2}", told.pairs / told.bare_pairs);
    println!("{callers} callers, replays             {:>9.0} /s", told.replays);
    println!("{callers} callers, GET                 {:>9.0} /s", told.gets);
    println!("ratio                         {:>9.2}", told.replays / told.gets);
    println!("a finished record             {:>9} bytes", told.bytes);
}

struct Told {
    pairs: f64,
    bare_pairs: f64,
    replays: f64,
    gets: f64,
    bytes: u64,
}

async fn measured(span: Duration, callers: u64) -> Told {
    let server = Redis::builder(RedisKind::Redis7).medium(Medium::Disk).start().await;
    let store = Arc::new(RedisStore::builder(&server.url()).open().await.unwrap());
    let client = Client::open(server.url()).unwrap();
    let bare = client.get_multiplexed_async_connection().await.unwrap();
    let before = used(&server).await;
    for n in 0..5_000 {
        paid(&store, n).await;
    }
    let bytes = (used(&server).await - before) / 5_000;
    let mut told = Told { pairs: 0.0, bare_pairs: 0.0, replays: 0.0, gets: 0.0, bytes };
    let turns = f64::from(TURNS);
    for turn in 0..u64::from(TURNS) {
        let first = (turn + 1) << 40;
        let pair = |n| {
            let store = Arc::clone(&store);
            async move { paid(&store, first + n).await }
        };
        told.pairs += rate(span, callers, pair).await / turns;
        let pair = |n| set_twice(bare.clone(), first + n);
        told.bare_pairs += rate(span, callers, pair).await / turns;
        let replay = |n| {
            let store = Arc::clone(&store);
            async move { replayed(&store, n % 5_000).await }
        };
        told.replays += rate(span, callers, replay).await / turns;
        let get = |n: u64| got(bare.clone(), (1 << 40) + n % 1_000);
        told.gets += rate(span, callers, get).await / turns;
    }
    told
}

async fn used(server: &Redis) -> u64 {
    let said = server.ask(&["INFO", "memory"]).await;
    let used = said.lines().find_map(|line| line.strip_prefix("used_memory:"));
    used.unwrap().trim().parse().unwrap()
}

/// How many times a second callers beside each other get something done.
async fn rate<F>(span: Duration, callers: u64, step: impl Fn(u64) -> F) -> f64
where
    F: Future<Output = ()>,
{
    let next = AtomicU64::new(0);
    let start = Instant::now();
    let caller = || async {
        while start.elapsed() < span {
            step(next.fetch_add(1, Ordering::Relaxed)).await;
        }
    };
    futures_util::future::join_all((0..callers).map(|_| caller())).await;
    next.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
}

fn id(n: u64) -> IntentId {
    let scope = Scope::new(Tenant::new("acme").unwrap(), Operation::new("payments").unwrap());
    scope.intent(Key::new(format!("8e03978e-40d5-43e8-bc93-{n:012x}")).unwrap())
}

fn ask(n: u64) -> Ask {
    Ask {
        id: id(n),
        token: Token::from_bytes((u128::from(n) + 1).to_be_bytes()),
        fingerprint: Fingerprint::of_bytes(b"pay 10"),
        older: Vec::new(),
        not_after: Timestamp::MAX,
        lease: Duration::from_secs(30),
        on_lost: OnLost::Hold,
        compare: Compare::Strict,
        claimed_by: None,
    }
}

async fn paid(store: &RedisStore, n: u64) {
    let answer = store.claim(vec![ask(n)]).await.unwrap().remove(0).answer;
    let ClaimAnswer::Granted { permit, .. } = answer else { panic!("{answer:?}") };
    let finish = Finish {
        kind: FinishKind::Done,
        outcome: Some(Outcome::new(201, BODY).header("content-type", "application/json")),
        reason: None,
        replay_for: RETAIN,
        remember_for: RETAIN,
    };
    assert_eq!(store.complete(permit, finish).await.unwrap(), Completed::Stored);
}

async fn replayed(store: &RedisStore, n: u64) {
    let asked = Ask { token: Token::from_bytes([9; 16]), ..ask(n) };
    let answer = store.claim(vec![asked]).await.unwrap().remove(0).answer;
    assert!(matches!(answer, ClaimAnswer::Replay(_)), "{answer:?}");
}

async fn set_twice(mut connection: MultiplexedConnection, n: u64) {
    let key = format!("bare:8e03978e-40d5-43e8-bc93-{n:012x}");
    let mut set = cmd("SET");
    set.arg(&key).arg("running").arg("NX").arg("PX").arg(3_600_000);
    set.query_async::<()>(&mut connection).await.unwrap();
    let mut set = cmd("SET");
    set.arg(&key).arg(BODY).arg("PX").arg(3_600_000);
    set.query_async::<()>(&mut connection).await.unwrap();
}

async fn got(mut connection: MultiplexedConnection, n: u64) {
    let key = format!("bare:8e03978e-40d5-43e8-bc93-{n:012x}");
    let _: Option<Vec<u8>> = cmd("GET").arg(&key).query_async(&mut connection).await.unwrap();
}
