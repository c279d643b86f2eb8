//! A payments service on axum. Every `POST /payments` that runs makes a row in the ledger; a retry with
//! the same `Idempotency-Key` gets the first answer, and makes none.
//!
//! ```text
//! cargo run -p semel-examples --example axum_payments -- 127.0.0.1:3000 .
//! curl -i 127.0.0.1:3000/payments -H 'idempotency-key: order-7' --json '{"order":"7","amount":"9.50"}'
//! curl -s 127.0.0.1:3000/payments
//! ```

use std::{
    error::Error,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::State,
    http::{Method, StatusCode},
    routing::get,
};
use rusqlite::Connection;
use semel::{Engine, store::capability::SweepBudget};
use semel_http::{
    Effect, Operation, Operations, Resource, SemelLayer, axum::Intent, tenant::single_tenant,
};
use semel_sqlite::SqliteStore;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// How long the provider behind this service takes for a charge.
const CHARGE: Duration = Duration::from_millis(50);

/// What is asked for.
#[derive(Debug, Deserialize)]
struct Order {
    order: String,
    amount: String,
}

/// A row of the ledger.
#[derive(Debug, Serialize)]
struct Payment {
    id: i64,
    order: String,
    amount: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:3000".into());
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| ".".into()));

    let (engine, layer) = semel(&folder.join("semel.db"))?;
    let payments = Router::new()
        .route("/payments", get(list).post(pay))
        .with_state(Ledger::open(&folder.join("ledger.db"))?)
        // On the outermost router, so that it sees whole paths.
        .layer(layer.clone());

    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, payments).with_graceful_shutdown(interrupted()).await?;
    // What still runs finishes and is stored, also where the client has gone.
    layer.drain().await;
    engine.close(Duration::from_secs(10)).await;
    Ok(())
}

/// The layer that protects `POST /payments`, on one SQLite file.
fn semel(path: &Path) -> Result<(Engine, SemelLayer), Box<dyn Error>> {
    let store = Arc::new(SqliteStore::builder(path).open()?);
    let engine = Engine::builder(store.clone()).build();
    engine.sweep_with(store, Duration::from_secs(60), SweepBudget { records: 500 });
    let create = Operation::new("payments.create")?.on(Method::POST, "/payments");
    let layer = SemelLayer::builder(engine.clone(), Operations::new([create])?)
        // A service with accounts names its tenant here, and authorises replays.
        .tenant(single_tenant())
        .replay_auth_none()
        .build()?;
    Ok((engine, layer))
}

/// Charges, and writes the row. Whoever gets here holds the intent: a replay never does.
async fn pay(
    State(ledger): State<Ledger>,
    intent: Intent,
    Json(order): Json<Order>,
) -> Result<(StatusCode, Resource, Json<Payment>), (StatusCode, Effect, String)> {
    // Right before the charge: is the lease still ours? If not, nothing was done.
    intent.held.start().await.map_err(|why| {
        (StatusCode::SERVICE_UNAVAILABLE, Effect::None, format!("nothing was charged: {why}"))
    })?;
    tokio::time::sleep(CHARGE).await;
    match ledger.write(order) {
        Ok(payment) => {
            // What a late retry is pointed to, when the answer itself is no longer kept.
            let made = Resource::new("payment", payment.id.to_string());
            Ok((StatusCode::CREATED, made, Json(payment)))
        }
        // The charge went out. Nobody runs it again by guess.
        Err(why) => Err((StatusCode::INTERNAL_SERVER_ERROR, Effect::Unknown, why.to_string())),
    }
}

async fn list(State(ledger): State<Ledger>) -> Result<Json<Value>, (StatusCode, String)> {
    match ledger.rows() {
        Ok(rows) => Ok(Json(json!(rows))),
        Err(why) => Err((StatusCode::INTERNAL_SERVER_ERROR, why.to_string())),
    }
}

async fn interrupted() {
    // Without signals it runs until it is killed.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The service's own table.
#[derive(Clone, Debug)]
struct Ledger(Arc<Mutex<Connection>>);

impl Ledger {
    fn open(path: &Path) -> rusqlite::Result<Self> {
        let connection = Connection::open(path)?;
        connection.execute(
            "CREATE TABLE IF NOT EXISTS payment (
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                \"order\" TEXT NOT NULL,
                amount TEXT NOT NULL
            ) STRICT",
            (),
        )?;
        Ok(Self(Arc::new(Mutex::new(connection))))
    }

    fn write(&self, order: Order) -> rusqlite::Result<Payment> {
        let connection = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let id = connection.query_row(
            "INSERT INTO payment (\"order\", amount) VALUES (?1, ?2) RETURNING id",
            (&order.order, &order.amount),
            |row| row.get(0),
        )?;
        Ok(Payment { id, order: order.order, amount: order.amount })
    }

    fn rows(&self) -> rusqlite::Result<Vec<Payment>> {
        let connection = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows =
            connection.prepare("SELECT id, \"order\", amount FROM payment ORDER BY id")?;
        let rows = rows.query_map((), |row| {
            Ok(Payment { id: row.get(0)?, order: row.get(1)?, amount: row.get(2)? })
        })?;
        rows.collect()
    }
}
