//! Resident memory of the gateway under load.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::{
    load::{self, Make},
    ratio::Report,
    servers::{self, Server},
};

/// Measures growth under full load, and the peak with large bodies.
pub(crate) async fn measure(report: &mut Report, seconds: u32) -> Result<()> {
    growth(report, seconds).await?;
    large_bodies(report).await
}

async fn growth(report: &mut Report, seconds: u32) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let upstream = servers::serve(servers::payments()).await?;
    let gateway = servers::gateway(dir.path(), upstream, "").await?;
    let sent = Arc::new(AtomicU64::new(0));
    let half = Duration::from_secs(u64::from(seconds) / 2);
    under_load(&gateway, half, &sent).await?;
    let first = resident_kib(gateway.pid())?;
    under_load(&gateway, half, &sent).await?;
    let second = resident_kib(gateway.pid())?;
    let growth = (second / first - 1.0) * 100.0;
    eprintln!(
        "memory: {first} KiB, then {second} KiB after {} intents",
        sent.load(Ordering::Relaxed)
    );
    report.figure("resident memory, second half over first", growth, "% more", 5.0, growth <= 5.0);
    Ok(())
}

async fn under_load(gateway: &Server, span: Duration, sent: &Arc<AtomicU64>) -> Result<()> {
    let until = Instant::now() + span;
    while Instant::now() < until {
        let base = sent.fetch_add(5_000, Ordering::Relaxed);
        let make: Make = Arc::new(move |n| {
            let n = base + n;
            load::post("/payments", Some(&format!("mem-{n}")), &load::body(n, 200))
        });
        load::run(gateway.address, 5_000, make).await?;
    }
    Ok(())
}

/// 1 MiB bodies from 64 callers stay below the `in_flight` setting and a constant of 96 MiB.
async fn large_bodies(report: &mut Report) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let upstream = servers::serve(servers::payments()).await?;
    let gateway = servers::gateway(dir.path(), upstream, "in_flight = \"64 MiB\"").await?;
    let make: Make = Arc::new(|n| {
        load::post("/payments", Some(&format!("big-{n}")), &load::body(n, 1024 * 1024))
    });
    load::run(gateway.address, 640, make).await?;
    let peak = status_kib(gateway.pid(), "VmHWM:")? / 1024.0;
    report.figure("peak memory, 1 MiB bodies x 64 callers", peak, "MiB", 160.0, peak <= 160.0);
    Ok(())
}

fn resident_kib(pid: u32) -> Result<f64> {
    status_kib(pid, "VmRSS:")
}

fn status_kib(pid: u32, field: &str) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let value = line.and_then(|line| line.split_whitespace().next()).context("a memory figure")?;
    Ok(value.parse()?)
}
