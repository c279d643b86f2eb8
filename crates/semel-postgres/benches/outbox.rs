//! What the outbox costs: an event in a business transaction against one more plain row, and how fast
//! events are read and settled, alone and while a snapshot is held, beside a table that workers claim
//! from with SKIP LOCKED.
//!
//! `cargo bench -p semel-postgres --bench outbox -- [--seconds N] [--turns N] [--major 15|17|18]`
//!
//! With `--held N` it measures only the last of these, for so many seconds on two servers side by side;
//! with `--latency` only how long an event takes from commit to confirm.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a bench measures time and may fail by panicking"
)]

mod latency;
mod standing;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use semel::outbox::{Destination, Lead, Leader, Led, OutboxStore, Settle, Settled, Start};
use semel_postgres::PostgresStore;
use semel_testkit::servers::{Major, Postgres};
use tokio_postgres::{Client, NoTls, Statement};

/// How many events one window has.
const WINDOW: usize = 5_000;
/// How many rows a worker of the queue claims at once.
const CLAIM: i64 = 500;
const PAYLOAD: usize = 200;

const QUEUE: &str = "
    CREATE TABLE payment (id bigserial PRIMARY KEY, cents bigint NOT NULL);
    CREATE TABLE plain (id uuid PRIMARY KEY, a text, b text, c text, payload bytea);
    CREATE TABLE queue (id bigserial PRIMARY KEY, done boolean NOT NULL DEFAULT false, payload bytea);
    CREATE INDEX ON queue (id) WHERE NOT done;";
const CLAIMED: &str = "
    UPDATE queue SET done = true WHERE id IN (
        SELECT id FROM queue WHERE NOT done ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED
    ) RETURNING id, payload";

const EVENTS: &str = "semel.outbox (aggregatetype, aggregateid, type, payload)
    SELECT 'order', (n % 200)::text, 'Placed',";
const ROWS: &str = "queue (payload) SELECT";

struct Options {
    seconds: u32,
    turns: u32,
    major: Major,
    held: Option<u32>,
    latency: bool,
}

