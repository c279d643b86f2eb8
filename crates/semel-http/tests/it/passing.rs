//! What the layer leaves alone, and what it strips.

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use semel_http::KeyRule;
use semel_testkit::Verb;

use crate::support::{Setup, ask, data, pay, payments, post, read, streamed};

#[tokio::test]
async fn what_is_not_listed_passes_untouched_and_streamed() {
    let server = Setup::new([payments()])
        .serve(|ledger, request: Request<Body>| async move {
            ledger.write();
            // The answer begins before the request has ended: neither side is buffered.
            let mut body = request.into_body();
            let (writer, echo) = streamed();
            tokio::spawn(async move {
                while let Some(Ok(frame)) = body.frame().await {
                    writer.send(data(frame.into_data().unwrap())).unwrap();
                }
            });
            echo
        })
        .await;
    for target in ["/payments/", "/payments/7", "/other"] {
        let answer = server.send(&post(target).key("K1").body("hello")).await;
        assert_eq!((answer.status, answer.text()), (200, "hello"));
    }
    let got = server.send(&ask("GET", "/payments").key("K1")).await;
    assert_eq!(got.status, 200);
    assert_eq!((server.ledger.rows(), server.store.calls(Verb::Claim)), (4, 0));
}

#[tokio::test]
async fn a_request_without_its_optional_key_is_streamed_to_the_handler() {
    let server = Setup::new([payments().key(KeyRule::Optional)])
        .serve(|ledger, request: Request<Body>| async move {
            let mut body = request.into_body();
            let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
            ledger.write();
            first
        })
        .await;
    // The body never ends, and is answered all the same.
    let head = post("/payments").head(Some(1_000_000_000));
    let mut bytes = head;
    bytes.extend_from_slice(b"begin");
    let connection = server.open(&bytes).await;
    let answer = read(connection, false).await;
    assert_eq!((answer.status, answer.text()), (200, "begin"));
    assert_eq!(server.store.calls(Verb::Claim), 0);
}

/// S16
#[tokio::test]
async fn semels_own_headers_are_stripped_both_ways() {
    let server = Setup::new([payments()])
        .serve(|ledger, request: Request<Body>| async move {
            ledger.write();
            let own = |name: &&str| name.starts_with("semel-") || *name == "idempotent-replayed";
            let seen: Vec<_> =
                request.headers().keys().map(|name| name.as_str()).filter(own).collect();
            let seen = seen.join(",");
            ([("semel-permit", "p"), ("semel-other", "o"), ("idempotent-replayed", "true")], seen)
        })
        .await;
    for target in ["/payments", "/other"] {
        let hit = pay().target(target).header("semel-permit", "x").header("Semel-Hit", "1");
        let answer = server.send(&hit.header("idempotent-replayed", "true")).await;
        assert_eq!((answer.status, answer.text()), (200, ""));
        assert!(answer.headers.iter().all(|(name, _)| !name.starts_with("semel-")), "{answer:?}");
        assert_eq!(answer.header("idempotent-replayed"), None);
    }
    assert_eq!(server.ledger.rows(), 2);
}
