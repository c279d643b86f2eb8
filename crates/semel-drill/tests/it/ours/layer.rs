//! The layer inside an axum service, a process of its own that is killed and started again.

use std::{
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

use super::{
    LEASE, OPERATIONS, Store, address, keeps_every_rule, plan_of, replay_for, service::command,
};
use crate::api::unprotected_api;

/// Returns the routes of the orders, which look at no key, behind the layer.
pub(super) async fn router(store: &str, file: PathBuf) -> Router {
    let url = StoreUrl::parse(store, Path::new("")).unwrap();
    let opened = stores::open(&url.into()).await.unwrap();
    let engine = Engine::builder(opened.store).build();
    engine.sweep_with(opened.sweep, Duration::from_secs(1), SweepBudget { records: 500 });
    let operation = |name: &str| {
        let operation = Operation::new(format!("{name}.create")).unwrap();
        let replay_for = replay_for(operation.name().as_str());
        let policy = Policy { lease: LEASE, replay_for, ..Policy::default() };
        operation.policy(policy).on(Method::POST, format!("/{name}"))
    };
    let operations = Operations::new(OPERATIONS.map(operation)).unwrap();
    let layer = SemelLayer::builder(engine, operations)
        .tenant(trusted_header(HeaderName::from_static("x-tenant")))
        .replay_auth_none()
        .build()
        .unwrap();
    unprotected_api(file).layer(layer)
}

async fn holds(store: Store) {
    let (folder, address) = (tempfile::tempdir().unwrap(), address());
    let store = store.url(folder.path()).await;
    let start = command("layer", address, &store, &folder.path().join("orders.json"));
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

#[tokio::test]
async fn a_layer_over_redis_keeps_every_rule() {
    holds(Store::Redis).await;
}
