//! The layer with the memory store, against the bare handler.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use semel::{Engine, Policy, store::memory::MemoryStore};
use semel_http::{Operation, Operations, SemelLayer};

use crate::{
    load::{self, Make},
    ratio::Report,
    servers,
};

/// Measures fresh intents and replays.
pub(crate) async fn measure(report: &mut Report, rounds: u32, requests: u32) -> Result<()> {
    let bare = servers::serve(servers::payments()).await?;
    let engine = Engine::builder(Arc::new(MemoryStore::new().records_max(20_000_000))).build();
    let policy = Policy { durable: false, ..Policy::default() };
    let operation =
        Operation::new("payments.create")?.on(http::Method::POST, "/payments").policy(policy);
    let layer = SemelLayer::builder(engine, Operations::new([operation])?)
        .tenant(semel_http::tenant::single_tenant())
        .replay_auth_none()
        .build()
        .map_err(|error| anyhow!("{error}"))?;
    let ours = servers::serve(servers::payments().layer(layer)).await?;

    let plain: Make = Arc::new(|n| load::post("/payments", None, &load::body(n, 200)));
    let fresh = |round: u32| -> Make {
        Arc::new(move |n| {
            load::post("/payments", Some(&format!("fresh-{round}-{n}")), &load::body(n, 200))
        })
    };
    let requests = u64::from(requests);
    let name = "layer, memory store, fresh / bare handler";
    report
        .pair(
            name,
            0.85,
            rounds,
            |round| load::run(ours, requests, fresh(round)),
            |_| load::run(bare, requests, Arc::clone(&plain)),
        )
        .await?;

    let replay: Make = Arc::new(|n| {
        let n = n % 1000;
        load::post("/payments", Some(&format!("replay-{n}")), &load::body(n, 200))
    });
    let name = "layer, memory store, replay / bare handler";
    report
        .pair(
            name,
            0.95,
            rounds,
            |_| load::run(ours, requests, Arc::clone(&replay)),
            |_| load::run(bare, requests, Arc::clone(&plain)),
        )
        .await
}
