//! The layer inside an axum service, a process of its own that is killed and started again.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use axum::{
    Router,
    http::{HeaderName, Method},
};
use semel::{Engine, Policy, store::capability::SweepBudget};
use semel_gateway::{config::StoreUrl, stores};
use semel_http::{Operation, Operations, SemelLayer, tenant::trusted_header};
use semel_testkit::servers::Process;

use super::{LEASE, REPLAY_FOR, Store, address, keeps_every_rule, plan_of};
use crate::api::{Api, unprotected_api};

/// Says where this binary is to listen as the service, its store, and where the orders are kept.
const AS_SERVICE: &str = "SEMEL_DRILL_TEST_SERVICE";

/// The test that serves, where it is told to.
const SERVES: &str = "ours::layer::a_service_with_the_layer_serves_until_it_is_killed";

/// The command by which this binary is the service.
fn command(address: SocketAddr, store: &str, file: &Path) -> Vec<String> {
    let said = format!("{AS_SERVICE}={address} {store} {}", file.display());
    let this = std::env::current_exe().unwrap();
    let command = ["env", &said, this.to_str().unwrap(), SERVES, "--exact", "--nocapture"];
    command.map(str::to_owned).into()
}

/// The orders, which look at no key, behind the layer.
async fn service(store: &str, file: PathBuf) -> Router {
    let url = StoreUrl::parse(store, Path::new("")).unwrap();
    let opened = stores::open(&url.into()).await.unwrap();
    let engine = Engine::builder(opened.store).build();
    engine.sweep_with(opened.sweep, Duration::from_secs(1), SweepBudget { records: 500 });
    let operation = |name: &str| {
        let policy = Policy { lease: LEASE, replay_for: REPLAY_FOR, ..Policy::default() };
        let operation = Operation::new(format!("{name}.create")).unwrap().policy(policy);
        operation.on(Method::POST, format!("/{name}"))
    };
    let operations = Operations::new([operation("orders"), operation("refunds")]).unwrap();
    let layer = SemelLayer::builder(engine, operations)
        .tenant(trusted_header(HeaderName::from_static("x-tenant")))
        .replay_auth_none()
        .build()
        .unwrap();
    unprotected_api(file).layer(layer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_with_the_layer_serves_until_it_is_killed() {
    if let Ok(said) = std::env::var(AS_SERVICE) {
        let mut said = said.splitn(3, ' ');
        let mut next = || said.next().unwrap();
        let (address, store, file) = (next().parse().unwrap(), next(), PathBuf::from(next()));
        return Api::of(address, service(store, file).await).await.forever().await;
    }
    let (folder, address) = (tempfile::tempdir().unwrap(), address());
    let store = Store::Sqlite.url(folder.path()).await;
    let command = command(address, &store, &folder.path().join("orders.json"));
    let mut process = Process::start(&command[0], |process| {
        process.args(&command[1..]);
    });
    process.until_it_listens(address, Duration::from_secs(20)).await.unwrap();
    process.kill();
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

async fn holds(store: Store) {
    let (folder, address) = (tempfile::tempdir().unwrap(), address());
    let store = store.url(folder.path()).await;
    let start = command(address, &store, &folder.path().join("orders.json"));
    keeps_every_rule(plan_of(start, None), address).await;
}

#[tokio::test]
async fn a_layer_over_sqlite_keeps_every_rule() {
    holds(Store::Sqlite).await;
}

#[tokio::test]
async fn a_layer_over_postgresql_keeps_every_rule() {
    holds(Store::Postgres).await;
}
