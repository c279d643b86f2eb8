//! Scripts of other origins.

use axum::body::Body;
use http::Request;
use semel_http::{SemelLayerBuilder, cors};

use crate::support::{Server, Setup, ask, pay, payments};

async fn exposing(on: bool) -> Server {
    Setup::new([payments()])
        .layer(move |layer: SemelLayerBuilder| layer.replay_auth_none().expose_headers(on))
        .serve(|ledger, _: Request<Body>| async move {
            ledger.write();
            [
                ("access-control-allow-origin", "https://shop.example"),
                ("access-control-expose-headers", "etag"),
            ]
        })
        .await
}

/// L17
#[tokio::test]
async fn a_script_can_read_the_mark_of_a_replay_and_of_a_problem() {
    let server = exposing(true).await;
    let scripted = pay().header("origin", "https://shop.example");
    let exposed = "idempotent-replayed, retry-after, location";
    for ask in [scripted.clone(), scripted.clone()] {
        let answer = server.send(&ask).await;
        let values: Vec<_> = answer.all("access-control-expose-headers").collect();
        assert_eq!(values, ["etag", exposed]);
        assert!(answer.is("access-control-allow-origin", "https://shop.example"));
    }
    let refused = server.send(&scripted.json("{}")).await;
    assert!(refused.is("access-control-expose-headers", exposed));
    let missing = pay().without("idempotency-key").header("origin", "https://shop.example");
    assert!(server.send(&missing).await.is("access-control-expose-headers", exposed));
    assert_eq!(server.send(&pay()).await.header("access-control-expose-headers"), Some("etag"));
    assert_eq!(server.ledger.rows(), 1);
    assert_eq!(cors::EXPOSE_HEADERS.join(", "), exposed);
}

#[tokio::test]
async fn nothing_is_exposed_unless_asked_for() {
    let server = exposing(false).await;
    let answer = server.send(&pay().header("origin", "https://shop.example")).await;
    assert_eq!(answer.all("access-control-expose-headers").collect::<Vec<_>>(), ["etag"]);
}

/// L17
#[tokio::test]
async fn a_preflight_passes_untouched() {
    let options = crate::support::operation("options").on(http::Method::OPTIONS, "/payments");
    let server = Setup::new([payments(), options])
        .serve(|_, request: Request<Body>| async move {
            request.headers()["access-control-request-headers"].to_str().unwrap().to_owned()
        })
        .await;
    let preflight = ask("OPTIONS", "/payments")
        .header("origin", "https://shop.example")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", cors::ALLOW_HEADERS.join(","));
    let answer = server.send(&preflight).await;
    assert_eq!((answer.status, answer.text()), (200, "idempotency-key"));
}
