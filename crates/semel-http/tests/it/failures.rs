//! What a failure means for the next try.

use std::{sync::Arc, time::Duration};

use axum::{body::Body, response::IntoResponse};
use http::{Request, Response, StatusCode};
use semel::decide::OnLost;
use semel_http::{Effect, Keep, Operation, Resource, ServerError};
use semel_testkit::Gate;

use crate::support::{Server, Setup, created, pay, payments, policy, until};

/// Serves a handler that counts its runs, answers `status` at first, and then 201.
async fn failing(operation: Operation, status: u16, effect: Option<Effect>) -> Server {
    Setup::new([operation])
        .serve(move |ledger, _| async move {
            let run = ledger.write();
            let status = if run == 1 { status } else { 201 };
            let status = StatusCode::from_u16(status).unwrap();
            let mut response = (status, format!("run {run}")).into_response();
            if let Some(effect) = effect.filter(|_| run == 1) {
                response.extensions_mut().insert(effect);
            }
            response
        })
        .await
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    Replays,
    Runs,
    Unknown,
}

async fn check(operation: Operation, status: u16, effect: Option<Effect>, next: Next) {
    let server = failing(operation, status, effect).await;
    let first = server.send(&pay()).await;
    assert_eq!((first.status, first.text()), (status, "run 1"), "the answer itself passes");
    let again = server.send(&pay()).await;
    let runs = match next {
        Next::Replays => {
            again.assert_replays(&first);
            1
        }
        Next::Runs => {
            assert_eq!((again.status, again.text()), (201, "run 2"), "{status} {effect:?}");
            assert!(!again.replayed());
            2
        }
        Next::Unknown => {
            assert_eq!((again.status, again.code().as_str()), (409, "unknown"), "{status}");
            assert_eq!(again.document()["retry"], "same-key");
            1
        }
    };
    assert_eq!(server.ledger.rows(), runs);
}

/// C65, C67, C68, C25
#[tokio::test]
async fn every_status_follows_the_table() {
    for (status, next) in [
        (400, Next::Runs),
        (401, Next::Runs),
        (402, Next::Replays),
        (404, Next::Runs),
        (408, Next::Unknown),
        (409, Next::Replays),
        (422, Next::Runs),
        (429, Next::Runs),
        (499, Next::Unknown),
        (500, Next::Unknown),
        (501, Next::Runs),
        (502, Next::Unknown),
        (503, Next::Unknown),
        (504, Next::Unknown),
    ] {
        check(payments(), status, None, next).await;
    }
}

/// C68
#[tokio::test]
async fn out_of_stock_is_replayed_and_is_not_in_progress() {
    let server = failing(payments(), 409, None).await;
    let first = server.send(&pay()).await;
    let again = server.send(&pay()).await;
    again.assert_replays(&first);
    assert_eq!((again.text(), again.header("retry-after")), ("run 1", None));
}

/// C65
#[tokio::test]
async fn a_server_error_is_run_again_where_the_handler_rolls_back() {
    for status in [500, 502, 503] {
        check(payments().server_error(ServerError::Retry), status, None, Next::Runs).await;
    }
    check(payments().server_error(ServerError::Retry), 499, None, Next::Unknown).await;
}

/// C14, C65
#[tokio::test]
async fn what_the_handler_says_of_its_effect_wins() {
    check(payments(), 503, Some(Effect::None), Next::Runs).await;
    check(payments(), 503, Some(Effect::Final), Next::Replays).await;
    check(payments(), 400, Some(Effect::Final), Next::Replays).await;
    check(payments(), 400, Some(Effect::Unknown), Next::Unknown).await;
    check(payments(), 202, Some(Effect::Unknown), Next::Unknown).await;
    check(payments(), 202, Some(Effect::None), Next::Runs).await;
}

#[tokio::test]
async fn only_successes_are_kept_where_the_operation_says_so() {
    check(payments().keep(Keep::SuccessOnly), 402, None, Next::Runs).await;
    check(payments().keep(Keep::SuccessOnly), 303, None, Next::Replays).await;
    check(payments().keep(Keep::SuccessOnly), 500, None, Next::Unknown).await;
}

#[tokio::test]
async fn a_lost_run_is_run_again_where_every_step_carries_a_key() {
    let rerun = semel::Policy { on_lost: OnLost::Rerun, ..policy() };
    check(payments().policy(rerun), 500, None, Next::Runs).await;
}

async fn by_header(operation: Operation, layer: bool, word: &'static str) -> u16 {
    let server = Setup::new([operation])
        .layer(move |builder| builder.replay_auth_none().trust_effect_header(layer))
        .serve(move |ledger, _| async move {
            ledger.write();
            (StatusCode::BAD_GATEWAY, [("semel-effect", word)])
        })
        .await;
    let first = server.send(&pay()).await;
    assert_eq!((first.status, first.header("semel-effect")), (502, None));
    server.send(&pay()).await.status
}

