//! The state of an intent, for whoever may ask.

use std::sync::Arc;

use semel_http::Resource;
use semel_testkit::{Fault, Gate, Verb};

use crate::support::{Setup, ask, ledger_server, pay, payments};

const URL: &str = "/.semel/intents/payments.create/K1";

/// L24
#[tokio::test]
async fn an_intent_tells_its_state_its_times_and_what_to_do() {
    let gate = Gate::shut();
    let stop = Arc::clone(&gate);
    let server = Setup::new([payments()])
        .serve(move |ledger, _| {
            let stop = Arc::clone(&stop);
            async move {
                stop.pass().await;
                (Resource::new("payment", ledger.write().to_string()), "ok")
            }
        })
        .await;
    let absent = server.send(&ask("GET", URL)).await;
    assert_eq!((absent.status, absent.code().as_str()), (404, "not-recorded"));
    assert_eq!(absent.document()["retry"], "same-key");

    let first = server.sending(&pay().header("x-request-id", "r-1"));
    gate.arrived(1).await;
    let running = server.send(&ask("GET", URL)).await;
    assert!(running.is("cache-control", "no-store"));
    let document = running.document();
    assert_eq!((&document["state"], &document["retry"]), (&"running".into(), &"wait".into()));
    assert_eq!((&document["claimed_by"], &document["key"]), (&"r-1".into(), &"K1".into()));
    assert!(document["lease_left_ms"].as_u64().unwrap() <= 30_000);

    gate.open();
    first.await.unwrap();
    let document = server.send(&ask("GET", URL)).await.document();
    assert_eq!((&document["state"], &document["retry"]), (&"done".into(), &"same-key".into()));
    assert_eq!(document["outcome"], serde_json::json!({ "status": 200, "body_kept": true }));
    assert_eq!(document["pointer"], serde_json::json!({ "kind": "payment", "id": "1" }));
    assert!(document["replay_until"].as_str().unwrap().ends_with('Z'));
    assert_eq!(server.ledger.rows(), 1);
}

#[tokio::test]
async fn only_the_own_tenant_finds_it_and_only_by_get() {
    let server = ledger_server([payments()]).await;
    server.send(&pay()).await;
    let other = ask("GET", URL).set("x-tenant", "T2");
    assert_eq!(server.refused(&other).await, (404, "not-recorded".to_owned()));
    let nobody = ask("GET", URL).without("x-tenant");
    assert_eq!(server.refused(&nobody).await, (401, "tenant-missing".to_owned()));
    let post = server.send(&ask("DELETE", URL)).await;
    assert_eq!((post.status, post.header("allow")), (405, Some("GET, HEAD")));
    assert_eq!(server.send(&ask("HEAD", URL)).await.status, 200);
    for (target, status, code) in [
        ("/.semel/intents/none/K1", 404, "operation-unknown"),
        ("/.semel/intents/payments.create", 404, "operation-unknown"),
        ("/.semel/intents/payments.create/", 400, "key-malformed"),
        ("/.semel/intents/payments.create/K1?facet=x", 404, "not-recorded"),
    ] {
        assert_eq!(server.refused(&ask("GET", target)).await, (status, code.to_owned()));
    }
    server.store.next(Verb::Read, Fault::Fail(semel::StoreErrorKind::Damaged));
    assert_eq!(server.refused(&ask("GET", URL)).await, (503, "store-away".to_owned()));
}

#[tokio::test]
async fn a_layer_without_status_passes_the_path_on() {
    let server = Setup::new([payments()])
        .layer(|layer| layer.replay_auth_none().status_endpoint(false))
        .serve(|_, _| async { "mine" })
        .await;
    assert_eq!(server.send(&ask("GET", URL)).await.text(), "mine");
}
