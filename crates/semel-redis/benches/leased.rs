//! What a claim and its end cost beside two bare `SET`s on the same kind of connection, a replay beside a bare
//! `GET`, and a finished record in memory beside a bare key.
//!
//! A replay is cheap where the process saw the intent end; what it costs of what others ended is told apart.
//!
//! Beside those stands what any step that is one script must cost: the same two `SET`s, each inside a script that does
//! nothing else, and a script that does nothing at all. Of each the processor's time is told too, of the server and of
//! this process: where both share a machine with others, that says more than a rate.
//!
//! `cargo bench -p semel-redis --bench leased -- [--json] [--memory] [--valkey] [--seconds N] [--callers N]
//! [--only NAME]`
//!
//! The server is a private one that flushes every write, on the disk of the temporary folder; with `--memory` in
//! memory, where a flush costs nothing and only the processor's time is left. `--only` measures one side alone, for a
//! profiler.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a bench measures time and may fail by panicking"
)]

use std::{
    fmt::Write,
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
/// How many records are replayed in turn.
const RECORDS: u64 = 5_000;
/// What one bare step is inside a script.
const SET_BY_SCRIPT: &str = "return redis.call('SET', KEYS[1], ARGV[1], 'PX', 3600000)";
const NOTHING: &str = "return 1";
/// The server's own time, as the scripts ask for it.
const CLOCK: &str = "  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])";

/// The sides, in the order in which they are measured.
const SIDES: [&str; 7] = ["pairs", "bare", "scripted", "replays", "elsewhere", "gets", "nothings"];
/// What is held against what.
const RATIOS: [(&str, &str, &str); 6] = [
    ("pair", "pairs", "bare"),
    ("scripted", "pairs", "scripted"),
    ("replay", "replays", "gets"),
    ("elsewhere", "elsewhere", "gets"),
    ("nothing", "replays", "nothings"),
    ("elsewhere_nothing", "elsewhere", "nothings"),
];

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let after = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1)
    };
    let number = |name: &str, or: u64| after(name).map_or(or, |word| word.parse().unwrap());
    let has = |name: &str| words.iter().any(|word| word == name);
    let plan = Plan {
        kind: if has("--valkey") { RedisKind::Valkey9 } else { RedisKind::Redis7 },
        medium: if has("--memory") { Medium::Memory } else { Medium::Disk },
        span: Duration::from_secs(number("--seconds", 2)),
        callers: number("--callers", 64),
        only: after("--only").cloned(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let told = runtime.block_on(measured(&plan));
    if has("--json") {
        println!("{}", told.json(&plan));
    } else {
        told.print(&plan);
    }
}

struct Plan {
    kind: RedisKind,
    medium: Medium,
    span: Duration,
    callers: u64,
    only: Option<String>,
}

/// What one side did in one turn.
#[derive(Clone, Copy, Default)]
struct Pace {
    per_s: f64,
    /// Microseconds of processor time per step, of the server and of this process.
    server_us: f64,
    client_us: f64,
}

struct Told {
    /// Of each side, each turn.
    paces: [[Pace; TURNS]; SIDES.len()],
    bytes: u64,
}

impl Told {
    fn of(&self, side: &str) -> &[Pace; TURNS] {
        let at = SIDES.iter().position(|name| *name == side).unwrap();
        &self.paces[at]
    }

    fn median(&self, side: &str, what: impl Fn(&Pace) -> f64) -> f64 {
        median(std::array::from_fn(|turn| what(&self.of(side)[turn])))
    }

    /// The median of the ratios of turns beside each other.
    fn ratio(&self, ours: &str, bare: &str) -> f64 {
        let (ours, bare) = (self.of(ours), self.of(bare));
        median(std::array::from_fn(|turn| ours[turn].per_s / bare[turn].per_s))
    }

    fn print(&self, plan: &Plan) {
        let callers = format!("{} callers", plan.callers);
        println!("{callers:<30}     per s   server us  client us");
        for side in SIDES {
            println!(
                "{:<30} {:>9.0}   {:>9.1}  {:>9.1}",
                named(side),
                self.median(side, |pace| pace.per_s),
                self.median(side, |pace| pace.server_us),
                self.median(side, |pace| pace.client_us),
            );
        }
        for (_, ours, bare) in RATIOS {
            println!("{:>30} / {:<30} {:.2}", named(ours), named(bare), self.ratio(ours, bare));
        }
        println!("a finished record: {} bytes", self.bytes);
    }

    fn json(&self, plan: &Plan) -> String {
        let mut json = format!("{{\"bench\":\"leased\",\"callers\":{}", plan.callers);
        for side in SIDES {
            let rate = self.median(side, |pace| pace.per_s);
            let server = self.median(side, |pace| pace.server_us);
            let client = self.median(side, |pace| pace.client_us);
            let _ = write!(
                json,
                ",\"{side}_per_s\":{rate:.0},\"{side}_server_us\":{server:.1},\"{side}_client_us\":{client:.1}"
            );
        }
        for (name, ours, bare) in RATIOS {
            let _ = write!(json, ",\"{name}_ratio\":{:.2}", self.ratio(ours, bare));
        }
        let _ = write!(json, ",\"bytes_per_record\":{}}}", self.bytes);
        json
    }
}

fn named(side: &str) -> &str {
    match side {
        "pairs" => "claim and end",
        "bare" => "SET NX and SET",
        "scripted" => "SETs by scripts",
        "elsewhere" => "replays, ended elsewhere",
        "gets" => "GET",
        "nothings" => "a script that does nothing",
        other => other,
    }
}

fn median(mut values: [f64; TURNS]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[TURNS / 2]
}

async fn measured(plan: &Plan) -> Told {
    let server = Redis::builder(plan.kind).medium(plan.medium).start().await;
    let store = Arc::new(RedisStore::builder(&server.url()).open().await.unwrap());
    // A store that is told the time guesses nothing.
    let elsewhere = RedisStore::builder(&server.url()).clock(CLOCK).open().await.unwrap();
    let elsewhere = Arc::new(elsewhere);
    let client = Client::open(server.url()).unwrap();
    let patient = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(20)));
    let bare = client.get_multiplexed_async_connection_with_config(&patient).await.unwrap();
    let before = used(&server).await;
    for n in 0..RECORDS {
        paid(Arc::clone(&store), n).await;
    }
    let bytes = (used(&server).await - before) / RECORDS;
    for n in 0..RECORDS {
        set_twice(bare.clone(), n).await;
    }
    let mut told = Told { paces: [[Pace::default(); TURNS]; SIDES.len()], bytes };
    let digests = [SET_BY_SCRIPT, NOTHING].map(redis::Script::new);
    for script in &digests {
        script.prepare_invoke().load_async(&mut bare.clone()).await.unwrap();
    }
    let [set, nothing] = digests.map(|script| Arc::<str>::from(script.get_hash()));
    for turn in 0..TURNS {
        let first = (u64::try_from(turn).unwrap() + 1) << 40;
        for (at, side) in SIDES.into_iter().enumerate() {
            if plan.only.as_deref().is_some_and(|only| only != side) {
                continue;
            }
            let (store, bare) = (&store, &bare);
            let pace = match side {
                "pairs" => pace(plan, &server, |n| paid(Arc::clone(store), first + n)).await,
                "bare" => pace(plan, &server, |n| set_twice(bare.clone(), first + n)).await,
                "scripted" => {
                    let twice = |n| set_twice_by(Arc::clone(&set), bare.clone(), first + n);
                    pace(plan, &server, twice).await
                }
                "replays" => {
                    pace(plan, &server, |n| replayed(Arc::clone(store), n % RECORDS)).await
                }
                "elsewhere" => {
                    pace(plan, &server, |n| replayed(Arc::clone(&elsewhere), n % RECORDS)).await
                }
                "gets" => pace(plan, &server, |n| got(bare.clone(), n % RECORDS)).await,
                _ => pace(plan, &server, |_| ran(Arc::clone(&nothing), bare.clone())).await,
            };
            told.paces[at][turn] = pace;
        }
    }
    told
}

