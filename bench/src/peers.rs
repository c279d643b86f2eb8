//! The layer on Redis beside published packages for idempotency keys: the same payments service on axum, on NestJS and
//! on waitress, each with and without, all on one Redis.
//!
//! The services stand in `bench/peers`, and `cargo xtask bench peers` installs what they need.

mod away;
mod service;
mod table;

use std::time::Duration;

use anyhow::Result;
use semel_testkit::servers::{Medium, Redis, RedisKind};

use self::{
    service::{Kind, Service, Step},
    table::Table,
};
use crate::ratio::Report;

/// How many callers there are, each with one connection and one request at a time.
const CONNECTIONS: [u64; 3] = [1, 8, 64];
/// How long each load lasts.
const SPAN: Duration = Duration::from_millis(1_500);

/// Measures all services in turns, and then what they do without their store.
pub(crate) async fn measure(report: &mut Report, rounds: u32) -> Result<()> {
    // One that flushes every write and evicts nothing, on a disk; it rewrites its file at no moment of the load.
    let redis = Redis::builder(RedisKind::Redis7).medium(Medium::Disk);
    let mut redis = redis.setting("auto-aof-rewrite-percentage", "0").start().await;
    let services = Service::start_all(&redis.url()).await?;
    let mut table = Table::default();
    // The first round warms up what compiles while it runs, and is not counted.
    for round in 0..=rounds {
        for connections in CONNECTIONS {
            for (service, kind) in turns(&services, round) {
                let step = Step { round, connections, kind, span: SPAN };
                let served = service.load(&step).await?;
                if round > 0 {
                    table.add(service, &step, &served);
                }
            }
        }
        eprintln!("peers: round {round} of {rounds}");
    }
    table.report(report);
    away::measure(report, &services, &mut redis).await
}

/// Every service with every kind of load; who begins changes from round to round.
fn turns(services: &[Service], round: u32) -> Vec<(&Service, Kind)> {
    let first = usize::try_from(round).unwrap_or_default() % services.len().max(1);
    let mut kinds = Kind::ALL;
    kinds.rotate_left(first);
    let in_turn = services.iter().cycle().skip(first).take(services.len());
    in_turn.flat_map(|service| kinds.map(|kind| (service, kind))).collect()
}
