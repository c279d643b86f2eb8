//! Operations whose application ends the run by itself: the record decides, and not the answer.

use std::{sync::Arc, time::Duration};

use axum::{body::Body, response::IntoResponse};
use http::{Method, Request, Response, StatusCode};
use semel::{
    Engine, Held, Outcome, Permit, Store,
    decide::{Finish, FinishKind, OnLost, ReleaseAsk},
    store::memory::MemoryStore,
};
use semel_http::{
    Away, Bridged, BuildError, Effect, Operation, Operations, RouteError, SemelLayer,
    tenant::single_tenant,
};
use semel_testkit::{Gate, HeldBridge};

use crate::support::{Answer, Ledger, Server, Setup, pay, payments, policy, until};

/// What the application does in its transaction.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Deed {
    Completes,
    CompletesWithoutBody,
    Fails,
    GivesBack,
    RollsBack,
}

/// The application behind the layer, which shares its store.
#[derive(Clone)]
struct Application {
    memory: Arc<MemoryStore>,
    bridge: Arc<HeldBridge>,
}

impl Application {
    fn new() -> Self {
        let memory = Arc::new(MemoryStore::new());
        Self { bridge: HeldBridge::over(memory.clone()), memory }
    }

    fn setup(&self, operation: Operation) -> Setup {
        let mut setup = Setup::new([operation.bridged(true)]);
        setup.store = self.memory.clone();
        setup.bridge = Some(self.bridge.clone());
        setup
    }

    async fn does(&self, permit: &Permit, deed: Deed, ledger: &Ledger) {
        let kind = match deed {
            Deed::RollsBack => return,
            Deed::GivesBack => {
                let ask = ReleaseAsk {
                    token: permit.token,
                    fence: Some(permit.fence),
                    compare: false,
                    reason: None,
                    remember_for: Duration::from_secs(60),
                };
                self.memory.release(permit.id.clone(), ask).await.unwrap();
                return;
            }
            Deed::Fails => FinishKind::Failed,
            Deed::Completes | Deed::CompletesWithoutBody => FinishKind::Done,
        };
        let row = ledger.write();
        let outcome = match deed {
            Deed::CompletesWithoutBody => Outcome::without_body(201).pointer("payment", "7"),
            Deed::Fails => Outcome::new(402, "no money").header("content-type", "text/plain"),
            _ => Outcome::new(201, format!("row {row}")).header("content-type", "text/plain"),
        };
        let span = Duration::from_secs(3_600);
        let finish = Finish {
            kind,
            outcome: Some(outcome),
            reason: None,
            replay_for: span,
            remember_for: span,
        };
        self.memory.complete(permit.clone(), finish).await.unwrap();
    }

    /// Serves an application that does a deed and then answers.
    async fn serve(
        &self,
        operation: Operation,
        deed: Deed,
        status: u16,
        effect: Option<Effect>,
    ) -> Server {
        let (application, setup) = (self.clone(), self.setup(operation));
        setup
            .serve(move |ledger, request| {
                let application = application.clone();
                async move {
                    let permit = permit(&request);
                    application.does(&permit, deed, &ledger).await;
                    let status = StatusCode::from_u16(status).unwrap();
                    let mut response = (status, "its own answer").into_response();
                    response.extensions_mut().extend(effect.map(with).unwrap_or_default());
                    response.headers_mut().insert("semel-permit", "leaked".parse().unwrap());
                    response
                }
            })
            .await
    }
}

fn with(effect: Effect) -> http::Extensions {
    let mut extensions = http::Extensions::new();
    extensions.insert(effect);
    extensions
}

fn permit(request: &Request<Body>) -> Permit {
    assert_eq!(request.extensions().get::<Bridged>(), Some(&Bridged));
    request.extensions().get::<Held>().unwrap().permit().clone()
}

fn rerun() -> Operation {
    payments().policy(semel::Policy { on_lost: OnLost::Rerun, ..policy() })
}

async fn check(deed: Deed, status: u16, effect: Option<Effect>) -> (Answer, Answer, Server) {
    let server = Application::new().serve(rerun(), deed, status, effect).await;
    let first = server.send(&pay()).await;
    let again = server.send(&pay()).await;
    assert_eq!(first.header("semel-permit"), None);
    (first, again, server)
}

/// What the application stored is what is sent, also for a failure that it answered after its commit,
/// and the replay is equal to it.
#[tokio::test]
async fn what_the_application_stored_is_sent_whatever_it_answered() {
    for status in [200, 201, 302, 400, 404, 409, 429, 500, 502, 503] {
        let (first, again, server) = check(Deed::Completes, status, None).await;
        assert_eq!((first.status, first.text()), (201, "row 1"), "{status}");
        again.assert_replays(&first);
        assert_eq!(server.ledger.rows(), 1);
    }
}

