//! Orders in PostgreSQL, whose key or permit is completed in the transaction that makes them.

use std::time::Duration;

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::{get, post, put},
};
use serde_json::{Value, json};
use tokio_postgres::{Client, Error, NoTls, Row, Transaction};

use super::replay_for;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS made (
    id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, intent text NOT NULL, amount text NOT NULL)";
const CLAIM: &str = "SELECT decision, permit, status, headers::text, body
    FROM semel.claim($1, $2, $3, $4)";
const COMPLETE: &str = "SELECT semel.complete($1, $2, $3, 201, $4::text::jsonb, $5,
    replay_for => $6::text::interval)";
const FAIL: &str =
    "SELECT semel.fail($1, $2, $3, 402, '[[\"content-type\", \"application/json\"]]',
    $4, replay_for => $5::text::interval)";

/// Who holds the intent while an order is made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Form {
    /// The transaction itself: it claims, mutates and completes.
    Atomic,
    /// A gateway before it, whose permit the transaction completes.
    Bridged,
}

/// The shop's database, and how its intents are held.
#[derive(Clone, Debug)]
struct Shop {
    url: String,
    form: Form,
}

/// Returns the routes of a shop, whose table is made if it is not there.
pub(super) async fn router(url: &str, form: Form) -> Router {
    let shop = Shop { url: url.to_owned(), form };
    shop.connect().await.unwrap().batch_execute(TABLE).await.unwrap();
    Router::new()
        .route("/orders", post(order))
        .route("/refunds", post(refund))
        .route("/tips", post(tip))
        .route("/orders/{id}", put(change).delete(delete))
        .route("/effects/{intent}", get(effects))
        .with_state(shop)
}

impl Shop {
    async fn connect(&self) -> Result<Client, Error> {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await?;
        // It ends with its client, and what is not committed is undone.
        tokio::spawn(connection);
        Ok(client)
    }
}

async fn effects(State(shop): State<Shop>, Path(intent): Path<String>) -> Json<Value> {
    let db = shop.connect().await.unwrap();
    let count = "SELECT count(*) FROM made WHERE intent = $1";
    let count: i64 = db.query_one(count, &[&intent]).await.unwrap().get(0);
    Json(json!({ "count": count }))
}

async fn change(
    State(shop): State<Shop>,
    Path(id): Path<i64>,
    Json(body): Json<Value>,
) -> StatusCode {
    let db = shop.connect().await.unwrap();
    let update = "UPDATE made SET amount = $2 WHERE id = $1";
    db.execute(update, &[&id, &body["amount"].to_string()]).await.unwrap();
    StatusCode::OK
}

async fn delete(State(shop): State<Shop>, Path(id): Path<i64>) -> StatusCode {
    let db = shop.connect().await.unwrap();
    db.execute("DELETE FROM made WHERE id = $1", &[&id]).await.unwrap();
    StatusCode::NO_CONTENT
}

async fn order(State(shop): State<Shop>, headers: HeaderMap, body: Bytes) -> Response {
    act(&shop, "orders.create", &headers, &body).await
}

async fn refund(State(shop): State<Shop>, headers: HeaderMap, body: Bytes) -> Response {
    act(&shop, "refunds.create", &headers, &body).await
}

async fn tip(State(shop): State<Shop>, headers: HeaderMap, body: Bytes) -> Response {
    act(&shop, "tips.create", &headers, &body).await
}

/// One request: its operation and tenant, the key or the permit that came with it, and its content.
struct Asked<'a> {
    tenant: &'a str,
    operation: &'a str,
    held_by: &'a str,
    content: &'a [u8],
}

