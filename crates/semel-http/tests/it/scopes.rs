//! Whose key, and for what.

use axum::{body::Body, response::IntoResponse};
use http::{HeaderName, Method, Request, Response, StatusCode, request::Parts};
use semel::{Engine, Tenant, store::memory::MemoryStore};
use semel_http::{
    BoxFuture, BuildError, Operations, SemelLayer,
    tenant::{api_key_header, from_extension, single_tenant},
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::support::{
    Ask, Setup, ask, created, ledger_server, operation, pay, payments, policy, post,
};

/// C37, C43
#[tokio::test]
async fn nobody_without_a_name_gets_into_anybodys_space() {
    let server = ledger_server([payments()]).await;
    let anonymous = pay().without("x-tenant");
    let answer = server.send(&anonymous).await;
    assert_eq!((answer.status, answer.code().as_str()), (401, "tenant-missing"));
    let twice = pay().header("x-tenant", "T2");
    assert_eq!(server.refused(&twice).await, (400, "tenant-malformed".to_owned()));
    assert_eq!(server.ledger.rows(), 0);
}

/// C43
#[tokio::test]
async fn a_layer_is_not_built_without_a_word_on_tenants_replays_and_durability() {
    let build = |durable| {
        let engine = Engine::builder(Arc::new(MemoryStore::new())).build();
        let policy = semel::Policy { durable, ..policy() };
        SemelLayer::builder(engine, Operations::new([payments().policy(policy)]).unwrap())
    };
    let no_tenant = build(false).replay_auth_none().build();
    assert!(matches!(no_tenant, Err(BuildError::NoTenant)));
    let no_auth = build(false).tenant(single_tenant()).build();
    assert!(matches!(no_auth, Err(BuildError::NoReplayAuth)));
    let volatile = build(true).tenant(single_tenant()).replay_auth_none().build();
    assert_eq!(volatile.map_err(|error| error.code()).err(), Some("policy-volatile"));
    assert!(build(false).tenant(single_tenant()).replay_auth_none().build().is_ok());
}

/// C41, C44, C52
#[tokio::test]
async fn two_tenants_with_one_key_and_body_run_twice_and_see_their_own() {
    let server = ledger_server([payments()]).await;
    let other = pay().set("x-tenant", "T2");
    let (a, b) = (server.send(&pay()).await, server.send(&other).await);
    assert_eq!((a.text(), b.text()), (r#"{"row":1}"#, r#"{"row":2}"#));
    server.send(&pay()).await.assert_replays(&a);
    server.send(&other).await.assert_replays(&b);
    assert_eq!(server.ledger.rows(), 2);
}

/// C37, C41
#[tokio::test]
async fn tenants_by_api_key_and_by_an_earlier_layer_are_apart() {
    let by_key = Setup::new([payments()])
        .layer(|layer| {
            layer.tenant(api_key_header(HeaderName::from_static("x-api-key"))).replay_auth_none()
        })
        .serve(|ledger, _| async move { created(ledger.write()) })
        .await;
    for (key, row) in [("one", 1), ("two", 2), ("one", 1)] {
        let answer = by_key.send(&pay().header("x-api-key", key)).await;
        assert_eq!(answer.text(), format!("{{\"row\":{row}}}"));
    }
    assert_eq!(by_key.refused(&pay()).await, (401, "tenant-missing".to_owned()));

    let by_extension = Setup::new([payments()])
        .layer(|layer| {
            layer.tenant(from_extension(|tenant: &Tenant| Ok(tenant.clone()))).replay_auth_none()
        })
        .serve(|ledger, _| async move { created(ledger.write()) })
        .await;
    assert_eq!(by_extension.refused(&pay()).await, (401, "tenant-missing".to_owned()));
}

/// C38, C40
#[tokio::test]
async fn one_key_on_two_operations_is_two_intents() {
    let applications = operation("applications.create").on(Method::POST, "/applications");
    let server = ledger_server([payments(), applications]).await;
    let first = server.send(&pay()).await;
    let second = server.send(&pay().target("/applications")).await;
    assert_eq!((first.text(), second.text()), (r#"{"row":1}"#, r#"{"row":2}"#));
    assert_eq!(server.ledger.rows(), 2);
}

/// C38
#[tokio::test]
async fn a_request_that_was_not_valid_is_not_kept() {
    let server = Setup::new([payments()])
        .serve(|ledger, _| async move {
            match ledger.write() {
                1 => StatusCode::BAD_REQUEST.into_response(),
                row => created(row).into_response(),
            }
        })
        .await;
    assert_eq!(server.send(&pay()).await.status, 400);
    assert_eq!(server.send(&pay().json("{\"amount\":1}")).await.status, 201);
}

fn feedback(context: u8) -> Ask {
    post(&format!("/contexts/{context}/feedback")).key("K1").json("{}")
}

/// C46
#[tokio::test]
async fn one_key_on_two_paths_is_a_mismatch_or_two_intents() {
    let template = || operation("feedback").on(Method::POST, "/contexts/{id}/feedback");
    let server = ledger_server([template()]).await;
    assert_eq!(server.send(&feedback(1)).await.status, 201);
    assert_eq!(server.refused(&feedback(2)).await, (422, "mismatch".to_owned()));
    assert_eq!(server.ledger.rows(), 1);

    let server = ledger_server([template().scope_path(true)]).await;
    let first = server.send(&feedback(1)).await;
    let second = server.send(&feedback(2)).await;
    server.send(&feedback(1)).await.assert_replays(&first);
    server.send(&feedback(2)).await.assert_replays(&second);
    // Another spelling of the path is not another intent.
    let spelled = feedback(1).target("/contexts/%31/feedback");
    assert_eq!(server.refused(&spelled).await, (422, "mismatch".to_owned()));
    assert_eq!(server.ledger.rows(), 2);
}

/// Lets everybody see what is kept until the grant is revoked.
#[derive(Clone, Debug, Default)]
struct Grant(Arc<AtomicBool>);

impl semel_http::Authorize for Grant {
    fn authorize<'a>(&'a self, _: &'a Parts) -> BoxFuture<'a, Result<(), Response<Body>>> {
        let revoked = self.0.load(Ordering::SeqCst);
        Box::pin(async move {
            match revoked {
                true => Err((StatusCode::FORBIDDEN, "no").into_response()),
                false => Ok(()),
            }
        })
    }
}

/// L13
#[tokio::test]
async fn whoever_lost_the_right_gets_neither_replay_nor_refusal_nor_status() {
    let grant = Grant::default();
    let asked = grant.clone();
    let server = Setup::new([payments()])
        .layer(move |layer| layer.authorize(asked))
        .serve(|ledger, _: Request<Body>| async move { created(ledger.write()) })
        .await;
    let first = server.send(&pay()).await;
    server.send(&pay()).await.assert_replays(&first);
    grant.0.store(true, Ordering::SeqCst);
    let status = ask("GET", "/.semel/intents/payments.create/K1");
    for ask in [pay(), pay().json("{}"), status] {
        let denied = server.send(&ask).await;
        assert_eq!((denied.status, denied.text()), (403, "no"), "{ask:?}");
        assert!(!denied.replayed());
    }
    assert_eq!(server.ledger.rows(), 1);
}