/// How fast callers beside each other get something done, and at what cost.
async fn pace<F>(plan: &Plan, server: &Redis, step: impl Fn(u64) -> F) -> Pace
where
    F: Future<Output = ()>,
{
    let (server_before, client_before) = (server_us(server).await, client_us());
    let next = AtomicU64::new(0);
    let start = Instant::now();
    let caller = || async {
        while start.elapsed() < plan.span {
            step(next.fetch_add(1, Ordering::Relaxed)).await;
        }
    };
    futures_util::future::join_all((0..plan.callers).map(|_| caller())).await;
    let (steps, seconds) = (next.load(Ordering::Relaxed) as f64, start.elapsed().as_secs_f64());
    Pace {
        per_s: steps / seconds,
        client_us: (client_us() - client_before) / steps,
        server_us: (server_us(server).await - server_before) / steps,
    }
}

/// The processor time of the server so far.
async fn server_us(server: &Redis) -> f64 {
    let said = server.ask(&["INFO", "cpu"]).await;
    let used = said.lines().filter_map(|line| line.split_once(':'));
    let used = used.filter(|(name, _)| matches!(*name, "used_cpu_sys" | "used_cpu_user"));
    used.map(|(_, seconds)| seconds.trim().parse::<f64>().unwrap() * 1e6).sum()
}

/// The processor time of this process so far; the kernel counts it in hundredths of a second.
fn client_us() -> f64 {
    let told = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, behind) = told.rsplit_once(')').unwrap();
    behind
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|ticks| ticks.parse::<f64>().unwrap() * 1e4)
        .sum()
}

async fn used(server: &Redis) -> u64 {
    let said = server.ask(&["INFO", "memory"]).await;
    let used = said.lines().find_map(|line| line.strip_prefix("used_memory:"));
    used.unwrap().trim().parse().unwrap()
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

async fn paid(store: Arc<RedisStore>, n: u64) {
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

async fn replayed(store: Arc<RedisStore>, n: u64) {
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
