//! The gateway against Debian's nginx as a plain proxy to the same upstream.

use std::sync::Arc;

use anyhow::Result;

use crate::{
    load::{self, Make},
    ratio::Report,
    servers,
};

/// Measures requests without a key and with one.
pub(crate) async fn measure(report: &mut Report, rounds: u32, requests: u32) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let upstream = servers::serve(servers::payments()).await?;
    let nginx = servers::nginx(dir.path(), upstream).await?;
    let gateway = servers::gateway(dir.path(), upstream, "").await?;
    eprintln!("nginx is {}, the gateway is {}", nginx.address, gateway.address);
    let requests = u64::from(requests);

    let plain: Make = Arc::new(|n| load::post("/plain", None, &load::body(n, 200)));
    report
        .pair(
            "gateway without key / nginx",
            0.8,
            rounds,
            |_| load::run(gateway.address, requests, Arc::clone(&plain)),
            |_| load::run(nginx.address, requests, Arc::clone(&plain)),
        )
        .await?;
    let keyed = |round: u32| -> Make {
        Arc::new(move |n| {
            load::post("/payments", Some(&format!("gw-{round}-{n}")), &load::body(n, 200))
        })
    };
    report
        .pair(
            "gateway, keyed on SQLite / nginx",
            0.5,
            rounds,
            |round| load::run(gateway.address, requests, keyed(round)),
            |_| load::run(nginx.address, requests, Arc::clone(&plain)),
        )
        .await?;
    let replay: Make = Arc::new(|n| {
        let n = n % 1000;
        load::post("/payments", Some(&format!("replay-{n}")), &load::body(n, 200))
    });
    report
        .pair(
            "gateway, replay on SQLite / nginx",
            0.5,
            rounds,
            |_| load::run(gateway.address, requests, Arc::clone(&replay)),
            |_| load::run(nginx.address, requests, Arc::clone(&plain)),
        )
        .await
}