impl Options {
    fn read() -> Self {
        let mut options =
            Self { seconds: 2, turns: 5, major: Major::V18, held: None, latency: false };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut number = || words.next().unwrap().parse::<u32>().unwrap();
            match word.as_str() {
                "--seconds" => options.seconds = number(),
                "--turns" => options.turns = number(),
                "--held" => options.held = Some(number()),
                "--latency" => options.latency = true,
                "--major" => {
                    let number = number();
                    let named = Major::ALL.into_iter().find(|major| major.number() == number);
                    options.major = named.unwrap();
                }
                _ => {}
            }
        }
        options
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let options = Options::read();
    if let Some(seconds) = options.held {
        return standing::measure(options.major, Duration::from_secs(seconds.into())).await;
    }
    let server = Postgres::start(options.major).await;
    let store = PostgresStore::builder(server.url()).prepared(true).open().await.unwrap();
    let store = Arc::new(store);
    server.run_sql(QUEUE).await;
    let span = Duration::from_secs(options.seconds.into());
    if !options.latency {
        append(&server, span, options.turns).await;
        read(&server, &store, span, options.turns).await;
    }
    latency::measure(&server, &store, span).await;
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// The transaction alone, with one more plain row, with an event.
async fn append(server: &Postgres, span: Duration, turns: u32) {
    let client = connect(&server.url()).await;
    let payload = vec![7_u8; PAYLOAD];
    let plain = "INSERT INTO plain VALUES (gen_random_uuid(), 'order', '7', 'Placed', $1)";
    let event = "INSERT INTO semel.outbox (id, aggregatetype, aggregateid, type, payload)
        VALUES (gen_random_uuid(), 'order', '7', 'Placed', $1)";
    let publish = "SELECT semel.publish('order', '7', 'Placed', $1)";
    let pay = client.prepare("INSERT INTO payment (cents) VALUES (1000)").await.unwrap();
    let mut ways = Vec::new();
    for text in [plain, event, publish] {
        ways.push(client.prepare(text).await.unwrap());
    }
    let mut took = vec![Vec::new(); ways.len() + 1];
    for _ in 0..turns {
        took[0].push(transactions(&client, &pay, None, &payload, span).await);
        for (way, took) in ways.iter().zip(&mut took[1..]) {
            took.push(transactions(&client, &pay, Some(way), &payload, span).await);
        }
    }
    let took: Vec<f64> = took.into_iter().map(median).collect();
    println!("transaction of one insert       {:>7.3} ms", took[0]);
    println!("  and a plain row               {:>7.3} ms", took[1]);
    for (name, took_one) in ["an event by INSERT", "an event by publish"].iter().zip(&took[2..]) {
        let more = took_one - took[1];
        println!(
            "  and {name:<26}{took_one:>7.3} ms   {more:+.3} ms, {:.2} of it",
            took_one / took[1]
        );
    }
}

/// How many milliseconds a transaction takes.
async fn transactions(
    client: &Client,
    pay: &Statement,
    way: Option<&Statement>,
    payload: &Vec<u8>,
    span: Duration,
) -> f64 {
    let (began, mut done) = (Instant::now(), 0_u32);
    while began.elapsed() < span {
        client.batch_execute("BEGIN").await.unwrap();
        client.execute(pay, &[]).await.unwrap();
        if let Some(way) = way {
            client.execute(way, &[payload]).await.unwrap();
        }
        client.batch_execute("COMMIT").await.unwrap();
        done += 1;
    }
    began.elapsed().as_secs_f64() * 1_000.0 / f64::from(done)
}

/// Reads and settles events, and claims from a queue, without and with a snapshot that is held.
async fn read(server: &Postgres, store: &PostgresStore, span: Duration, turns: u32) {
    let leader = lead(store, "null").await;
    let (filler, worker, reader) =
        (connect(&server.url()).await, connect(&server.url()).await, connect(&server.url()).await);
    let claim = worker.prepare(CLAIMED).await.unwrap();
    for held in [false, true] {
        if held {
            reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
        }
        let (mut read, mut claimed) = (Vec::new(), Vec::new());
        for _ in 0..turns {
            fill(&filler, EVENTS, 200_000).await;
            read.push(relayed(store, &leader, span).await);
            fill(&filler, ROWS, 200_000).await;
            claimed.push(claims(&worker, &claim, span).await);
        }
        let (read, claimed) = (median(read), median(claimed));
        let way = if held { "a snapshot held" } else { "nobody else" };
        println!("{way:<16} outbox {read:>8.0} events/s   SKIP LOCKED {claimed:>8.0} rows/s");
    }
    reader.batch_execute("COMMIT").await.unwrap();
}

/// Adds so many rows.
async fn fill(client: &Client, into: &str, rows: u32) {
    let rows = format!(
        "INSERT INTO {into} decode(repeat('07', {PAYLOAD}), 'hex') FROM generate_series(1, {rows}) AS n"
    );
    client.batch_execute(&rows).await.unwrap();
}

async fn lead(store: &PostgresStore, name: &str) -> Leader {
    let ask = Lead {
        destination: Destination::new(name).unwrap(),
        owner: "the bench".into(),
        lease: Duration::from_secs(3_600),
        start: Start::Now,
    };
    match store.lead(ask).await.unwrap() {
        Led::Leader(leader) => leader,
        Led::Follower { .. } => panic!("nobody else leads"),
    }
}

/// How many events a second are read, window by window, each settled before the next is.
async fn relayed(store: &PostgresStore, leader: &Leader, span: Duration) -> f64 {
    let (began, mut done, mut after) = (Instant::now(), 0_u32, None);
    while began.elapsed() < span {
        let window = store.read(leader.clone(), after, WINDOW, 16 << 20).await.unwrap();
        let Some(pass) = window.pass else { break };
        done += u32::try_from(window.events.len()).unwrap();
        let upto = Some((pass, window.upto));
        after = upto.filter(|_| !window.ends);
        let settle = Settle {
            destination: leader.destination.clone(),
            epoch: leader.epoch,
            upto,
            ends: window.ends,
            park: Vec::new(),
            unpark: Vec::new(),
        };
        assert_eq!(store.settle(settle).await.unwrap(), Settled::Stored);
    }
    f64::from(done) / began.elapsed().as_secs_f64()
}

/// How many rows a second one worker claims and is done with.
async fn claims(worker: &Client, claim: &Statement, span: Duration) -> f64 {
    let (began, mut done) = (Instant::now(), 0_u32);
    while began.elapsed() < span {
        let rows = worker.query(claim, &[&CLAIM]).await.unwrap();
        if rows.is_empty() {
            break;
        }
        done += u32::try_from(rows.len()).unwrap();
    }
    f64::from(done) / began.elapsed().as_secs_f64()
}
