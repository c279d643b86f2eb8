//! What a claim and its end cost beside two bare `SET`s on the same kind of connection, a replay beside a bare
//! `GET`, and a finished record in memory beside a bare key.
//!
//! Beside those stands what any step that is one script must cost: the same two `SET`s, each inside a script that does
//! nothing else, and a script that does nothing at all.
//!
//! `cargo bench -p semel-redis --bench leased -- [--json] [--memory] [--valkey] [--seconds N] [--callers N]`
//!
//! The server is a private one that flushes every write, on the disk of the temporary folder; with `--memory` in
//! memory, where a flush costs nothing and only the processor's time is left.

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

use redis::{AsyncConnectionConfig, Client, aio::MultiplexedConnection, cmd};
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
const TURNS: usize = 5;
/// What one bare step is inside a script.
const SET_BY_SCRIPT: &str = "return redis.call('SET', KEYS[1], ARGV[1], 'PX', 3600000)";
const NOTHING: &str = "return 1";

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let number = |name: &str, or: u64| {
        let at = words.iter().position(|word| word == name);
        at.and_then(|at| words.get(at + 1)).map_or(or, |word| word.parse().unwrap())
    };
    let span = Duration::from_secs(number("--seconds", 2));
    let callers = number("--callers", 64);
    let has = |name: &str| words.iter().any(|word| word == name);
    let medium = if has("--memory") { Medium::Memory } else { Medium::Disk };
    let kind = if has("--valkey") { RedisKind::Valkey9 } else { RedisKind::Redis7 };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let told = runtime.block_on(measured(kind, medium, span, callers));
    let rates = told.rates.map(median);
    let [pairs, bare, scripted, replays, gets, nothings] = rates;
    let [of_bare, of_scripted, of_gets, of_nothings] = [
        ratio(&told.rates, 0, 1),
        ratio(&told.rates, 0, 2),
        ratio(&told.rates, 3, 4),
        ratio(&told.rates, 3, 5),
    ];
    let bytes = told.bytes;
    if has("--json") {
        println!(
            "{{\"bench\":\"leased\",\"callers\":{callers},\"pairs_per_s\":{pairs:.0},\"bare_pairs_per_s\":{bare:.0},\
             \"pair_ratio\":{of_bare:.2},\"scripted_pairs_per_s\":{scripted:.0},\"scripted_ratio\":{of_scripted:.2},\
             \"replays_per_s\":{replays:.0},\"gets_per_s\":{gets:.0},\"replay_ratio\":{of_gets:.2},\
             \"nothings_per_s\":{nothings:.0},\"nothing_ratio\":{of_nothings:.2},\"bytes_per_record\":{bytes}}}"
        );
        return;
    }
    println!("{callers} callers, claim and end         {pairs:>9.0} /s");
    println!("   SET NX and SET                {bare:>9.0} /s   ratio {of_bare:.2}");
    println!("   the same by scripts           {scripted:>9.0} /s   ratio {of_scripted:.2}");
    println!("{callers} callers, replays               {replays:>9.0} /s");
    println!("   GET                           {gets:>9.0} /s   ratio {of_gets:.2}");
    println!("   a script that does nothing    {nothings:>9.0} /s   ratio {of_nothings:.2}");
    println!("a finished record                {bytes:>9} bytes");
}

struct Told {
    /// Of each turn: pairs, bare ones, ones by scripts, replays, `GET`s, and scripts that do nothing.
    rates: [[f64; TURNS]; 6],
    bytes: u64,
}

fn median(mut values: [f64; TURNS]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[TURNS / 2]
}

/// The median of the ratios of turns beside each other.
fn ratio(rates: &[[f64; TURNS]; 6], ours: usize, bare: usize) -> f64 {
    median(std::array::from_fn(|turn| rates[ours][turn] / rates[bare][turn]))
}

async fn measured(kind: RedisKind, medium: Medium, span: Duration, callers: u64) -> Told {
    let server = Redis::builder(kind).medium(medium).start().await;
    let store = Arc::new(RedisStore::builder(&server.url()).open().await.unwrap());
    let client = Client::open(server.url()).unwrap();
    let patient = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(20)));
    let bare = client.get_multiplexed_async_connection_with_config(&patient).await.unwrap();
    let before = used(&server).await;
    for n in 0..5_000 {
        paid(&store, n).await;
    }
    let bytes = (used(&server).await - before) / 5_000;
    let mut told = Told { rates: [[0.0; TURNS]; 6], bytes };
    let digests = [SET_BY_SCRIPT, NOTHING].map(redis::Script::new);
    for script in &digests {
        script.prepare_invoke().load_async(&mut bare.clone()).await.unwrap();
    }
    let [set, nothing] = digests.map(|script| Arc::<str>::from(script.get_hash()));
    for turn in 0..TURNS {
        let first = (u64::try_from(turn).unwrap() + 1) << 40;
        let pair = |n| {
            let store = Arc::clone(&store);
            async move { paid(&store, first + n).await }
        };
        told.rates[0][turn] = rate(span, callers, pair).await;
        let pair = |n| set_twice(bare.clone(), first + n);
        told.rates[1][turn] = rate(span, callers, pair).await;
        let pair = |n| set_twice_by(Arc::clone(&set), bare.clone(), first + n);
        told.rates[2][turn] = rate(span, callers, pair).await;
        let replay = |n| {
            let store = Arc::clone(&store);
            async move { replayed(&store, n % 5_000).await }
        };
        told.rates[3][turn] = rate(span, callers, replay).await;
        let get = |n: u64| got(bare.clone(), (1 << 40) + n % 1_000);
        told.rates[4][turn] = rate(span, callers, get).await;
        let run = |_| ran(Arc::clone(&nothing), bare.clone());
        told.rates[5][turn] = rate(span, callers, run).await;
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

async fn set_twice_by(digest: Arc<str>, mut connection: MultiplexedConnection, n: u64) {
    let key = format!("scripted:8e03978e-40d5-43e8-bc93-{n:012x}");
    for value in ["running", BODY] {
        let mut run = cmd("EVALSHA");
        run.arg(&*digest).arg(1).arg(&key).arg(value);
        run.query_async::<()>(&mut connection).await.unwrap();
    }
}

async fn ran(digest: Arc<str>, mut connection: MultiplexedConnection) {
    let mut run = cmd("EVALSHA");
    run.arg(&*digest).arg(0);
    assert_eq!(run.query_async::<u8>(&mut connection).await.unwrap(), 1);
}