/// A failure that the application stored is sent and replayed as it was stored.
#[tokio::test]
async fn a_failure_that_the_application_stored_is_kept() {
    let (first, again, _) = check(Deed::Fails, 500, None).await;
    assert_eq!((first.status, first.text()), (402, "no money"));
    again.assert_replays(&first);
}

/// What was not completed was rolled back: the failure passes, and the next try runs.
#[tokio::test]
async fn a_failure_without_completion_is_given_back() {
    for status in [400, 402, 404, 409, 418, 429, 500, 502, 504, 599] {
        let (first, again, server) = check(Deed::RollsBack, status, None).await;
        assert_eq!((first.status, first.text()), (status, "its own answer"));
        assert_eq!((again.status, again.text()), (status, "its own answer"));
        assert!(!again.replayed());
        assert_eq!(server.engine.stats().fresh, 2, "{status}");
    }
}

/// A success without a completion is not sent, and never run again by guess.
#[tokio::test]
async fn a_success_without_completion_is_unknown() {
    for status in [200, 201, 204, 302] {
        let (first, again, server) = check(Deed::RollsBack, status, None).await;
        assert_eq!((first.status, first.code().as_str()), (502, "not-completed"), "{status}");
        assert_eq!((again.status, again.code().as_str()), (409, "unknown"));
        assert_eq!((server.engine.stats().fresh, server.engine.stats().breaches), (1, 1));
    }
    let (first, ..) = check(Deed::GivesBack, 201, None).await;
    assert_eq!(first.code(), "not-completed");
}

/// An application that says more than its status is believed as far as the contract goes.
#[tokio::test]
async fn what_the_application_says_of_its_effect_counts() {
    let (first, again, server) = check(Deed::RollsBack, 200, Some(Effect::None)).await;
    assert_eq!((first.status, again.status), (200, 200));
    assert_eq!(server.engine.stats().fresh, 2, "nothing happened, so the next one runs");

    let (first, again, _) = check(Deed::RollsBack, 402, Some(Effect::Final)).await;
    assert_eq!(first.text(), "its own answer");
    again.assert_replays(&first);

    let server =
        Application::new().serve(payments(), Deed::RollsBack, 500, Some(Effect::Unknown)).await;
    assert_eq!(server.send(&pay()).await.status, 500);
    assert_eq!(server.refused(&pay()).await, (409, "unknown".into()));
}

/// Where the application kept no body its own answer is the only one there is, and a retry is told
/// where to look.
#[tokio::test]
async fn an_answer_without_a_kept_body_is_sent_once() {
    let (first, again, _) = check(Deed::CompletesWithoutBody, 201, None).await;
    assert_eq!((first.status, first.text()), (201, "its own answer"));
    assert_eq!(again.code(), "outcome-not-kept");
    assert_eq!(again.document()["pointer"]["id"], "7");
    let (first, ..) = check(Deed::CompletesWithoutBody, 500, None).await;
    assert_eq!(first.code(), "outcome-not-kept");
}

/// What an application stores beside its answer cannot change what the message itself says.
#[tokio::test]
async fn a_stored_header_of_one_message_is_not_sent() {
    let on = Application::new();
    let memory = on.memory.clone();
    let server = on
        .setup(rerun())
        .serve(move |_, request| {
            let memory = memory.clone();
            async move {
                let outcome = [
                    ("content-length", "3"),
                    ("transfer-encoding", "chunked"),
                    ("connection", "close, etag"),
                    ("date", "then"),
                    ("idempotent-replayed", "true"),
                    ("semel-permit", "leaked"),
                    ("etag", "\"7\""),
                ]
                .into_iter()
                .fold(Outcome::new(201, "whole body"), |o, (name, value)| o.header(name, value));
                let span = Duration::from_secs(60);
                let finish = Finish {
                    kind: FinishKind::Done,
                    outcome: Some(outcome),
                    reason: None,
                    replay_for: span,
                    remember_for: span,
                };
                memory.complete(permit(&request), finish).await.unwrap();
                StatusCode::CREATED
            }
        })
        .await;
    let first = server.send(&pay()).await;
    assert_eq!((first.text(), first.broken), ("whole body", false));
    assert_eq!((first.header("semel-permit"), first.replayed()), (None, false));
    assert_eq!((first.header("etag"), first.header("transfer-encoding")), (Some("\"7\""), None));
    assert_ne!(first.header("date"), Some("then"));
    server.send(&pay()).await.assert_replays(&first);
}

