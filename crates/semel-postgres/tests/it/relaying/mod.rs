//! Events on their whole way: from transactions of an application through the table and a relay, which
//! may be another process, to a receiver across a real connection.

mod baselines;
mod child;
mod destinations;
mod frozen;
mod order;
mod outage;
mod writers;

use std::{collections::HashSet, sync::Arc, time::Duration};

use semel::outbox::{EventId, Lane};
use semel_postgres::PostgresStore;
use semel_testkit::{
    Deliveries,
    deliveries::Number,
    receiver::{Arrived, Receiver},
    servers::{Major, Postgres},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long everything that was committed may take to arrive, in the end.
const PATIENCE: Duration = Duration::from_secs(120);

/// An application's database, a receiver, and what is known of both.
struct Shop {
    server: Postgres,
    receiver: Receiver,
    deliveries: Arc<Deliveries>,
    /// Ends the writers.
    closed: CancellationToken,
}

impl Shop {
    /// Starts a server with so many aggregates, and a receiver.
    async fn open(aggregates: usize) -> Self {
        let server = Postgres::start(Major::V17).await;
        PostgresStore::migrate(&PostgresStore::builder(server.url())).await.unwrap();
        let tables = format!(
            "CREATE TABLE aggregate (id int PRIMARY KEY, number bigint NOT NULL);
            CREATE TABLE other (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, writer int);
            INSERT INTO aggregate SELECT n, 0 FROM generate_series(0, {aggregates} - 1) AS n;"
        );
        server.run_sql(&tables).await;
        let (receiver, deliveries) = (Receiver::listen().await, Arc::default());
        Self { server, receiver, deliveries, closed: CancellationToken::new() }
    }

    /// Opens the store of a relay.
    async fn store(&self) -> Arc<PostgresStore> {
        Arc::new(PostgresStore::builder(self.server.url()).open().await.unwrap())
    }

    /// Waits until so many more copies arrived than have by now.
    async fn until_more_arrive(&self, more: usize) {
        let wanted = self.receiver.count() + more;
        let arrive = self.receiver.until(|arrived| arrived.len() >= wanted);
        tokio::time::timeout(PATIENCE, arrive).await.expect("events arrive");
    }

    /// Waits until as many different events arrived as were committed, if they ever do.
    async fn until_all_arrived(&self) {
        let wanted = self.deliveries.committed_count();
        let (mut seen, mut at) = (HashSet::new(), 0);
        let all = self.receiver.until(|arrived| {
            seen.extend(arrived[at..].iter().map(|arrived| arrived.id));
            at = arrived.len();
            seen.len() >= wanted
        });
        drop(tokio::time::timeout(PATIENCE, all).await);
    }

    /// Notes all that arrived, for the judge.
    fn note_arrivals(&self) {
        for arrived in self.receiver.arrived() {
            let (id, lane, number) = copy(&arrived);
            self.deliveries.delivered(id, &lane, number);
        }
    }

    /// Waits until the word of the database on a number is 0.
    async fn until_none(&self, sql: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let number = self.number(sql).await;
            if number == 0 {
                return;
            }
            assert!(Instant::now() < deadline, "{sql}: {number}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The word of the database on one number.
    async fn number(&self, sql: &str) -> i64 {
        self.server.run_sql(sql).await.trim().parse().unwrap()
    }
}

/// What a copy says that it is.
fn copy(arrived: &Arrived) -> (EventId, Lane, Number) {
    let told = arrived.payload.as_deref().unwrap_or_default();
    let number = std::str::from_utf8(told).ok().and_then(|told| told.parse().ok());
    (arrived.id, arrived.lane.clone(), number.expect("an event tells its number"))
}

/// How long a run goes: as `SEMEL_TEST_SECONDS` says, or this many seconds.
fn run_for(seconds: u64) -> Duration {
    Duration::from_secs(setting("SEMEL_TEST_SECONDS", seconds))
}

/// A number that the environment may say.
fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
