//! This binary as a service, so that it can be killed.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use semel_testkit::servers::Process;
use tokio::net::TcpStream;

use super::{Store, address, layer, orders};
use crate::api::Api;

/// Says which service this binary is to be, where it listens, its store, and where it keeps the rest.
const AS_SERVICE: &str = "SEMEL_DRILL_TEST_SERVICE";

/// The test that serves, where it is told to.
const SERVES: &str = "ours::service::a_service_serves_until_it_is_killed";

/// The command by which this binary is a service: `layer`, or `atomic`.
pub(super) fn command(kind: &str, address: SocketAddr, store: &str, file: &Path) -> Vec<String> {
    let said = format!("{AS_SERVICE}={kind} {address} {store} {}", file.display());
    let this = std::env::current_exe().unwrap();
    let command = ["env", &said, this.to_str().unwrap(), SERVES, "--exact", "--nocapture"];
    command.map(str::to_owned).into()
}

async fn serve(said: &str) {
    let mut said = said.splitn(4, ' ');
    let mut next = || said.next().unwrap();
    let (kind, address) = (next(), next().parse().unwrap());
    let (store, file) = (next(), PathBuf::from(next()));
    let router = match kind {
        "atomic" => orders::router(store, orders::Form::Atomic).await,
        _ => layer::router(store, file).await,
    };
    Api::of(address, router).await.forever().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_serves_until_it_is_killed() {
    if let Ok(said) = std::env::var(AS_SERVICE) {
        return serve(&said).await;
    }
    let (folder, address) = (tempfile::tempdir().unwrap(), address());
    let store = Store::Sqlite.url(folder.path()).await;
    let command = command("layer", address, &store, &folder.path().join("orders.json"));
    let mut process = Process::start(&command[0], |process| {
        process.args(&command[1..]);
    });
    process.until_it_listens(address, Duration::from_secs(20)).await.unwrap();
    process.kill();
    assert!(TcpStream::connect(address).await.is_err());
}
