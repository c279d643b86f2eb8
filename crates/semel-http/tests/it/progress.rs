//! What a repeat meets while the first request runs.

use std::{sync::Arc, time::Duration};

use http::StatusCode;
use semel::decide::OnLost;
use semel_http::{InProgress, Operation};
use semel_testkit::{Gate, ManualClock};

use crate::support::{Server, Setup, ask, created, pay, payments, policy, until};

/// Serves a handler that writes its row and then stands at the gate.
async fn gated(operation: Operation, gate: &Arc<Gate>, clock: Option<&Arc<ManualClock>>) -> Server {
    let stop = Arc::clone(gate);
    let mut setup = Setup::new([operation]);
    if let Some(clock) = clock {
        setup = setup.clock(clock);
    }
    setup
        .serve(move |ledger, _| {
            let stop = Arc::clone(&stop);
            async move {
                let row = ledger.write();
                stop.pass().await;
                created(row)
            }
        })
        .await
}

/// C16, C20
#[tokio::test]
async fn a_conflict_says_when_to_ask_again_and_who_runs() {
    let gate = Gate::shut();
    let server = gated(payments().in_progress(InProgress::Conflict), &gate, None).await;
    let first = server.sending(&pay().header("x-request-id", "r-1"));
    gate.arrived(1).await;
    let refused = server.send(&pay().header("x-request-id", "r-2")).await;
    assert_eq!((refused.status, refused.code().as_str()), (409, "in-progress"));
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=5).contains(&wait));
    let document = refused.document();
    assert_eq!((&document["retry"], &document["claimed_by"]), (&"wait".into(), &"r-1".into()));
    assert_eq!(document["status_url"], "/.semel/intents/payments.create/K1");
    gate.open();
    let first = first.await.unwrap();
    server.send(&pay()).await.assert_replays(&first);
}

/// L26
#[tokio::test]
async fn other_content_is_a_mismatch_also_while_the_first_runs() {
    let gate = Gate::shut();
    let server = gated(payments(), &gate, None).await;
    let first = server.sending(&pay());
    gate.arrived(1).await;
    assert_eq!(server.refused(&pay().json("{}")).await, (422, "mismatch".to_owned()));
    gate.open();
    assert_eq!(first.await.unwrap().status, 201);
}

#[tokio::test]
async fn an_accepted_repeat_is_told_where_to_ask() {
    let gate = Gate::shut();
    let server =
        gated(payments().in_progress(InProgress::Accepted).scope_path(true), &gate, None).await;
    let first = server.sending(&pay());
    gate.arrived(1).await;
    let accepted = server.send(&pay()).await;
    assert_eq!(accepted.status, 202);
    assert!(accepted.is("content-type", "application/json"));
    assert!(accepted.header("retry-after").is_some());
    let url = accepted.header("location").unwrap().to_owned();
    assert_eq!(server.send(&ask("GET", &url)).await.document()["state"], "running");
    gate.open();
    assert_eq!(first.await.unwrap().status, 201);
    assert_eq!(server.send(&ask("GET", &url)).await.document()["state"], "done");
    assert_eq!(server.send(&pay()).await.status, 201);
}

#[tokio::test]
async fn a_caller_may_prefer_not_to_wait_or_to_wait() {
    let gate = Gate::shut();
    let server = gated(payments(), &gate, None).await;
    let first = server.sending(&pay());
    gate.arrived(1).await;
    assert_eq!(server.send(&pay().header("prefer", "respond-async")).await.status, 202);
    assert_eq!(server.send(&pay().header("prefer", "wait=0")).await.status, 409);
    gate.open();
    first.await.unwrap();

    let gate = Gate::shut();
    let server = gated(payments().in_progress(InProgress::Conflict), &gate, None).await;
    let first = server.sending(&pay());
    gate.arrived(1).await;
    let patient = server.sending(&pay().header("prefer", "wait=10"));
    until(|| server.engine.waiting() == 1).await;
    gate.open();
    let first = first.await.unwrap();
    patient.await.unwrap().assert_replays(&first);
}

/// C29
#[tokio::test]
async fn a_refused_duplicate_touches_neither_a_running_nor_a_finished_record() {
    let gate = Gate::shut();
    let server = gated(payments().in_progress(InProgress::Conflict), &gate, None).await;
    let first = server.sending(&pay());
    gate.arrived(1).await;
    for _ in 0..2 {
        assert_eq!(server.send(&pay()).await.status, 409);
    }
    assert_eq!(server.send(&pay().json("{}")).await.status, 422);
    gate.open();
    let first = first.await.unwrap();
    assert_eq!(server.send(&pay().json("{}")).await.status, 422);
    server.send(&pay()).await.assert_replays(&first);
    assert_eq!(server.ledger.rows(), 1);
}

/// Loses the holder of K1: its renewals hang, and its lease ends.
async fn lost_holder(
    on_lost: OnLost,
) -> (Server, Arc<Gate>, tokio::task::JoinHandle<crate::support::Answer>) {
    let (gate, clock) = (Gate::shut(), ManualClock::new());
    let lease = Duration::from_secs(5);
    let operation = payments().in_progress(InProgress::Conflict).policy(semel::Policy {
        lease,
        on_lost,
        ..policy()
    });
    let server = gated(operation, &gate, Some(&clock)).await;
    let first = server.sending(&pay());
    gate.arrived(1).await;
    server.store.always(semel_testkit::Verb::Renew, semel_testkit::Fault::HangCall);
    assert_eq!(server.refused(&pay()).await, (409, "in-progress".to_owned()));
    clock.advance(lease);
    (server, gate, first)
}

/// C13, C16, C25
#[tokio::test]
async fn after_the_lease_a_held_intent_is_unknown_and_the_late_holder_ends_that() {
    let (server, gate, first) = lost_holder(OnLost::Hold).await;
    for _ in 0..2 {
        let refused = server.send(&pay()).await;
        assert_eq!((refused.status, refused.code().as_str()), (409, "unknown"));
        assert_eq!(refused.header("retry-after"), None);
    }
    gate.open();
    let first = first.await.unwrap();
    assert_eq!(first.status, 201);
    server.send(&pay()).await.assert_replays(&first);
    assert_eq!(server.ledger.rows(), 1);
}

#[tokio::test]
async fn an_overtaken_run_is_not_answered_as_a_success() {
    let (server, gate, first) = lost_holder(OnLost::Rerun).await;
    let second = server.sending(&pay());
    gate.arrived(2).await;
    assert_eq!(server.ledger.rows(), 2);
    gate.open();
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    assert_eq!((first.status, first.code().as_str()), (409, "stale-permit"));
    assert_eq!(first.document()["retry"], "same-key");
    assert_eq!((second.status, second.text()), (201, r#"{"row":2}"#));
    server.send(&pay()).await.assert_replays(&second);
    assert_eq!(server.engine.stats().conflicts, 1);
    assert_eq!(second.status, StatusCode::CREATED.as_u16());
}
