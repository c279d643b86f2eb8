//! Request bodies that are too large, too slow, too short, coded or many.

use std::{io::Write, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    routing::post as on_post,
};
use flate2::{Compression, write::GzEncoder};
use http::Request;
use semel_http::SemelLayerBuilder;
use semel_testkit::{Gate, Verb};
use tokio::io::AsyncWriteExt;
use tower::ServiceExt;

use crate::support::{
    BODY, Server, Setup, created, ledger_server, pay, payments, post, read, until,
};

fn gzip(bytes: &[u8], level: u32) -> Vec<u8> {
    let mut coder = GzEncoder::new(Vec::new(), Compression::new(level));
    coder.write_all(bytes).unwrap();
    coder.finish().unwrap()
}

/// Echoes the body's length as the handler sees it.
async fn echo_server(setup: Setup) -> Server {
    setup
        .serve(|ledger, request: Request<Body>| async move {
            ledger.write();
            to_bytes(request.into_body(), usize::MAX).await.unwrap()
        })
        .await
}

#[tokio::test]
async fn a_body_over_the_cap_is_refused_and_claims_nothing() {
    let server = ledger_server([payments().body_max(100)]).await;
    let large = post("/payments").key("K1").body([b'x'; 101]);
    for ask in [large.clone(), large.chunked()] {
        let answer = server.send(&ask).await;
        assert_eq!((answer.status, answer.code().as_str()), (413, "body-too-large"));
        assert_eq!(answer.document()["max_bytes"], 100);
    }
    let fits = post("/payments").key("K1").body([b'x'; 100]);
    assert_eq!(server.send(&fits.chunked()).await.status, 201);
    assert_eq!((server.ledger.rows(), server.store.calls(Verb::Claim)), (1, 1));
}

#[tokio::test]
async fn a_slow_body_is_given_up_before_any_claim() {
    let server = ledger_server([payments().body_timeout(Duration::from_millis(30))]).await;
    let mut half = pay().head(Some(BODY.len()));
    half.extend_from_slice(&BODY[..10]);
    let connection = server.open(&half).await;
    let answer = read(connection, false).await;
    assert_eq!((answer.status, answer.code().as_str()), (408, "body-too-slow"));
    assert_eq!(answer.document()["retry"], "same-key");
    assert_eq!(server.store.calls(Verb::Claim), 0);
}

#[tokio::test]
async fn a_body_that_breaks_off_claims_nothing() {
    let server = ledger_server([payments()]).await;
    let mut half = pay().head(Some(BODY.len() + 1));
    half.extend_from_slice(BODY);
    let mut connection = server.open(&half).await;
    connection.shutdown().await.unwrap();
    let answer = read(connection, false).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "body-incomplete"));
    assert_eq!((server.ledger.rows(), server.store.calls(Verb::Claim)), (0, 0));
    assert_eq!(server.send(&pay()).await.status, 201);
}

#[tokio::test]
async fn a_body_of_another_length_than_declared_claims_nothing() {
    let server = ledger_server([payments()]).await;
    let app = Router::new().route("/payments", on_post(|| async {})).layer(server.layer.clone());
    for (declared, status) in [("4", 400), ("6", 400), ("5", 200)] {
        let request = Request::post("/payments").header("x-tenant", "T1");
        let request = request.header("idempotency-key", "K1").header("content-length", declared);
        let response = app.clone().oneshot(request.body(Body::from("12345")).unwrap()).await;
        assert_eq!(response.unwrap().status(), status, "{declared}");
    }
    assert_eq!(server.store.calls(Verb::Claim), 1);
}

#[tokio::test]
async fn the_handler_gets_the_bytes_as_they_were_sent() {
    let server = echo_server(Setup::new([payments()])).await;
    let coded = gzip(BODY, 6);
    let ask = pay().header("content-encoding", "gzip").body(&coded);
    assert_eq!(server.send(&ask).await.body, coded);
    assert_eq!(server.send(&pay().set("idempotency-key", "K2").chunked()).await.body, BODY);
    let bytes: Vec<u8> = (0..=255).collect();
    let raw = post("/payments").key("K3").body(&bytes);
    assert_eq!(server.send(&raw).await.body, bytes);
}

#[tokio::test]
async fn content_codings_do_not_change_what_is_asked() {
    let server = ledger_server([payments()]).await;
    let first = server.send(&pay()).await;
    for (coding, level) in [("gzip", 1), ("x-gzip", 9), ("identity, gzip", 6)] {
        let coded = pay().header("content-encoding", coding).body(gzip(BODY, level));
        server.send(&coded).await.assert_replays(&first);
    }
    let other = pay().header("content-encoding", "gzip").body(gzip(b"{}", 6));
    assert_eq!(server.refused(&other).await, (422, "mismatch".to_owned()));
    assert_eq!(server.ledger.rows(), 1);
    let empty = pay().set("idempotency-key", "K2").body("");
    let first = server.send(&empty).await;
    let coded = empty.header("content-encoding", "gzip").body(gzip(b"", 6));
    server.send(&coded).await.assert_replays(&first);
}

#[tokio::test]
async fn a_bomb_and_a_damaged_coding_are_refused_and_claim_nothing() {
    let server = ledger_server([payments()]).await;
    let bomb = gzip(&vec![b' '; 2 << 20], 9);
    let bomb = pay().header("content-encoding", "gzip").body(bomb);
    assert_eq!(server.refused(&bomb).await, (400, "coding-too-large".to_owned()));
    let damaged = pay().header("content-encoding", "br, gzip");
    assert_eq!(server.refused(&damaged).await, (400, "coding-malformed".to_owned()));
    assert_eq!((server.ledger.rows(), server.store.calls(Verb::Claim)), (0, 0));
}

#[tokio::test]
async fn an_unknown_coding_counts_with_its_bytes() {
    let server = ledger_server([payments()]).await;
    let coded = pay().header("content-encoding", "zstd");
    let first = server.send(&coded).await;
    server.send(&coded).await.assert_replays(&first);
    assert_eq!(server.refused(&pay()).await, (422, "mismatch".to_owned()));
    let other = pay().header("content-encoding", "exi");
    assert_eq!(server.refused(&other).await, (422, "mismatch".to_owned()));
    assert_eq!(server.ledger.rows(), 1);
}

#[tokio::test]
async fn bodies_in_flight_are_bounded_over_all_requests() {
    let gate = Gate::shut();
    let stop = Arc::clone(&gate);
    let server = Setup::new([payments()])
        .layer(|layer: SemelLayerBuilder| {
            layer
                .replay_auth_none()
                .in_flight_max(64 << 10)
                .in_flight_wait(Duration::from_millis(30))
        })
        .serve(move |ledger, _| {
            let stop = Arc::clone(&stop);
            async move {
                stop.pass().await;
                created(ledger.write())
            }
        })
        .await;
    let large = |key| post("/payments").key(key).body(vec![b'x'; 40 << 10]);
    let first = server.sending(&large("K1"));
    gate.arrived(1).await;
    let refused = server.send(&large("K2")).await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "overloaded"));
    assert!(refused.is("retry-after", "1"));
    // Small bodies are not counted.
    let small = server.sending(&post("/payments").key("K3").body("x"));
    gate.arrived(2).await;
    gate.open();
    assert_eq!((first.await.unwrap().status, small.await.unwrap().status), (201, 201));
    assert_eq!(server.send(&large("K2")).await.status, 201);
    until(|| server.engine.holding() == 0).await;
    assert_eq!((server.ledger.rows(), server.store.calls(Verb::Claim)), (3, 3));
}
