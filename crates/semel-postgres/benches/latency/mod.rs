//! How long an event takes from its commit until a destination has confirmed it, through a whole relay.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use semel::outbox::{
    Destination, Message, Publisher, PublisherCapabilities, Sent, Start,
    relay::{Relay, RelayDestination},
};
use semel_postgres::PostgresStore;
use semel_testkit::servers::Postgres;

use super::connect;

/// How many writers there are while it is busy, and how long each pauses between two transactions.
const WRITERS: usize = 4;
const PAUSE: Duration = Duration::from_millis(5);
/// The pause between two transactions while it is idle: long enough that the relay asks as rarely as it
/// ever does, and no multiple of that.
const IDLE: Duration = Duration::from_millis(437);

const PUBLISH: &str = "
    WITH paid AS (INSERT INTO payment (cents) VALUES (1000))
    SELECT semel.publish('order', $1, 'Placed', $2)::text";

/// When each event was committed, and when it was confirmed.
#[derive(Debug, Default)]
struct Times {
    committed: Mutex<HashMap<String, Instant>>,
    confirmed: Mutex<HashMap<String, Instant>>,
}

/// Confirms everything at once.
#[derive(Debug)]
struct Null(Arc<Times>);

#[async_trait]
impl Publisher for Null {
    fn capabilities(&self) -> PublisherCapabilities {
        let mut can = PublisherCapabilities::new("null");
        (can.pipelined, can.batch_max, can.batches_max) = (true, 500, 4);
        can.publish_wait = Duration::from_secs(5);
        can
    }

    async fn publish(&self, batch: Vec<Message>) -> Vec<Sent> {
        let now = Instant::now();
        let ids = batch.iter().map(|message| (message.event.id.to_string(), now));
        self.0.confirmed.lock().unwrap().extend(ids);
        vec![Sent::Confirmed; batch.len()]
    }
}

/// Prints the median and the 99th percentile: busy with hints, busy by polling alone, idle by polling
/// alone.
pub(super) async fn measure(server: &Postgres, store: &Arc<PostgresStore>, span: Duration) {
    for (way, idle, hinted) in [
        ("busy, hinted", false, true),
        ("busy, polled", false, false),
        ("idle, polled", true, false),
    ] {
        let span = if idle { span.max(Duration::from_secs(20)) } else { span };
        let times = Arc::new(Times::default());
        let name = Destination::new(way.replace(", ", "-")).unwrap();
        let destination = RelayDestination::new(name, Arc::new(Null(times.clone())));
        let relay = Relay::builder(store.clone())
            .destination(destination.start(Start::Now))
            .start()
            .unwrap();
        while !relay.destinations()[0].leading {
            // Nothing tells of it; the bench is ended by hand if nobody ever leads.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let until = Instant::now() + span;
        let writers = (0..if idle { 1 } else { WRITERS }).map(|n| {
            let hint = hinted.then(|| relay.clone());
            write(server.url(), n, if idle { IDLE } else { PAUSE }, until, hint, times.clone())
        });
        let writers: Vec<_> = writers.map(tokio::spawn).collect();
        for writer in writers {
            writer.await.unwrap();
        }
        assert!(relay.close(Duration::from_secs(10)).await);
        print(way, &times);
    }
}

/// Pays and publishes in one transaction after the other.
async fn write(
    url: String,
    n: usize,
    pause: Duration,
    until: Instant,
    hint: Option<Relay>,
    times: Arc<Times>,
) {
    let client = connect(&url).await;
    let publish = client.prepare(PUBLISH).await.unwrap();
    let payload = vec![7_u8; super::PAYLOAD];
    let mut nth = 0_u64;
    while Instant::now() < until {
        let lane = format!("{n}-{}", nth % 50);
        let row = client.query_one(&publish, &[&lane, &payload]).await.unwrap();
        times.committed.lock().unwrap().insert(row.get(0), Instant::now());
        hint.iter().for_each(Relay::hint);
        nth += 1;
        // The pace of the load, which nothing waits for.
        tokio::time::sleep(pause).await;
    }
}

fn print(way: &str, times: &Times) {
    let confirmed = times.confirmed.lock().unwrap();
    let committed = times.committed.lock().unwrap();
    let took =
        |(id, at): (&String, &Instant)| Some(confirmed.get(id)?.saturating_duration_since(*at));
    let mut took: Vec<Duration> = committed.iter().filter_map(took).collect();
    took.sort_unstable();
    let at = |percent: usize| took[(took.len() - 1) * percent / 100].as_secs_f64() * 1_000.0;
    println!(
        "commit to confirm, {way:<14} p50 {:>7.2} ms   p99 {:>7.2} ms   {} events",
        at(50),
        at(99),
        took.len()
    );
}
