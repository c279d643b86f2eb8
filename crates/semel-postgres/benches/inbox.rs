//! What an inbox costs: transactions that insert one row, against the same that receive a message; and
//! batches of 500 such effects in one transaction, against the same that receive 500 messages. In turns
//! on one server, with prepared statements.
//!
//! `cargo bench -p semel-postgres --bench inbox -- [--json] [--seconds N] [--turns N] [--clients N]`

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a bench measures time and may fail by panicking"
)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::future::join_all;
use semel::inbox::{Consumer, Delivery, InboxPolicy, MessageId, Receipt, SourceName};
use semel_postgres::{
    PostgresStore,
    inbox::Inbox,
    transact::{Lend, Lent, Prepared},
};
use semel_testkit::servers::{Major, Postgres};
use tokio_postgres::{Client, NoTls, Statement};

const BATCH: u64 = 500;

/// What one round does.
#[derive(Clone, Copy, Debug)]
enum Flow {
    Bare,
    Batch,
    BatchReceived,
    Received,
}

const FLOWS: [Flow; 4] = [Flow::Bare, Flow::Received, Flow::Batch, Flow::BatchReceived];

/// A connection with its statements.
struct Desk {
    client: Client,
    prepared: Prepared,
    effect: Statement,
}

impl Lent for &Desk {
    fn client(&self) -> &Client {
        &self.client
    }

    fn prepared(&self) -> Option<&Prepared> {
        Some(&self.prepared)
    }
}

/// Lends the one connection of a client.
struct One<'a>(&'a Desk);

impl<'a> Lend for One<'a> {
    type Lent = &'a Desk;
    type Error = std::convert::Infallible;

    async fn lend(&self) -> Result<&'a Desk, std::convert::Infallible> {
        Ok(self.0)
    }
}

fn main() {
    let words: Vec<_> = std::env::args().collect();
    let number = |name: &str, default: u64| {
        let at = words.iter().position(|word| word == name);
        at.map_or(default, |at| words[at + 1].parse().unwrap())
    };
    let (seconds, turns, clients) =
        (number("--seconds", 2), number("--turns", 5), number("--clients", 8));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let json = words.iter().any(|word| word == "--json");
    runtime.block_on(measure(Duration::from_secs(seconds), turns, clients, json));
}

async fn measure(span: Duration, turns: u64, clients: u64, json: bool) {
    let server = Postgres::start(Major::V18).await;
    let store = PostgresStore::builder(server.url()).open().await.unwrap();
    let policy = InboxPolicy::new(Consumer::new("bench").unwrap());
    let inbox = store.inbox(Arc::new(policy)).unwrap();
    let (first, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let table = "CREATE TABLE invoice (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        note text NOT NULL, cents bigint NOT NULL)";
    first.batch_execute(table).await.unwrap();
    let mut desks = Vec::new();
    for _ in 0..clients {
        let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        let prepared = store.transact().prepare(&client).await.unwrap();
        let insert = "INSERT INTO invoice (note, cents) VALUES ($1, $2)";
        let effect = client.prepare(insert).await.unwrap();
        desks.push(Desk { client, prepared, effect });
    }
    let number = AtomicU64::new(0);
    for flow in FLOWS {
        round(&desks, &inbox, flow, &number, Duration::from_millis(500)).await;
    }
    let mut rates = [const { Vec::new() }; 4];
    for _ in 0..turns {
        for (flow, rates) in FLOWS.into_iter().zip(&mut rates) {
            rates.push(round(&desks, &inbox, flow, &number, span).await);
        }
    }
    let [bare, received, batch, batch_received] = rates.map(median);
    let (single, batched) = (received / bare, batch_received / batch);
    if json {
        println!(
            "{{\"bench\":\"inbox\",\"clients\":{clients},\"bare_per_s\":{bare:.0},\
             \"received_per_s\":{received:.0},\"ratio\":{single:.3},\"batch_per_s\":{batch:.0},\
             \"batch_received_per_s\":{batch_received:.0},\"batch_ratio\":{batched:.3}}}"
        );
        return;
    }
    println!("one row in a transaction        {bare:>8.0} /s");
    println!("the same, once per message      {received:>8.0} /s   {single:.3} of it");
    println!("500 rows in a transaction       {batch:>8.0} /s");
    println!("the same, once per message      {batch_received:>8.0} /s   {batched:.3} of it");
}

/// Runs one flow on all connections; returns effects per second.
async fn round(
    desks: &[Desk],
    inbox: &Inbox,
    flow: Flow,
    number: &AtomicU64,
    span: Duration,
) -> f64 {
    let began = Instant::now();
    let work = desks.iter().map(async |desk| {
        let mut effects = 0_u64;
        while began.elapsed() < span {
            effects += match flow {
                Flow::Bare => bare(desk, 1).await,
                Flow::Batch => bare(desk, BATCH).await,
                Flow::BatchReceived => batch(desk, inbox, number).await,
                Flow::Received => received(desk, inbox, number).await,
            };
        }
        effects
    });
    let effects: u64 = join_all(work).await.into_iter().sum();
    let effects = u32::try_from(effects).unwrap();
    f64::from(effects) / began.elapsed().as_secs_f64()
}

fn delivery(number: u64) -> Delivery {
    let source = SourceName::new("kafka:orders").unwrap();
    // Spread as the ids of real messages are.
    let id = format!("{:016x}-{number}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let message = MessageId::new(source, id).unwrap();
    Delivery::new(message, Receipt(number), Some(Bytes::from_static(&[b'x'; 200])))
}

/// The effects of some messages, sent at once; all else is the same for both sides.
async fn act(
    client: &Client,
    effect: &Statement,
    effects: u64,
) -> Result<(), tokio_postgres::Error> {
    let inserts =
        (0..effects).map(|_| client.execute(effect, &[&"an invoice of some length", &10_i64]));
    join_all(inserts).await.into_iter().try_for_each(|inserted| inserted.map(drop))
}

async fn bare(desk: &Desk, effects: u64) -> u64 {
    desk.client.batch_execute("BEGIN").await.unwrap();
    act(&desk.client, &desk.effect, effects).await.unwrap();
    desk.client.batch_execute("COMMIT").await.unwrap();
    effects
}

async fn received(desk: &Desk, inbox: &Inbox, number: &AtomicU64) -> u64 {
    let delivery = delivery(number.fetch_add(1, Ordering::Relaxed));
    let ran = inbox
        .run(desk, &delivery, async |handling| {
            act(&handling, &desk.effect, 1).await?;
            Ok::<_, tokio_postgres::Error>(handling.finish(None, ()))
        })
        .await;
    drop(ran.unwrap());
    1
}

async fn batch(desk: &Desk, inbox: &Inbox, number: &AtomicU64) -> u64 {
    let first = number.fetch_add(BATCH, Ordering::Relaxed);
    let deliveries: Vec<_> = (first..first + BATCH).map(delivery).collect();
    let pool = One(desk);
    let handled = inbox.run_all_on(&pool, &deliveries, async |batch| {
        let effects = u64::try_from(batch.new_ones().count()).unwrap();
        act(&batch, &desk.effect, effects).await?;
        Ok::<_, tokio_postgres::Error>(batch.finish())
    });
    u64::try_from(handled.await.unwrap().len()).unwrap()
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}
