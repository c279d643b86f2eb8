//! The payments service of `cargo xtask bench peers` on axum: with Semel's layer on Redis where `REDIS_URL` is set,
//! without any where it is not.

#![expect(clippy::disallowed_methods, reason = "a program reads its environment")]

use std::{
    error::Error,
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    extract::State,
    http::{Method, StatusCode},
    routing::{get, post},
};
use semel::{Engine, store::capability::SweepBudget};
use semel_http::{Effect, Operation, Operations, SemelLayer, axum::Intent, tenant::single_tenant};
use semel_redis::RedisStore;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[derive(Debug, Deserialize)]
struct Order {
    order: String,
    amount: u64,
}

#[derive(Debug, Serialize)]
struct Payment {
    id: String,
    order: String,
    amount: u64,
}

type Effects = Arc<AtomicU64>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::var("PORT")?.parse()?;
    let effects = Effects::default();
    let count = get(async |State(effects): State<Effects>| -> Json<Value> {
        Json(json!({ "effects": effects.load(Ordering::SeqCst) }))
    });
    let routes = Router::new().route("/effects", count);
    let app = match std::env::var("REDIS_URL") {
        Ok(url) => {
            routes.route("/payments", post(pay_once)).with_state(effects).layer(semel(&url).await?)
        }
        Err(_) => routes.route("/payments", post(pay)).with_state(effects),
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    axum::serve(listener, app).await?;
    Ok(())
}

async fn semel(url: &str) -> Result<SemelLayer, Box<dyn Error>> {
    let store = Arc::new(RedisStore::builder(url).open().await?);
    let engine = Engine::builder(store.clone()).build();
    engine.sweep_with(store, Duration::from_secs(60), SweepBudget { records: 500 });
    let create = Operation::new("payments.create")?.on(Method::POST, "/payments");
    let layer = SemelLayer::builder(engine, Operations::new([create])?)
        .tenant(single_tenant())
        .replay_auth_none()
        .build()?;
    Ok(layer)
}

async fn pay(
    State(effects): State<Effects>,
    Json(order): Json<Order>,
) -> (StatusCode, Json<Payment>) {
    let id = format!("pay_{}", effects.fetch_add(1, Ordering::SeqCst) + 1);
    (StatusCode::CREATED, Json(Payment { id, order: order.order, amount: order.amount }))
}

/// As the guide shows it: right before the effect, is the lease still ours?
async fn pay_once(
    effects: State<Effects>,
    intent: Intent,
    order: Json<Order>,
) -> Result<(StatusCode, Json<Payment>), (StatusCode, Effect, &'static str)> {
    if intent.held.start().await.is_err() {
        return Err((StatusCode::SERVICE_UNAVAILABLE, Effect::None, "nothing was charged"));
    }
    Ok(pay(effects, order).await)
}
