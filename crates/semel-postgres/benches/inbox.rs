//! What an inbox costs: transactions that insert one row for a message that came, against the same that
//! receive the message besides; and batches of 500 such effects in one transaction, against the same that
//! receive the 500 messages. By ids and by positions, and beside a table of ids written by hand. In turns on
//! one server whose commits reach the disk, with prepared statements.
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
use semel::inbox::{
    By, Consumer, Delivery, InboxPolicy, LogId, MessageId, Position, Receipt, SourceName,
};
use semel_postgres::{
    PostgresStore,
    inbox::Inbox,
    transact::{Lend, Lent, Prepared},
};
use semel_testkit::servers::{Major, Postgres};
use tokio_postgres::{Client, NoTls, Statement};

const BATCH: u64 = 500;

const TABLES: &str = "
    CREATE TABLE invoice (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text NOT NULL,
        cents bigint NOT NULL);
    CREATE TABLE seen (consumer text, message_id text, at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (consumer, message_id));
    CREATE INDEX seen_at ON seen (at);";

/// How copies are told.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Not,
    ByHand,
    ByIds,
    ByPositions,
}

/// The ways, each for one message and for a batch; the first is what the others are compared with.
const WAYS: [(How, &str); 4] = [
    (How::Not, "without"),
    (How::ByIds, "by ids"),
    (How::ByPositions, "by positions"),
    (How::ByHand, "a table of ids by hand"),
];

/// A connection with its statements, and a log that nobody else has.
struct Desk {
    client: Client,
    prepared: Prepared,
    effect: Statement,
    seen: Statement,
    seen_all: Statement,
    log: LogId,
    offset: AtomicU64,
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

struct Bench {
    desks: Vec<Desk>,
    watch: Client,
    by_ids: Inbox,
    by_positions: Inbox,
}

/// What a round came to.
#[derive(Clone, Copy)]
struct Round {
    per_s: f64,
    wal_bytes: f64,
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
    let server = Postgres::builder(Major::V18).fsync(true).setting("shared_buffers", "256MB");
    let server = server.setting("max_wal_size", "4GB").start().await;
    let bench = Bench::open(&server, clients).await;
    for effects in [1, BATCH] {
        for (how, _) in WAYS {
            bench.round(how, effects, span / 4).await;
        }
        let mut rounds = WAYS.map(|_| Vec::new());
        for _ in 0..turns {
            for ((how, _), rounds) in WAYS.into_iter().zip(&mut rounds) {
                rounds.push(bench.round(how, effects, span).await);
            }
        }
        for (at, (how, name)) in WAYS.into_iter().enumerate() {
            let of_bare = |(round, bare): (&Round, &Round)| round.per_s / bare.per_s;
            let ratio = median(rounds[at].iter().zip(&rounds[0]).map(of_bare).collect());
            let per_s = median(rounds[at].iter().map(|round| round.per_s).collect());
            let wal = median(rounds[at].iter().map(|round| round.wal_bytes).collect());
            if json {
                println!(
                    "{{\"bench\":\"inbox\",\"clients\":{clients},\"effects\":{effects},\
                     \"how\":\"{how:?}\",\"per_s\":{per_s:.0},\"ratio\":{ratio:.3},\
                     \"wal_bytes\":{wal:.0}}}"
                );
            } else {
                println!(
                    "{effects:>3} effects in a transaction, {name:<22} {per_s:>8.0} /s   {ratio:.3}   \
                     {wal:>4.0} bytes of log each"
                );
            }
        }
    }
}

impl Bench {
    async fn open(server: &Postgres, clients: u64) -> Self {
        let store = PostgresStore::builder(server.url()).open().await.unwrap();
        let inbox = |name: &str, by| {
            let mut policy = InboxPolicy::new(Consumer::new(name).unwrap());
            policy.by = by;
            store.inbox(Arc::new(policy)).unwrap()
        };
        let watch = connect(server).await;
        watch.batch_execute(TABLES).await.unwrap();
        let mut desks = Vec::new();
        for client in 0..clients {
            desks.push(Desk::open(connect(server).await, &store, client).await);
        }
        let (by_ids, by_positions) =
            (inbox("by-ids", By::Ids), inbox("by-positions", By::Positions));
        Self { desks, watch, by_ids, by_positions }
    }

