//! The payments API: `POST /payments` charges, every time it is asked; `POST /payouts` honours the
//! key that the gateway forwards; `GET /ledger` shows what was charged.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::{get, post},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::Notify, task::JoinSet};

use super::ledger::Ledger;

/// How long the API works before it charges, and again before it answers: long enough for others to
/// come meanwhile, and for a crash to hit either half.
const WORK: Duration = Duration::from_millis(20);

/// The running API. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) address: SocketAddr,
    pub(super) gates: Gates,
    _server: JoinSet<()>,
}

/// What is asked for.
#[derive(Debug, Deserialize)]
struct Payment {
    order: String,
    amount: String,
}

/// What is answered.
#[derive(Debug, Serialize)]
struct Paid {
    id: String,
    order: String,
    amount: String,
}

#[derive(Clone, Debug)]
struct Desk {
    ledger: Ledger,
    gates: Gates,
}

impl Api {
    /// Starts the API on a free loopback port.
    pub(crate) async fn start(ledger: Ledger) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let gates = Gates::default();
        let router = Router::new()
            .route("/payments", post(pay))
            .route("/payouts", post(pay_once))
            .route("/ledger", get(ledger_of))
            .with_state(Desk { ledger, gates: gates.clone() });
        let mut server = JoinSet::new();
        server.spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "the payments API ended");
            }
        });
        Ok(Self { address, gates, _server: server })
    }
}

async fn pay(State(desk): State<Desk>, Json(payment): Json<Payment>) -> (StatusCode, Json<Value>) {
    let gate = desk.gates.at(&payment.order);
    Gates::pass(gate.as_ref(), At::BeforeCharge).await;
    tokio::time::sleep(WORK).await;
    let charged = desk.ledger.charge(&payment.order, &payment.amount);
    tokio::time::sleep(WORK).await;
    Gates::pass(gate.as_ref(), At::AfterCharge).await;
    answer(charged, payment)
}

async fn pay_once(
    State(desk): State<Desk>,
    headers: HeaderMap,
    Json(payment): Json<Payment>,
) -> (StatusCode, Json<Value>) {
    let key = headers.get(semel::wire::IDEMPOTENCY_KEY).and_then(|key| key.to_str().ok());
    let Some(key) = key else {
        return (StatusCode::BAD_REQUEST, Json(json!({ "error": "no key" })));
    };
    let gate = desk.gates.at(&payment.order);
    tokio::time::sleep(WORK).await;
    let charged = desk.ledger.charge_once(&payment.order, &payment.amount, key);
    tokio::time::sleep(WORK).await;
    Gates::pass(gate.as_ref(), At::AfterCharge).await;
    answer(charged, payment)
}

fn answer(charged: rusqlite::Result<i64>, payment: Payment) -> (StatusCode, Json<Value>) {
    match charged {
        Ok(number) => {
            let paid =
                Paid { id: payment_id(number), order: payment.order, amount: payment.amount };
            (StatusCode::CREATED, Json(json!(paid)))
        }
        Err(error) => {
            tracing::error!(%error, "the ledger cannot be written");
            (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({ "error": error.to_string() })))
        }
    }
}

/// The id that an answer carries for a row of the ledger.
pub(super) fn payment_id(number: i64) -> String {
    format!("pay_{number}")
}

async fn ledger_of(State(desk): State<Desk>) -> (StatusCode, Json<Value>) {
    match desk.ledger.counts() {
        Ok(counts) => {
            let charges: HashMap<_, _> =
                counts.into_iter().map(|(order, charges)| (order, charges.count)).collect();
            (StatusCode::OK, Json(json!({ "charges": charges })))
        }
        Err(error) => {
            (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({ "error": error.to_string() })))
        }
    }
}

/// Where a request is stopped, so that something can happen to the gateway just then.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum At {
    /// The request is here, and nothing is charged.
    BeforeCharge,
    /// The charge is in the ledger, and nothing is answered.
    AfterCharge,
}

/// The gates that requests of some orders stop at. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Gates(Arc<Mutex<HashMap<String, Arc<Gate>>>>);

/// One gate; the first request of its order stops there.
#[derive(Debug)]
pub(super) struct Gate {
    at: At,
    reached: Notify,
    opened: Notify,
}

impl Gates {
    /// Puts up a gate for the next request of an order.
    pub(super) fn put(&self, order: &str, at: At) -> Arc<Gate> {
        let gate = Arc::new(Gate { at, reached: Notify::new(), opened: Notify::new() });
        self.lock().insert(order.to_owned(), Arc::clone(&gate));
        gate
    }

    fn at(&self, order: &str) -> Option<Arc<Gate>> {
        self.lock().remove(order)
    }

    async fn pass(gate: Option<&Arc<Gate>>, at: At) {
        if let Some(gate) = gate.filter(|gate| gate.at == at) {
            gate.reached.notify_one();
            gate.opened.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Gate>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate {
    /// Waits until a request stands at the gate.
    pub(super) async fn reached(&self) {
        self.reached.notified().await;
    }

    /// Lets it go on.
    pub(super) fn open(&self) {
        self.opened.notify_one();
    }
}
