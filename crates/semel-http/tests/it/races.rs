//! Many callers, one effect.

use std::{sync::Arc, time::Duration};

use semel_testkit::Gate;

use crate::support::{BODY, Setup, created, ledger_server, operation, pay, payments, policy, post};

async fn race(callers: usize) {
    let server = ledger_server([payments()]).await;
    let sent: Vec<_> = (0..callers).map(|_| server.sending(&pay())).collect();
    let mut fresh = 0;
    for answer in sent {
        let answer = answer.await.unwrap();
        assert_eq!((answer.status, answer.text()), (201, r#"{"row":1}"#));
        fresh += usize::from(!answer.replayed());
    }
    assert_eq!((server.ledger.rows(), fresh), (1, 1));
}

/// C01
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_requests_at_one_instant_run_once_and_get_one_answer() {
    race(50).await;
}

/// C02
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_parallel_requests_leave_one_row() {
    race(20).await;
}

/// C07
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_callers_do_not_slip_between_look_up_and_claim() {
    race(100).await;
}

/// C04, C08, C11, S14
#[tokio::test]
async fn duplicates_that_arrive_while_the_first_runs_wait_for_its_answer() {
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
    let others: Vec<_> = (0..10).map(|_| server.sending(&pay())).collect();
    crate::support::until(|| server.engine.waiting() == 10).await;
    gate.open();
    let first = first.await.unwrap();
    for other in others {
        other.await.unwrap().assert_replays(&first);
    }
    assert_eq!(server.ledger.rows(), 1);
}

/// S14
#[tokio::test]
async fn a_handler_slower_than_the_wait_runs_once() {
    let gate = Gate::shut();
    let stop = Arc::clone(&gate);
    let wait = Duration::from_millis(20);
    let slow = payments().policy(semel::Policy { wait, ..policy() });
    let server = Setup::new([slow])
        .serve(move |ledger, _| {
            let stop = Arc::clone(&stop);
            async move {
                let row = ledger.write();
                stop.pass().await;
                created(row)
            }
        })
        .await;
    let first = server.sending(&pay());
    gate.arrived(1).await;
    assert_eq!(server.refused(&pay()).await, (409, "in-progress".to_owned()));
    gate.open();
    let first = first.await.unwrap();
    server.send(&pay()).await.assert_replays(&first);
    assert_eq!(server.ledger.rows(), 1);
}

/// S07, S08
#[tokio::test]
async fn other_keys_are_other_intents_whatever_they_carry() {
    let server =
        ledger_server([payments(), operation("ping").on(http::Method::POST, "/ping")]).await;
    assert_eq!(server.send(&pay()).await.text(), r#"{"row":1}"#);
    assert_eq!(server.send(&pay().set("idempotency-key", "K2")).await.text(), r#"{"row":2}"#);
    assert_eq!(server.send(&post("/payments").key("E1")).await.text(), r#"{"row":3}"#);
    assert_eq!(server.send(&post("/ping").key("E2")).await.text(), r#"{"row":4}"#);
    assert_eq!(server.ledger.rows(), 4);
    assert!(!BODY.is_empty());
}