#[tokio::test]
async fn the_effect_header_is_believed_only_where_it_is_trusted() {
    let untrusted = || payments().trust_effect_header(false);
    // 502 again is a run or a replay; 409 is unknown.
    assert_eq!(by_header(payments(), true, "none").await, 502);
    assert_eq!(by_header(payments(), true, "final").await, 502);
    assert_eq!(by_header(payments(), true, "nonsense").await, 409);
    assert_eq!(by_header(untrusted(), true, "none").await, 409);
    assert_eq!(by_header(payments(), false, "none").await, 409);
}

async fn panicking(operation: Operation) -> (Server, String) {
    let server = Setup::new([operation])
        .serve(|ledger, _| async move {
            assert!(ledger.write() != 1, "the handler panics in its first run");
            created(ledger.rows())
        })
        .await;
    let (status, code) = server.refused(&pay()).await;
    assert_eq!(status, 500);
    (server, code)
}

/// C13, C14
#[tokio::test]
async fn a_panic_may_have_acted_and_leaves_nothing_in_progress() {
    let (server, code) = panicking(payments()).await;
    assert_eq!(code, "handler-panicked");
    assert_eq!(server.refused(&pay()).await, (409, "unknown".to_owned()));
    assert_eq!(server.ledger.rows(), 1);

    let (server, _) = panicking(payments().server_error(ServerError::Retry)).await;
    assert_eq!(server.send(&pay()).await.status, 201);
    assert_eq!(server.ledger.rows(), 2);
}

/// C13, C16
#[tokio::test]
async fn a_client_that_hangs_up_cancels_nothing() {
    let gate = Gate::shut();
    let stop = Arc::clone(&gate);
    let server = Setup::new([payments()])
        .serve(move |ledger, _: Request<Body>| {
            let stop = Arc::clone(&stop);
            async move {
                stop.pass().await;
                created(ledger.write())
            }
        })
        .await;
    server.hang_up_at(&gate, &pay()).await;
    gate.open();
    until(|| server.ledger.rows() == 1).await;
    let again = server.send(&pay()).await;
    assert_eq!((again.status, again.text()), (201, r#"{"row":1}"#));
    assert!(again.replayed());
    assert_eq!(server.ledger.rows(), 1);
}

#[tokio::test]
async fn a_caller_that_hangs_up_while_it_waits_leaves_the_holder_alone() {
    let gate = Gate::shut();
    let stop = Arc::clone(&gate);
    let server = Setup::new([payments()])
        .serve(move |ledger, _| {
            let stop = Arc::clone(&stop);
            async move {
                stop.pass().await;
                created(ledger.write())
            }
        })
        .await;
    let first = server.sending(&pay());
    gate.arrived(1).await;
    let waiter = server.sending(&pay());
    until(|| server.engine.waiting() == 1).await;
    waiter.abort();
    until(|| server.engine.waiting() == 0).await;
    gate.open();
    assert_eq!(first.await.unwrap().status, 201);
    assert_eq!(server.ledger.rows(), 1);
}

#[tokio::test]
async fn a_run_that_was_begun_ends_before_the_layer_is_drained() {
    let gate = Gate::shut();
    let stop = Arc::clone(&gate);
    let server = Setup::new([payments()])
        .serve(move |ledger, _| {
            let stop = Arc::clone(&stop);
            async move {
                stop.pass().await;
                created(ledger.write())
            }
        })
        .await;
    server.hang_up_at(&gate, &pay()).await;
    let layer = server.layer.clone();
    let drained = tokio::spawn(async move { layer.drain().await });
    gate.open();
    drained.await.unwrap();
    assert_eq!((server.ledger.rows(), server.engine.holding()), (1, 0));
    assert!(server.engine.close(Duration::from_secs(5)).await);
    assert_eq!(server.refused(&pay()).await, (503, "closed".to_owned()));
}

/// S22
#[tokio::test]
async fn a_lost_reply_of_a_deduction_is_replayed_and_not_judged_by_the_new_balance() {
    let balance = Arc::new(std::sync::Mutex::new(100));
    let left = Arc::clone(&balance);
    let gate = Gate::shut();
    let stop = Arc::clone(&gate);
    let server = Setup::new([payments()])
        .serve(move |ledger, _| {
            let (balance, stop) = (Arc::clone(&balance), Arc::clone(&stop));
            async move {
                let answer: Response<Body> = {
                    let mut balance = balance.lock().unwrap();
                    match *balance >= 80 {
                        true => {
                            *balance -= 80;
                            ledger.write();
                            (Resource::new("deduction", "1"), "deducted").into_response()
                        }
                        false => (StatusCode::PAYMENT_REQUIRED, "too little").into_response(),
                    }
                };
                stop.pass().await;
                answer
            }
        })
        .await;
    server.hang_up_at(&gate, &pay()).await;
    gate.open();
    let again = server.send(&pay()).await;
    assert_eq!((again.status, again.text()), (200, "deducted"));
    assert_eq!((server.ledger.rows(), *left.lock().unwrap()), (1, 20));
}