/// A handler that panics after its commit has done it, and one that panics before has not.
#[tokio::test]
async fn a_panic_after_the_commit_sends_what_was_stored() {
    for (deed, wanted) in [(Deed::Completes, 201), (Deed::RollsBack, 500)] {
        let on = Application::new();
        let application = on.clone();
        let server = on
            .setup(rerun())
            .serve(move |ledger, request| {
                let application = application.clone();
                async move {
                    application.does(&permit(&request), deed, &ledger).await;
                    panic!("after its transaction");
                    #[expect(unreachable_code, reason = "the handler has an answer by its type")]
                    Response::new(Body::empty())
                }
            })
            .await;
        assert_eq!(server.send(&pay()).await.status, wanted);
    }
}

/// While the application's transaction is open the answer waits, and its commit decides.
#[tokio::test]
async fn an_answer_waits_for_the_open_transaction() {
    let on = Application::new();
    on.bridge.hold(true);
    let server = on.serve(rerun(), Deed::Completes, 500, None).await;
    let answering = server.sending(&pay());
    on.bridge.looked(3).await;
    assert!(!answering.is_finished());
    on.bridge.hold(false);
    let answer = answering.await.unwrap();
    assert_eq!((answer.status, answer.text()), (201, "row 1"));
}

/// A transaction that stays open past the bound is a 503 under the same key, and nothing is decided.
#[tokio::test]
async fn a_transaction_that_stays_open_is_told_as_unknown_for_now() {
    let on = Application::new();
    on.bridge.hold(true);
    let span = Duration::from_millis(20);
    let operation = payments().policy(semel::Policy { store_for: span, ..policy() });
    let server = on.serve(operation, Deed::Completes, 500, None).await;
    let answer = server.send(&pay()).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "not-stored"));
    assert_eq!(answer.document()["retry"], "same-key");
    assert!(answer.header("retry-after").is_some());
    on.bridge.hold(false);
    let again = server.send(&pay()).await;
    assert!(again.replayed());
    assert_eq!(again.text(), "row 1");
}

/// A client that hangs up cancels nothing: the run is settled, and its retry gets what was stored.
#[tokio::test]
async fn a_client_that_hangs_up_leaves_a_settled_run() {
    let on = Application::new();
    let (application, gate) = (on.clone(), Gate::shut());
    let at = Arc::clone(&gate);
    let server = on
        .setup(rerun())
        .serve(move |ledger, request| {
            let (application, gate) = (application.clone(), Arc::clone(&at));
            async move {
                gate.pass().await;
                application.does(&permit(&request), Deed::Completes, &ledger).await;
                StatusCode::INTERNAL_SERVER_ERROR
            }
        })
        .await;
    server.hang_up_at(&gate, &pay()).await;
    gate.open();
    until(|| server.engine.holding() == 0).await;
    let again = server.send(&pay()).await;
    assert!(again.replayed());
    assert_eq!((again.text(), server.ledger.rows()), ("row 1", 1));
}

/// A client cannot bring a permit, and an answer cannot carry one out.
#[tokio::test]
async fn no_permit_comes_in_or_goes_out() {
    let on = Application::new();
    let server = on
        .setup(rerun())
        .serve(|_, request: Request<Body>| async move {
            let has = request.headers().contains_key("semel-permit");
            let mut response = (StatusCode::NOT_FOUND, has.to_string()).into_response();
            response.headers_mut().insert("semel-permit", "1.2.3".parse().unwrap());
            response
        })
        .await;
    for ask in [pay(), pay().target("/elsewhere")] {
        let answer = server.send(&ask.header("semel-permit", "forged")).await;
        assert_eq!((answer.text(), answer.header("semel-permit")), ("false", None));
    }
}

/// What cannot be bridged refuses to be built.
#[tokio::test]
async fn a_bridge_that_cannot_be_refuses_to_be_built() {
    let engine = Engine::builder(Arc::new(MemoryStore::new())).build();
    let operations = Operations::new([payments().bridged(true)]).unwrap();
    let layer = SemelLayer::builder(engine, operations).tenant(single_tenant()).replay_auth_none();
    let refused = layer.build().unwrap_err();
    assert_eq!(refused.code(), "no-bridge");
    assert!(matches!(refused, BuildError::NoBridge { .. }));

    let open = Operation::new("pay").unwrap().on(Method::POST, "/pay").bridged(true);
    let refused = Operations::new([open.when_store_is_away(Away::Open)]).unwrap_err();
    assert!(matches!(refused, RouteError::Setting { .. }), "{refused}");
}
