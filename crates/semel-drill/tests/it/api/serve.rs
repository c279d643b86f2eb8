//! The API's routes, and the plan by which it is drilled.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::{get, post, put},
};
use semel_drill::plan::Plan;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

use super::{
    Fault,
    keys::{self, Key, Name},
    shop::{Entry, Shop, answer},
};

/// The plan that tries everything there is.
pub(crate) const PLAN: &str = r#"
name = "orders"
contract = "semel"
[request]
path = "/orders"
body = '{"order":"{{intent}}","amount":1000}'
[variants]
changed = '{"order":"{{intent}}","amount":2000}'
twins = ['{"order":"{{intent}}","amount":9007199254740993}', '{"order":"{{intent}}","amount":9007199254740992}']
slow = '{"order":"{{intent}}","amount":3000,"pause_ms":150}'
refused = '{"order":"{{intent}}","amount":-1}'
[other]
path = "/refunds"
body = '{"order":"{{intent}}","amount":1000}'
[tenant]
headers = { x-tenant = "b" }
[effects]
url = "/effects/{{intent}}"
pointer = "/count"
[resource]
id = "/id"
change = { method = "PUT", path = "/orders/{{id}}", body = '{"amount":7}' }
delete = { method = "DELETE", path = "/orders/{{id}}" }
[answers]
first = 201
[bounds]
racers = 8
storm = 12
answer_wait = "10s"
patience = "10s"
"#;

/// Returns the plan by which the API is drilled.
pub(crate) fn plan() -> Plan {
    Plan::parse(PLAN).unwrap()
}

/// Returns the plan by which it is drilled where outcomes live for a second.
pub(crate) fn short_lived_plan() -> Plan {
    Plan::parse(&format!("{PLAN}[lifetime]\nreplay_for = \"1s\"\n")).unwrap()
}

/// The running API. Dropping it ends it.
pub(crate) struct Api {
    address: SocketAddr,
    server: JoinSet<()>,
}

#[derive(Clone)]
struct Desk(Arc<Mutex<Shop>>);

impl Desk {
    fn shop(&self) -> MutexGuard<'_, Shop> {
        self.0.lock().unwrap()
    }
}

impl Api {
    /// Starts it on a free port, with its state in memory.
    pub(crate) async fn start(fault: Option<Fault>) -> Self {
        Self::serve(SocketAddr::from(([127, 0, 0, 1], 0)), Shop::open(fault, None)).await
    }

    /// Starts it with outcomes that live for a second.
    pub(crate) async fn short_lived(fault: Option<Fault>) -> Self {
        let mut shop = Shop::open(fault, None);
        shop.replay_for = Some(Duration::from_secs(1));
        Self::serve(SocketAddr::from(([127, 0, 0, 1], 0)), shop).await
    }

    /// Starts it on an address, with its state in a file.
    pub(crate) async fn durable(address: SocketAddr, fault: Option<Fault>, file: PathBuf) -> Self {
        Self::serve(address, Shop::open(fault, Some(file))).await
    }

    async fn serve(address: SocketAddr, shop: Shop) -> Self {
        Self::of(address, router(shop)).await
    }

    /// Serves routes on an address.
    pub(crate) async fn of(address: SocketAddr, router: Router) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, server }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves until the process is killed.
    pub(crate) async fn forever(mut self) {
        self.server.join_next().await;
    }
}

/// The API that looks at no key and keeps its state in a file, for others to protect.
pub(crate) fn unprotected_api(file: PathBuf) -> Router {
    router(Shop::open(Some(Fault::IgnoresKeys), Some(file)))
}

/// The API that keeps its keys well, for others to put something before it.
pub(crate) fn right_api() -> Router {
    router(Shop::open(None, None))
}

fn router(shop: Shop) -> Router {
    Router::new()
        .route("/orders", post(order))
        .route("/refunds", post(refund))
        .route("/tips", post(tip))
        .route("/orders/{id}", put(change).delete(delete))
        .route("/effects/{intent}", get(effects))
        .with_state(Desk(Arc::new(Mutex::new(shop))))
}

async fn effects(State(desk): State<Desk>, Path(intent): Path<String>) -> Json<Value> {
    Json(json!({ "count": desk.shop().count(&intent) }))
}

async fn change(
    State(desk): State<Desk>,
    Path(id): Path<u64>,
    Json(body): Json<Value>,
) -> StatusCode {
    desk.shop().change(id, &body["amount"])
}

async fn delete(State(desk): State<Desk>, Path(id): Path<u64>) -> StatusCode {
    desk.shop().delete(id)
}

async fn order(desk: State<Desk>, headers: HeaderMap, body: Bytes) -> Response {
    outlive(desk.0, "orders", headers, body).await
}

async fn refund(desk: State<Desk>, headers: HeaderMap, body: Bytes) -> Response {
    outlive(desk.0, "refunds", headers, body).await
}

async fn tip(desk: State<Desk>, headers: HeaderMap, body: Bytes) -> Response {
    outlive(desk.0, "tips", headers, body).await
}

