//! The key a request carries.

use axum::body::Body;
use http::Request;
use semel_http::{KeyForm, KeyRule};
use semel_testkit::Verb;

use crate::support::{Ask, Setup, ledger_server, pay, payments, post};

#[tokio::test]
async fn a_missing_key_is_refused_and_the_caller_told_what_to_send() {
    let server = ledger_server([payments()]).await;
    let answer = server.send(&pay().without("idempotency-key")).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "key-missing"));
    let document = answer.document();
    assert_eq!(document["header"], "idempotency-key");
    assert_eq!(document["retry"], "correct-request");
    assert!(document["detail"].as_str().unwrap().contains("send the header idempotency-key"));
    assert_eq!((server.ledger.rows(), server.store.calls(Verb::Claim)), (0, 0));
}

/// L26
#[tokio::test]
async fn a_key_that_cannot_be_one_has_a_code_of_its_own_and_claims_nothing() {
    let server = ledger_server([payments().quality(true)]).await;
    let long = "k".repeat(256);
    let cases: [(Ask, &str, &str); 9] = [
        (pay().set("idempotency-key", ""), "key-empty", "new-key"),
        (pay().set("idempotency-key", "\"\""), "key-empty", "new-key"),
        (pay().set("idempotency-key", &long), "key-too-long", "new-key"),
        (pay().set("idempotency-key", "a b"), "key-character", "new-key"),
        (pay().set("idempotency-key", "ké"), "key-character", "new-key"),
        (pay().set("idempotency-key", "\"a"), "key-malformed", "correct-request"),
        (pay().set("idempotency-key", "\"a\";p=1"), "key-malformed", "correct-request"),
        (pay().key("K2"), "key-several", "correct-request"),
        (pay().set("idempotency-key", "4111111111111111"), "key-weak", "new-key"),
    ];
    for (ask, code, retry) in cases {
        let answer = server.send(&ask).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, code), "{ask:?}");
        assert_eq!(answer.document()["retry"], retry);
    }
    assert_eq!((server.ledger.rows(), server.store.calls(Verb::Claim)), (0, 0));
}

#[tokio::test]
async fn quoted_bare_and_repeated_spellings_of_one_key_are_one_intent() {
    let server = ledger_server([payments()]).await;
    let first = server.send(&pay().set("idempotency-key", "abc-1")).await;
    for ask in [
        pay().set("idempotency-key", "\"abc-1\""),
        pay().set("idempotency-key", "abc-1").key("\"abc-1\""),
    ] {
        server.send(&ask).await.assert_replays(&first);
    }
    assert_eq!(server.ledger.rows(), 1);
}

#[tokio::test]
async fn strict_operations_take_only_the_quoted_form() {
    let server = ledger_server([payments().key_form(KeyForm::Strict)]).await;
    assert_eq!(server.refused(&pay()).await, (400, "key-malformed".to_owned()));
    assert_eq!(server.send(&pay().set("idempotency-key", "\"K1\"")).await.status, 201);
    assert_eq!(server.ledger.rows(), 1);
}

#[tokio::test]
async fn an_operation_may_name_another_header_and_the_key_is_forwarded_unchanged() {
    let paypal = payments().header("paypal-request-id".parse().unwrap());
    let server = Setup::new([paypal])
        .serve(|ledger, request: Request<Body>| async move {
            ledger.write();
            request.headers()["paypal-request-id"].to_str().unwrap().to_owned()
        })
        .await;
    assert_eq!(server.refused(&pay()).await, (400, "key-missing".to_owned()));
    let first = server.send(&pay().header("PayPal-Request-Id", "\"a\\\"b\"")).await;
    assert_eq!(first.text(), "\"a\\\"b\"");
    server.send(&pay().header("PayPal-Request-Id", "a\"b")).await.assert_replays(&first);
}

#[tokio::test]
async fn a_key_protects_where_it_is_optional_too() {
    let server = ledger_server([payments().key(KeyRule::Optional)]).await;
    let first = server.send(&pay()).await;
    server.send(&pay()).await.assert_replays(&first);
    for _ in 0..2 {
        assert_eq!(server.send(&pay().without("idempotency-key")).await.status, 201);
    }
    assert_eq!(server.ledger.rows(), 3);
}

#[tokio::test]
async fn an_upgrade_is_refused_with_a_key() {
    let server = ledger_server([payments()]).await;
    let upgrade = pay().header("upgrade", "websocket");
    assert_eq!(server.refused(&upgrade).await, (400, "upgrade".to_owned()));
    assert_eq!(server.send(&post("/chat").header("upgrade", "websocket")).await.status, 201);
    assert_eq!(server.store.calls(Verb::Claim), 0);
}
