//! What each service does while its store is away, and with the same request once it is back.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use semel_testkit::servers::Redis;
use serde_json::json;

use super::service::{Service, effects};
use crate::{load::Connection, ratio::Report};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a service may take to find its store again.
const BACK_WITHIN: Duration = Duration::from_secs(60);

/// Kills Redis, asks each service for a new payment, starts Redis again, and asks for the same one.
pub(super) async fn measure(
    report: &mut Report,
    services: &[Service],
    redis: &mut Redis,
) -> Result<()> {
    redis.kill();
    let mut told = Vec::new();
    for service in services {
        let to = service.protected();
        let before = effects(to).await?;
        let began = Instant::now();
        let answer = asked(service).await;
        told.push((before, answer, began.elapsed(), effects(to).await? - before));
    }
    redis.restart().await;
    let head = "| service | store away | effects | then the same, store back | effects in all |\n\
                |---|---|---|---|---|";
    let mut lines = vec![head.to_owned()];
    let mut rows = Vec::new();
    for (service, (before, answer, took, acted)) in services.iter().zip(told) {
        let (name, to) = (service.name(), service.protected());
        let back = settled(service).await?;
        let all = effects(to).await? - before;
        let first = answer.map_or_else(|| "none".to_owned(), |status| status.to_string());
        let seconds = took.as_secs_f64();
        lines.push(format!("| {name} | {first} after {seconds:.1} s | {acted} | {back} | {all} |"));
        rows.push(json!({
            "service": name, "away": answer, "away_s": seconds, "away_effects": acted,
            "back": back, "effects": all,
        }));
    }
    report.note(json!({"name": "peers, store away", "rows": rows}), &lines.join("\n"));
    Ok(())
}

/// Asks once; nothing where no answer comes.
async fn asked(service: &Service) -> Option<u16> {
    let request = service.payment("store-away");
    let answer = async { Connection::open(service.protected()).await?.send(&request).await };
    tokio::time::timeout(PATIENCE, answer).await.ok()?.ok()
}

/// Asks until the answer is one that a client keeps.
async fn settled(service: &Service) -> Result<u16> {
    let until = Instant::now() + BACK_WITHIN;
    loop {
        match asked(service).await {
            Some(status) if status < 500 && status != 409 => return Ok(status),
            last if Instant::now() > until => bail!("{} still answers {last:?}", service.name()),
            _ => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}