    /// Handles messages on all connections, one or several in a transaction.
    async fn round(&self, how: How, effects: u64, span: Duration) -> Round {
        let log = self.log().await;
        let began = Instant::now();
        let work = self.desks.iter().map(async |desk| {
            let mut handled = 0_u64;
            while began.elapsed() < span {
                let deliveries = desk.come(effects);
                match how {
                    How::Not | How::ByHand => desk.plainly(how, &deliveries).await,
                    How::ByIds => desk.receive(&self.by_ids, &deliveries).await,
                    How::ByPositions => desk.receive(&self.by_positions, &deliveries).await,
                }
                handled += effects;
            }
            handled
        });
        let handled: u64 = join_all(work).await.into_iter().sum();
        let (handled, took) = (f64::from(u32::try_from(handled).unwrap()), began.elapsed());
        let wal_bytes = (self.log().await - log) / handled;
        Round { per_s: handled / took.as_secs_f64(), wal_bytes }
    }

    /// How much the server has written to its log, in bytes.
    async fn log(&self) -> f64 {
        let read = "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8";
        self.watch.query_one(read, &[]).await.unwrap().get(0)
    }
}

async fn connect(server: &Postgres) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

impl Desk {
    async fn open(client: Client, store: &PostgresStore, number: u64) -> Self {
        let prepared = store.transact().prepare(&client).await.unwrap();
        let prepare = async |text: &str| client.prepare(text).await.unwrap();
        Self {
            effect: prepare("INSERT INTO invoice (note, cents) VALUES ($1, $2)").await,
            seen: prepare(
                "INSERT INTO seen (consumer, message_id) VALUES ('by-hand', $1)
                 ON CONFLICT DO NOTHING",
            )
            .await,
            seen_all: prepare(
                "INSERT INTO seen (consumer, message_id)
                 SELECT 'by-hand', m.id FROM unnest($1::text[]) AS m (id) ORDER BY m.id
                 ON CONFLICT DO NOTHING",
            )
            .await,
            log: LogId::new(format!("orders/{number}")).unwrap(),
            offset: AtomicU64::new(number << 40),
            prepared,
            client,
        }
    }

    /// The next messages of the log.
    fn come(&self, count: u64) -> Vec<Delivery> {
        let first = self.offset.fetch_add(count, Ordering::Relaxed);
        let source = SourceName::new("kafka:orders").unwrap();
        let come = |number: u64| {
            // Spread as the ids of real messages are.
            let id = format!("{:016x}-{number}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let message = MessageId::new(source.clone(), id).unwrap();
            let payload = Some(Bytes::from_static(&[b'x'; 200]));
            let mut delivery = Delivery::new(message, Receipt(number), payload);
            delivery.position = Some(Position { log: self.log.clone(), offset: number });
            delivery
        };
        (first..first + count).map(come).collect()
    }

    /// The effects of some messages, sent at once: the same for all ways.
    async fn act(
        &self,
        client: &Client,
        deliveries: impl Iterator<Item = &Delivery>,
    ) -> Result<(), tokio_postgres::Error> {
        let insert = |_| client.execute(&self.effect, &[&"an invoice of some length", &10_i64]);
        let inserted = join_all(deliveries.map(insert)).await;
        inserted.into_iter().try_for_each(|inserted| inserted.map(drop))
    }

    /// Has the effects without this crate.
    async fn plainly(&self, how: How, deliveries: &[Delivery]) {
        self.client.batch_execute("BEGIN").await.unwrap();
        let ids: Vec<_> = deliveries.iter().map(|delivery| delivery.message.id()).collect();
        let seen = match (how, &*ids) {
            (How::ByHand, [id]) => self.client.execute(&self.seen, &[id]).await.unwrap(),
            (How::ByHand, _) => self.client.execute(&self.seen_all, &[&ids]).await.unwrap(),
            _ => u64::try_from(ids.len()).unwrap(),
        };
        assert_eq!(seen, u64::try_from(ids.len()).unwrap());
        self.act(&self.client, deliveries.iter()).await.unwrap();
        self.client.batch_execute("COMMIT").await.unwrap();
    }

    async fn receive(&self, inbox: &Inbox, deliveries: &[Delivery]) {
        if let [delivery] = deliveries {
            let ran = inbox.run(self, delivery, async |handling| {
                self.act(&handling, std::iter::once(delivery)).await?;
                Ok::<_, tokio_postgres::Error>(handling.finish(None, ()))
            });
            drop(ran.await.unwrap());
            return;
        }
        let pool = One(self);
        let handled = inbox.run_all_on(&pool, deliveries, async |batch| {
            self.act(&batch, batch.new_ones().map(|at| &deliveries[at])).await?;
            Ok::<_, tokio_postgres::Error>(batch.finish())
        });
        assert_eq!(handled.await.unwrap().len(), deliveries.len());
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