/// Acts in a task of its own: a client that hangs up stops nothing.
async fn outlive(desk: Desk, operation: &'static str, headers: HeaderMap, body: Bytes) -> Response {
    let fault = desk.shop().fault;
    let acts = act(desk, operation, headers, body);
    if fault == Some(Fault::DiesWithTheClient) {
        return acts.await;
    }
    tokio::spawn(acts).await.unwrap()
}

async fn act(desk: Desk, operation: &'static str, headers: HeaderMap, body: Bytes) -> Response {
    let fault = desk.shop().fault;
    let Ok(command) = serde_json::from_slice::<Value>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let key = match keys::key(fault, &headers) {
        Key::Bad if fault == Some(Fault::BreaksOnOddKeys) => {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        }
        Key::Bad | Key::Missing => return StatusCode::BAD_REQUEST.into_response(),
        Key::Taken(key) => key,
        Key::Unprotected => return unprotected(&desk, &command).await,
    };
    let tenant = headers.get("x-tenant").map_or("a", |tenant| tenant.to_str().unwrap());
    let name = keys::name(fault, tenant, operation, &key, &body);
    let content = keys::content(fault, &body);
    if let Some(refusal) = desk.claim(&name, &content, &command) {
        return refusal;
    }
    if fault == Some(Fault::LooksThenInserts) {
        // The window itself, wide enough that equals always fall into it.
        tokio::time::sleep(Duration::from_millis(30)).await;
        desk.insert(&name, content);
    }
    run(desk, name, command).await
}

impl Desk {
    /// Takes a free key, or says what else the caller gets.
    fn claim(&self, name: &Name, content: &str, command: &Value) -> Option<Response> {
        let mut shop = self.shop();
        let fault = shop.fault;
        let life = shop.replay_for.unwrap_or(Duration::MAX);
        let late = |entry: &Entry| entry.kept.is_some() && entry.since.elapsed() > life;
        if fault == Some(Fault::RunsLate) {
            shop.keys.retain(|_, entry| !late(entry));
        }
        let Some(entry) = shop.keys.get(name) else {
            drop(shop);
            if fault != Some(Fault::LooksThenInserts) {
                self.insert(name, content.to_owned());
            }
            return None;
        };
        if let (Some(Fault::ReplaysStale), true, Some(kept)) = (fault, late(entry), &entry.kept) {
            return Some(answer(kept, true));
        }
        if entry.content != content && fault == Some(Fault::OneRefusal) {
            return Some(StatusCode::CONFLICT.into_response());
        }
        if entry.content != content {
            return Some(StatusCode::UNPROCESSABLE_ENTITY.into_response());
        }
        if late(entry) {
            return Some(StatusCode::GONE.into_response());
        }
        match entry.kept.clone() {
            Some(kept) => Some(shop.replay(&kept, command)),
            None if fault == Some(Fault::BreaksWhileItRuns) => {
                Some(StatusCode::INTERNAL_SERVER_ERROR.into_response())
            }
            None => Some(StatusCode::CONFLICT.into_response()),
        }
    }

    fn insert(&self, name: &Name, content: String) {
        let entry = Entry { content, kept: None, since: Instant::now() };
        self.shop().keys.insert(name.clone(), entry);
    }
}

/// Forgets the key of a run that is dropped before its outcome is kept.
struct Forgetting(Desk, Name);

impl Drop for Forgetting {
    fn drop(&mut self) {
        let mut shop = self.0.shop();
        if shop.keys.get(&self.1).is_some_and(|entry| entry.kept.is_none()) {
            shop.keys.remove(&self.1);
        }
    }
}

async fn unprotected(desk: &Desk, command: &Value) -> Response {
    // The work before the effect.
    tokio::time::sleep(pause(command)).await;
    let kept = desk.shop().order(command);
    desk.shop().save();
    answer(&kept, false)
}

/// Every run takes a moment, so that others can come meanwhile.
fn pause(command: &Value) -> Duration {
    Duration::from_millis(command["pause_ms"].as_u64().unwrap_or(3))
}

async fn run(desk: Desk, name: Name, command: Value) -> Response {
    let _forgetting = Forgetting(desk.clone(), name.clone());
    let fault = desk.shop().fault;
    let pause = pause(&command);
    let early = matches!(fault, Some(Fault::OutcomeAfterEffect | Fault::DiesWithTheClient));
    let kept = if early {
        let kept = desk.shop().order(&command);
        desk.shop().save();
        // The work that is under way when the client or the process goes.
        tokio::time::sleep(pause.max(Duration::from_millis(20))).await;
        kept
    } else {
        // The work before the effect.
        tokio::time::sleep(pause).await;
        desk.shop().order(&command)
    };
    let mut shop = desk.shop();
    if let Some(entry) = shop.keys.get_mut(&name) {
        entry.kept = Some(kept.clone());
        entry.since = Instant::now();
    }
    shop.save();
    drop(shop);
    answer(&kept, false)
}
