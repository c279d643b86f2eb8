//! Ratios against the bare operation, taken in the same run.
//!
//! Every figure is a ratio of two measurements that alternate in short rounds, so that a machine
//! whose speed drifts changes both. The medians of the rounds are shown. Load goes to loopback only,
//! and is bounded in count.

#![expect(clippy::disallowed_methods, reason = "a bench reads clocks and starts tasks")]
#![expect(
    clippy::unwrap_used,
    reason = "what is shared with the store's own bench may fail by panicking"
)]

#[path = "../../crates/semel-sqlite/benches/callers/mod.rs"]
mod callers;
mod gateway;
mod kafka;
mod layer;
mod load;
mod memory;
mod moving;
mod peers;
mod ratio;
mod servers;
mod sqlite;

use anyhow::Result;
use clap::{Parser, ValueEnum};

use crate::ratio::Report;

/// Measures Semel against the bare operation.
#[derive(Debug, Parser)]
struct Arguments {
    /// What to measure; everything but `peers` if nothing is named.
    #[arg(value_enum)]
    names: Vec<Name>,
    /// Rounds of each pair.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    rounds: u32,
    /// Requests of each round.
    #[arg(long, default_value_t = 40_000, value_parser = clap::value_parser!(u32).range(64..=1_000_000))]
    requests: u32,
    /// Prints one JSON document instead of a table.
    #[arg(long)]
    json: bool,
    /// How many records are moved.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1_000..=2_000_000))]
    records: u32,
    /// How long the memory bench keeps the load up, in seconds.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u32).range(10..=600))]
    seconds: u32,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Name {
    /// The gateway without and with a key, against nginx.
    Gateway,
    /// The publisher to Kafka, against a bare loop of the same client.
    Kafka,
    /// The layer with the memory store, against the bare handler.
    Layer,
    /// Resident memory of the gateway under load.
    Memory,
    /// Records that are moved between stores by `semel records export` and `import`, a second.
    Moving,
    /// The layer on Redis beside published packages for idempotency keys, each with and without.
    Peers,
    /// Commits that callers of the SQLite store share, against one for each step.
    Sqlite,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut report = Report::new(arguments.json);
        let wanted = |name| match arguments.names.is_empty() {
            // Its packages come from npm and PyPI.
            true => name != Name::Peers,
            false => arguments.names.contains(&name),
        };
        if wanted(Name::Layer) {
            layer::measure(&mut report, arguments.rounds, arguments.requests).await?;
        }
        if wanted(Name::Sqlite) {
            sqlite::measure(&mut report, arguments.rounds).await?;
        }
        if wanted(Name::Kafka) {
            kafka::measure(&mut report, arguments.rounds, arguments.requests).await?;
        }
        if wanted(Name::Gateway) {
            gateway::measure(&mut report, arguments.rounds, arguments.requests).await?;
        }
        if wanted(Name::Moving) {
            moving::measure(&mut report, arguments.records).await?;
        }
        if wanted(Name::Memory) {
            memory::measure(&mut report, arguments.seconds).await?;
        }
        if wanted(Name::Peers) {
            peers::measure(&mut report, arguments.rounds).await?;
        }
        report.finish()
    })
}
