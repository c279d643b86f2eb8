//! What axum handlers take and say.

use axum::{Json, Router, body::Body, routing::post as on_post};
use http::{Request, StatusCode};
use semel_http::{Answer, Code, Effect, KeyRule, Resource, axum::Intent};
use tower::ServiceExt;

use crate::support::{Ledger, Setup, ask, operation, pay, payments, post};

#[tokio::test]
async fn a_handler_takes_its_intent_and_says_what_it_made() {
    let ledger = Ledger::default();
    let rows = ledger.clone();
    let router = Router::new().route(
        "/payments",
        on_post(move |intent: Intent, Json(body): Json<serde_json::Value>| async move {
            intent.held.start().await.unwrap();
            assert_eq!(intent.held.permit().id, intent.id);
            assert!(!intent.ask_first);
            rows.write();
            let text = format!("{} {} {}", intent.id, body["amount"], intent.fingerprint.plan());
            (StatusCode::CREATED, Resource::new("payment", "p1"), text)
        }),
    );
    let server = Setup::new([payments()]).route(router, ledger).await;
    let first = server.send(&pay()).await;
    assert!(first.text().starts_with("T1 payments.create K1 100 "), "{first:?}");
    server.send(&pay()).await.assert_replays(&first);
    let status = server.send(&ask("GET", "/.semel/intents/payments.create/K1")).await.document();
    assert_eq!(status["pointer"]["id"], "p1");
    // A body that the extractor refuses had no effect: the corrected request may use the key.
    let wrong = pay().set("idempotency-key", "K2").set("content-type", "text/plain");
    assert_eq!(server.send(&wrong).await.status, 415);
    assert_eq!(server.send(&pay().set("idempotency-key", "K2")).await.status, 201);
    assert_eq!(server.ledger.rows(), 2);
}

#[tokio::test]
async fn an_optional_intent_is_none_without_a_key_and_a_demanded_one_is_a_fault() {
    let optional = operation("a").on(http::Method::POST, "/a").key(KeyRule::Optional);
    let router = Router::new()
        .route("/a", on_post(|intent: Option<Intent>| async move { intent.is_some().to_string() }))
        .route("/b", on_post(|_: Intent| async { "never" }))
        .route(
            "/c",
            on_post(|| async { (StatusCode::SERVICE_UNAVAILABLE, Effect::None, "later") }),
        );
    let c = operation("c").on(http::Method::POST, "/c");
    let server = Setup::new([optional, c]).route(router, Ledger::default()).await;
    assert_eq!(server.send(&post("/a").key("K1")).await.text(), "true");
    assert_eq!(server.send(&post("/a")).await.text(), "false");
    assert_eq!(server.send(&post("/b").key("K1")).await.status, 500);
    for _ in 0..2 {
        assert_eq!(server.send(&post("/c").key("K1")).await.text(), "later");
    }
}

/// L22, L23
#[tokio::test]
async fn whoever_counts_can_tell_a_replay_from_a_fresh_answer() {
    let server = crate::support::ledger_server([payments()]).await;
    let app = Router::new()
        .route("/payments", on_post(|| async { "paid" }))
        .route("/other", on_post(|| async { "other" }))
        .layer(server.layer.clone());
    let answer = async |target: &str, body: &'static str| {
        let request =
            Request::post(target).header("x-tenant", "T1").header("idempotency-key", "K1");
        let request = request.body(Body::from(body)).unwrap();
        Answer::of(&app.clone().oneshot(request).await.unwrap())
    };
    assert_eq!(answer("/payments", "a").await, Answer::Fresh);
    assert_eq!(answer("/payments", "a").await, Answer::Replay);
    assert_eq!(answer("/payments", "b").await, Answer::Refused(Code::Mismatch));
    assert_eq!(answer("/other", "a").await, Answer::Fresh);
    assert_eq!(server.layer.stats().problem(Code::Mismatch), 1);
    let stats = server.engine.stats();
    assert_eq!((stats.fresh, stats.replays, stats.mismatches), (1, 1, 1));
}