async fn act(shop: &Shop, operation: &str, headers: &HeaderMap, content: &[u8]) -> Response {
    let header = match shop.form {
        Form::Atomic => "idempotency-key",
        Form::Bridged => "semel-permit",
    };
    let lines: Vec<_> =
        headers.get_all(header).iter().filter_map(|key| key.to_str().ok()).collect();
    let [held_by] = lines[..] else { return StatusCode::BAD_REQUEST.into_response() };
    let tenant = headers["x-tenant"].to_str().unwrap();
    let asked = Asked { tenant, operation, held_by, content };
    for _ in 0..10 {
        let Ok(mut db) = shop.connect().await else { break };
        match attempt(&mut db, shop.form, &asked).await {
            Ok(answer) => return answer,
            Err(error) => match error.code().map(tokio_postgres::error::SqlState::code) {
                Some("40001" | "40P01" | "55P03") => {}
                Some("SM007") => return StatusCode::BAD_REQUEST.into_response(),
                code => {
                    return (StatusCode::INTERNAL_SERVER_ERROR, format!("{code:?}"))
                        .into_response();
                }
            },
        }
    }
    StatusCode::SERVICE_UNAVAILABLE.into_response()
}

/// One transaction: all of it, or nothing.
async fn attempt(db: &mut Client, form: Form, asked: &Asked<'_>) -> Result<Response, Error> {
    let transaction = db.transaction().await?;
    let permit = match form {
        Form::Bridged => asked.held_by.to_owned(),
        Form::Atomic => {
            let Asked { tenant, operation, held_by, content } = asked;
            let claim =
                transaction.query_one(CLAIM, &[tenant, operation, held_by, content]).await?;
            match claim.get("decision") {
                "run" => claim.get("permit"),
                decision => return Ok(refused(decision, &claim)),
            }
        }
    };
    let answer = made(&transaction, &permit, asked).await?;
    transaction.commit().await?;
    Ok(answer)
}

/// Answers what must not run; the transaction is undone.
fn refused(decision: &str, claim: &Row) -> Response {
    let status = match decision {
        "replay" => return replayed(claim),
        "mismatch" => StatusCode::UNPROCESSABLE_ENTITY,
        "forgotten" => StatusCode::GONE,
        _ => StatusCode::CONFLICT,
    };
    (status, Json(json!({ "code": decision }))).into_response()
}

fn replayed(claim: &Row) -> Response {
    let status = u16::try_from(claim.get::<_, i32>("status")).unwrap();
    let headers: Vec<[String; 2]> = serde_json::from_str(claim.get("headers")).unwrap();
    let mut answer = Response::builder().status(status).header("idempotent-replayed", "true");
    for [name, value] in headers {
        answer = answer.header(name, value);
    }
    answer.body(Body::from(claim.get::<_, Vec<u8>>("body"))).unwrap()
}

/// Makes an order, and ends the run in the same transaction.
async fn made(
    transaction: &Transaction<'_>,
    permit: &str,
    asked: &Asked<'_>,
) -> Result<Response, Error> {
    let Asked { tenant, operation, content, .. } = asked;
    let command: Value = serde_json::from_slice(content).unwrap();
    let replay_for = format!("{} s", replay_for(operation).as_secs());
    // The work that is under way when the client or the process goes.
    tokio::time::sleep(Duration::from_millis(command["pause_ms"].as_u64().unwrap_or(3))).await;
    if command["amount"].as_i64().is_some_and(|amount| amount < 0) {
        let body = r#"{"error":"below zero"}"#;
        transaction
            .execute(FAIL, &[&permit, tenant, operation, &body.as_bytes(), &replay_for])
            .await?;
        let answer = (StatusCode::PAYMENT_REQUIRED, [("content-type", "application/json")], body);
        return Ok(answer.into_response());
    }
    let insert = "INSERT INTO made (intent, amount) VALUES ($1, $2) RETURNING id";
    let intent = command["order"].as_str().unwrap();
    let row = transaction.query_one(insert, &[&intent, &command["amount"].to_string()]).await?;
    let id = row.get::<_, i64>(0).to_string();
    let body = json!({ "id": id, "amount": command["amount"] }).to_string();
    let location = format!("/orders/{id}");
    let headers = [["content-type", "application/json"], ["location", &location]];
    let kept = json!(headers).to_string();
    transaction
        .execute(COMPLETE, &[&permit, tenant, operation, &kept, &body.as_bytes(), &replay_for])
        .await?;
    let [json, location] = headers.map(|[name, value]| (name, value.to_owned()));
    Ok((StatusCode::CREATED, [json, location], body).into_response())
}
