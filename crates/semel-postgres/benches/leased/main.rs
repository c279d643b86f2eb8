//! What the leased form costs on PostgreSQL, each time against the bare work in the same run.
//!
//! `cargo bench -p semel-postgres --bench leased -- [--json] [--seconds N] [--rows N]
//! [--turns N] [--only NAME]…`
//!
//! Rounds: `batches` (one statement for many claims against one for each), `commits` (claim and
//! complete against two durable commits of one row), `replays` (against reads by primary key), `sweep`
//! (the latency of requests while 300,000 records are swept), `size` (claims among `--rows` records
//! against claims among 100,000). The server is private and flushes; its data lie in the folder for
//! temporary files, which must be on the disk in question.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a bench measures time, starts tasks and may fail by panicking"
)]

mod bare;
mod load;
mod records;

use std::time::Duration;

use semel_postgres::{PostgresBuilder, PostgresStore};
use semel_testkit::servers::{Major, Postgres};

use self::load::{CALLERS, Round};

#[derive(Debug)]
struct Options {
    json: bool,
    only: Vec<String>,
    rows: u32,
    span: Duration,
    /// How often each pair is measured, in turn; the middle ratio counts.
    turns: usize,
}

impl Options {
    fn runs(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    fn show(&self, name: &str, unit: &str, ours: f64, bare: f64, ratio: f64) {
        if self.json {
            println!(
                "{{\"bench\":\"leased\",\"round\":\"{name}\",\"unit\":\"{unit}\",\"ours\":{ours:.1},\
                 \"bare\":{bare:.1},\"ratio\":{ratio:.2}}}"
            );
        } else {
            println!("{name:<34} {ours:>10.1} against {bare:>10.1} {unit:<10} {ratio:>6.2}");
        }
    }
}

fn main() {
    let options = options();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(run(&options));
}

async fn run(options: &Options) {
    let server = Postgres::builder(Major::V18)
        .fsync(true)
        .setting("shared_buffers", "512MB")
        .setting("max_wal_size", "8GB")
        .start()
        .await;
    if options.runs("batches") {
        batches(options, &server).await;
    }
    if options.runs("commits") {
        commits(options, &server).await;
    }
    if options.runs("replays") {
        replays(options, &server).await;
    }
    if options.runs("sweep") {
        sweep(options, &server).await;
    }
    if options.runs("size") {
        size(options, &server).await;
    }
}

fn builder(server: &Postgres, schema: &str) -> PostgresBuilder {
    PostgresStore::builder(server.url()).schema(schema)
}

async fn batches(options: &Options, server: &Postgres) {
    let many = builder(server, "batched").open().await.unwrap();
    let single = builder(server, "single").batch_max(1).open().await.unwrap();
    let (many, single) = (load::store(many), load::store(single));
    let mut turns = Vec::new();
    for _ in 0..options.turns {
        let ours = load::claims(&many, options.span, CALLERS).await.per_second;
        let bare = load::claims(&single, options.span, CALLERS).await.per_second;
        turns.push((ours, bare));
    }
    show(options, "claims, many in a statement", "claims/s", turns);
}

async fn commits(options: &Options, server: &Postgres) {
    let store = load::store(builder(server, "commits").open().await.unwrap());
    for (callers, connections) in [(1, 1), (CALLERS, 6), (CALLERS, CALLERS)] {
        let bare = bare::Bare::new(server, connections).await;
        let mut turns = Vec::new();
        for _ in 0..options.turns {
            let ours = load::runs(&store, options.span, callers).await;
            turns.push((ours.per_second, bare.commits(options.span, callers).await.per_second));
        }
        let name = format!("claim+complete, {callers} on {connections}");
        show(options, &name, "runs/s", turns);
    }
}

async fn replays(options: &Options, server: &Postgres) {
    const KEPT: u32 = 1_000;
    let store = load::store(builder(server, "replays").open().await.unwrap());
    load::finish(&store, KEPT).await;
    for (callers, connections) in [(CALLERS, 6), (CALLERS, CALLERS)] {
        let bare = bare::Bare::new(server, connections).await;
        let mut turns = Vec::new();
        for _ in 0..options.turns {
            let ours = load::replays(&store, options.span, callers, KEPT).await;
            let read = bare.reads("replays", options.span, callers, KEPT).await;
            turns.push((ours.per_second, read.per_second));
        }
        let name = format!("replays, {callers} on {connections}");
        show(options, &name, "replays/s", turns);
    }
}

async fn sweep(options: &Options, server: &Postgres) {
    const EXPIRED: u32 = 300_000;
    let store = load::store(builder(server, "swept").open().await.unwrap());
    let mut turns = Vec::new();
    for turn in 0..options.turns {
        records::expired(server, "swept", EXPIRED, turn).await;
        let calm = load::paced(&store, options.span, 500).await;
        let swept = load::paced_beside_sweep(&store, 500, EXPIRED).await;
        turns.push((millis(&swept), millis(&calm)));
    }
    show(options, "p99 while 300,000 are swept", "ms", turns);
}

fn millis(round: &Round) -> f64 {
    round.p99.as_secs_f64() * 1_000.0
}

async fn size(options: &Options, server: &Postgres) {
    let small = load::store(builder(server, "small").open().await.unwrap());
    let large = load::store(builder(server, "large").open().await.unwrap());
    records::kept(server, "small", 100_000).await;
    records::kept(server, "large", options.rows).await;
    let mut turns = Vec::new();
    for _ in 0..options.turns {
        let ours = load::claims(&large, options.span, CALLERS).await;
        let bare = load::claims(&small, options.span, CALLERS).await;
        turns.push((ours.median.as_secs_f64() * 1_000.0, bare.median.as_secs_f64() * 1_000.0));
    }
    let name = format!("claim among {} records", options.rows);
    show(options, &name, "ms", turns);
}

/// Shows the turn with the middle ratio.
fn show(options: &Options, name: &str, unit: &str, mut turns: Vec<(f64, f64)>) {
    turns.sort_by(|one, other| (one.0 / one.1).total_cmp(&(other.0 / other.1)));
    let (ours, bare) = turns[turns.len() / 2];
    options.show(name, unit, ours, bare, ours / bare);
}

fn options() -> Options {
    let mut options = Options {
        json: false,
        only: Vec::new(),
        rows: 1_000_000,
        span: Duration::from_secs(3),
        turns: 3,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" => options.json = true,
            "--only" => options.only.push(words.next().unwrap()),
            "--rows" => options.rows = words.next().unwrap().parse().unwrap(),
            "--seconds" => {
                options.span = Duration::from_secs(words.next().unwrap().parse().unwrap())
            }
            "--turns" => options.turns = words.next().unwrap().parse().unwrap(),
            _ => {}
        }
    }
    options
}
