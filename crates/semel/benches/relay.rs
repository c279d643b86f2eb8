//! The relay by itself: events of 200 bytes from the memory outbox through lanes to a publisher that confirms at once.
//!
//! Prints events per second over rounds of a whole backlog, first by one message of each lane in a batch, then pipelined;
//! beside it, how fast the outbox is only read. `cargo bench -p semel --bench relay -- --json` prints one JSON object.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use semel::outbox::memory::MemoryOutbox;
use semel::outbox::relay::{Relay, RelayDestination};
use semel::outbox::{
    Destination, Event, EventId, Lane, Lead, Led, Message, OutboxStore, Publisher,
    PublisherCapabilities, Sent, Start,
};
use tokio::sync::Notify;

const EVENTS: u64 = 200_000;
const LANES: u64 = 200;
const ROUNDS: usize = 5;
/// How many events a transaction has.
const IN_ONE: u64 = 50;

/// Confirms everything at once, and tells when that was all.
#[derive(Debug)]
struct Null {
    pipelined: bool,
    left: AtomicU64,
    all: Notify,
}

#[async_trait]
impl Publisher for Null {
    fn capabilities(&self) -> PublisherCapabilities {
        let mut can = PublisherCapabilities::new("null");
        can.pipelined = self.pipelined;
        can.batch_max = 500;
        can.batches_max = 4;
        can.publish_wait = Duration::from_secs(5);
        can
    }

    async fn publish(&self, batch: Vec<Message>) -> Vec<Sent> {
        let count = u64::try_from(batch.len()).unwrap_or(0);
        if self.left.fetch_sub(count, Ordering::Relaxed) == count {
            self.all.notify_one();
        }
        vec![Sent::Confirmed; batch.len()]
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let json = std::env::args().any(|argument| argument == "--json");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    let mut rates = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        rates[0].push(runtime.block_on(read())?);
        rates[1].push(runtime.block_on(relay(false))?);
        rates[2].push(runtime.block_on(relay(true))?);
    }
    let [read, laned, pipelined] = rates.map(median);
    if json {
        println!("{{\"read\":{read:.0},\"laned\":{laned:.0},\"pipelined\":{pipelined:.0}}}");
    } else {
        println!(
            "events per second, {LANES} aggregates, 200 bytes, two threads, median of {ROUNDS} rounds"
        );
        println!("  read only           {read:>12.0}");
        println!("  one of a lane       {laned:>12.0}");
        println!("  pipelined           {pipelined:>12.0}");
    }
    Ok(())
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// An outbox in which everything waits.
fn filled() -> Result<MemoryOutbox, Box<dyn Error>> {
    let outbox = MemoryOutbox::new();
    let payload = Bytes::from(vec![b'x'; 200]);
    let mut nth = 0;
    while nth < EVENTS {
        let mut transaction = outbox.begin();
        for _ in 0..IN_ONE {
            let mut id = [0; 16];
            id[8..].copy_from_slice(&nth.to_be_bytes());
            let lane = Lane::new("order", format!("order-{}", nth % LANES))?;
            transaction.append(Event::new(
                EventId::from_bytes(id),
                lane,
                "Placed",
                Some(payload.clone()),
            )?)?;
            nth += 1;
        }
        transaction.commit()?;
    }
    Ok(outbox)
}

/// Reads the whole outbox in windows, and nothing else.
async fn read() -> Result<f64, Box<dyn Error>> {
    let outbox = filled()?;
    let destination = Destination::new("null")?;
    let ask = Lead {
        destination,
        owner: "bench".into(),
        lease: Duration::from_secs(60),
        start: Start::Earliest,
    };
    let Led::Leader(leader) = outbox.lead(ask).await? else {
        return Err("nobody else leads".into());
    };
    let (began, mut after) = (Instant::now(), None);
    loop {
        let window = outbox.read(leader.clone(), after, 2_000, 1 << 30).await?;
        after = window.pass.map(|pass| (pass, window.upto));
        if window.ends {
            return Ok(rate(began));
        }
    }
}

/// Relays the whole outbox.
async fn relay(pipelined: bool) -> Result<f64, Box<dyn Error>> {
    let outbox = Arc::new(filled()?);
    let null = Arc::new(Null { pipelined, left: AtomicU64::new(EVENTS), all: Notify::new() });
    let destination = RelayDestination::new(Destination::new("null")?, null.clone());
    let began = Instant::now();
    let relay = Relay::builder(outbox).destination(destination).start()?;
    null.all.notified().await;
    let rate = rate(began);
    relay.close(Duration::from_secs(10)).await;
    Ok(rate)
}

fn rate(began: Instant) -> f64 {
    let events = u32::try_from(EVENTS).unwrap_or(u32::MAX);
    f64::from(events) / began.elapsed().as_secs_f64()
}
