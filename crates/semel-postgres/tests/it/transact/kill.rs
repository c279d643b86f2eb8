//! The application and its server are killed at random, again and again: what was acknowledged is
//! there once, and nothing is there twice.
//!
//! The application is this very test binary, asked for one test and told its part by the environment;
//! without a part the test has nothing to do. A minute and more is asked for by `SEMEL_TEST_SECONDS`.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use semel::{Call, Fingerprint, Outcome, Policy, Refusal, codec, outcome::Body};
use semel_postgres::{
    PostgresStore,
    transact::{Ran, Transact},
};
use semel_testkit::servers::{Major, Postgres};
use tokio::sync::mpsc;
use tokio_postgres::Error;

use super::{pool::Pool, shop::id};

const PART: &str = "SEMEL_TEST_LEDGER";
const CLIENTS: u64 = 32;

const LEDGER: &str = "CREATE TABLE ledger (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    key text NOT NULL, content text NOT NULL)";

/// Draws numbers that only depend on the seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// The client of an intent: every tenth sends other content under its key.
fn intent(key: &str, content: &str) -> Call {
    let policy = Policy { wait: Duration::from_secs(5), ..Policy::default() };
    Call::new(id(key), Fingerprint::of_bytes(content.as_bytes()), Arc::new(policy))
}

fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    // Whoever listened may be gone: so is the reason to go on.
    if writeln!(out, "\n@{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

/// Enters a row and answers with its id.
async fn enter(
    transact: &Transact,
    pool: &Pool,
    key: &str,
    content: &str,
) -> Result<Ran<i64>, semel_postgres::transact::RunError<Error>> {
    let mine = intent(key, content);
    let ran = transact.run_on(pool, &mine, async |guard| {
        let insert = "INSERT INTO ledger (key, content) VALUES ($1, $2) RETURNING id";
        let id: i64 = guard.query_one(insert, &[&key, &content]).await?.get(0);
        Ok(guard.done(Outcome::new(201, format!("{id}")), id))
    });
    Box::pin(ran).await
}

fn body(record: &semel::Record) -> String {
    match &record.outcome.as_ref().expect("it is kept for a day").body {
        Body::Kept(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Body::NotKept => panic!("it was kept"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_that_serves_until_it_is_killed() {
    let Ok(part) = std::env::var(PART) else { return };
    let (url, epoch) = part.split_once(' ').unwrap();
    let epoch: u64 = epoch.parse().unwrap();
    let client = Pool::connect(url).await.unwrap();
    let transact = Transact::loader().load(&client).await.unwrap();
    let (pool, serial) = (Pool::new(url, 12), Arc::new(AtomicU64::new(0)));
    let clients = (0..CLIENTS).map(|client| {
        let (transact, pool, serial) = (transact.clone(), pool.clone(), Arc::clone(&serial));
        tokio::spawn(async move {
            let mut dice = Dice(epoch * 1_000 + client);
            loop {
                // Every fifth repeats an intent of this or the last life of the application.
                let (epoch, number) = match dice.below(5) {
                    0 => (epoch - dice.below(epoch.min(2)), dice.below(300)),
                    _ => (epoch, serial.fetch_add(1, Ordering::Relaxed)),
                };
                let key = format!("{epoch}-{number}");
                let content = if dice.below(10) == 0 { "changed" } else { "plain" };
                match enter(&transact, &pool, &key, content).await {
                    Ok(Ran::Done(id)) => tell(&format!("{key} {content} {id}")),
                    Ok(Ran::Replay(record)) => tell(&format!("{key} {content} {}", body(&record))),
                    Ok(Ran::Refused(Refusal::Mismatch)) => tell("mismatch"),
                    Ok(Ran::Refused(refusal)) => assert_eq!(refusal.code(), "in-progress"),
                    // The server is away; so is the answer.
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        })
    });
    // Nobody ends but by failing.
    futures_util::future::try_join_all(clients).await.unwrap();
}

/// Starts the application, whose lines go to `told`.
fn application(url: &str, epoch: u64, told: mpsc::UnboundedSender<String>) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "transact::kill::child_that_serves_until_it_is_killed"])
        .args(["--nocapture", "--test-threads=1"])
        .env(PART, format!("{url} {epoch}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    std::thread::spawn(move || {
        let lines = lines.map_while(Result::ok);
        for line in lines.filter_map(|line| line.strip_prefix('@').map(str::to_owned)) {
            drop(told.send(line));
        }
    });
    child
}

/// 32 clients, a fifth of them duplicates, a tenth with other content.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_killed_every_acknowledged_intent_has_one_row_and_no_intent_has_two() {
    let seconds = std::env::var("SEMEL_TEST_SECONDS").ok().and_then(|text| text.parse().ok());
    let until = Instant::now() + Duration::from_secs(seconds.unwrap_or(20));
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut server = Postgres::builder(Major::V18).fsync(true).start().await;
    PostgresStore::migrate(&PostgresStore::builder(server.url())).await.unwrap();
    Pool::connect(&server.url()).await.unwrap().batch_execute(LEDGER).await.unwrap();
    let (mut dice, mut epoch, mut acknowledged) = (Dice(seed), 1, HashMap::new());
    let (tell, mut told) = mpsc::unbounded_channel();
    let (mut mismatches, mut kills) = (0_u32, [0_u32; 2]);
    let mut child = application(&server.url(), epoch, tell.clone());
    while Instant::now() < until {
        for _ in 0..20 + dice.below(400) {
            let line = tokio::time::timeout(Duration::from_secs(60), told.recv()).await;
            let line = line.expect("it goes on after each kill").unwrap();
            note(&line, &mut acknowledged, &mut mismatches);
        }
        if dice.below(3) == 0 {
            server.kill();
            server.restart().await;
            kills[1] += 1;
        } else {
            child.kill().unwrap();
            child.wait().unwrap();
            epoch += 1;
            kills[0] += 1;
            child = application(&server.url(), epoch, tell.clone());
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    drop(tell);
    while let Some(line) = told.recv().await {
        note(&line, &mut acknowledged, &mut mismatches);
    }
    println!("{} intents, {mismatches} mismatches, kills {kills:?}", acknowledged.len());
    assert!(mismatches > 0 && acknowledged.len() > 20 && kills[0] > 0);
    check(&server, acknowledged).await;
}

fn note(line: &str, acknowledged: &mut HashMap<String, (String, i64)>, mismatches: &mut u32) {
    let [key, content, row] = line.split(' ').collect::<Vec<_>>()[..] else {
        assert_eq!(line, "mismatch");
        *mismatches += 1;
        return;
    };
    let answer = (content.to_owned(), row.parse().unwrap());
    let first = acknowledged.entry(key.to_owned()).or_insert_with(|| answer.clone());
    assert_eq!(*first, answer, "{key} was answered in two ways");
}

async fn check(server: &Postgres, acknowledged: HashMap<String, (String, i64)>) {
    let client = Pool::connect(&server.url()).await.unwrap();
    let twice = "SELECT count(*) - count(DISTINCT key) FROM ledger";
    assert_eq!(
        client.query_one(twice, &[]).await.unwrap().get::<_, i64>(0),
        0,
        "no intent has two"
    );
    let all = "SELECT l.key, l.content, l.id, r.state, r.outcome
        FROM ledger AS l FULL JOIN semel.record AS r ON r.key = l.key";
    let mut kept = HashMap::new();
    for row in client.query(all, &[]).await.unwrap() {
        let key: Option<String> = row.get(0);
        let key = key.expect("no record without its row");
        let state: Option<String> = row.get(3);
        assert_eq!(state.as_deref(), Some("done"), "no row without its record: {key}");
        let (content, row_id): (String, i64) = (row.get(1), row.get(2));
        let outcome = codec::decode(row.get(4)).unwrap();
        assert_eq!(outcome.body, Body::Kept(row_id.to_string().into()), "{key}");
        kept.insert(key, (content, row_id));
    }
    for (key, answer) in &acknowledged {
        assert_eq!(kept.get(key), Some(answer), "{key} was acknowledged");
    }
    // Every answer is replayed, as far as a short test can ask.
    let transact = Transact::loader().load(&client).await.unwrap();
    let pool = Pool::new(&server.url(), 4);
    for (key, (content, row)) in acknowledged.iter().take(500) {
        match enter(&transact, &pool, key, content).await.unwrap() {
            Ran::Replay(record) => assert_eq!(body(&record), row.to_string()),
            other => panic!("{key}: {other:?}"),
        }
    }
}
