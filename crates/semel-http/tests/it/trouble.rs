//! The store is away, slow, or loses what it is told.

use std::time::Duration;

use semel::{Policy, StoreErrorKind};
use semel_http::{Away, Code};
use semel_testkit::{Fault, Verb};

use crate::support::{ledger_server, pay, payments, policy};

/// C79, L26, S02
#[tokio::test]
async fn while_the_store_is_away_nothing_runs() {
    let server = ledger_server([payments()]).await;
    for kind in [
        StoreErrorKind::Damaged,
        StoreErrorKind::Full,
        StoreErrorKind::ReadOnly,
        StoreErrorKind::Version,
    ] {
        server.store.next(Verb::Claim, Fault::Fail(kind));
        let answer = server.send(&pay()).await;
        assert_eq!((answer.status, answer.code().as_str()), (503, "store-away"), "{kind:?}");
        assert!(answer.is("retry-after", "1"));
        assert_eq!(answer.document()["retry"], "same-key");
    }
    assert_eq!(server.ledger.rows(), 0);
    assert_eq!(server.layer.stats().problem(Code::StoreAway), 4);
    assert_eq!(server.send(&pay()).await.status, 201);
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_away_after_the_bound() {
    let claim_timeout = Duration::from_millis(30);
    let server = ledger_server([payments().policy(Policy { claim_timeout, ..policy() })]).await;
    server.store.always(Verb::Claim, Fault::HangCall);
    assert_eq!(server.refused(&pay()).await, (503, "store-away".to_owned()));
    server.store.heal();
    assert_eq!(server.send(&pay()).await.status, 201);
    assert_eq!(server.ledger.rows(), 1);
}

/// C79
#[tokio::test]
async fn an_open_operation_runs_without_protection_and_is_counted() {
    let server = ledger_server([payments().when_store_is_away(Away::Open)]).await;
    for row in 1..=2 {
        server.store.next(Verb::Claim, Fault::Fail(StoreErrorKind::Damaged));
        let answer = server.send(&pay()).await;
        assert_eq!((answer.status, answer.text()), (201, format!("{{\"row\":{row}}}").as_str()));
    }
    assert_eq!(server.layer.stats().unprotected, 2);
    let kept = server.send(&pay()).await;
    server.send(&pay()).await.assert_replays(&kept);
    assert_eq!(server.ledger.rows(), 3);
}

/// C79, C13
#[tokio::test]
async fn an_answer_that_cannot_be_stored_is_not_sent() {
    let store_for = Duration::from_millis(30);
    let server = ledger_server([payments().policy(Policy { store_for, ..policy() })]).await;
    server.store.always(Verb::Complete, Fault::LoseCall);
    let answer = server.send(&pay()).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "not-stored"));
    assert_eq!(answer.document()["retry"], "same-key");
    assert!(!answer.text().contains("row"));
    assert_eq!(server.ledger.rows(), 1);
    // The retry does not run it again: the lease still runs, or `on_lost` holds it.
    let again = server.send(&pay().header("prefer", "wait=0")).await;
    assert_eq!((again.status, again.code().as_str()), (409, "in-progress"));
    assert_eq!(server.ledger.rows(), 1);
}

/// C80
#[tokio::test]
async fn lost_acknowledgements_are_asked_again_and_change_nothing() {
    let server = ledger_server([payments()]).await;
    server.store.next(Verb::Claim, Fault::LoseAnswer);
    server.store.next(Verb::Complete, Fault::LoseAnswer);
    let first = server.send(&pay()).await;
    assert_eq!(first.status, 201);
    server.send(&pay()).await.assert_replays(&first);
    assert_eq!(server.ledger.rows(), 1);
}

/// C13
#[tokio::test]
async fn a_failure_whose_end_is_not_stored_still_tells_what_it_was() {
    let store_for = Duration::from_millis(30);
    let operation = payments().policy(Policy { store_for, ..policy() });
    let server = crate::support::Setup::new([operation])
        .serve(|ledger, _| async move {
            ledger.write();
            (http::StatusCode::UNPROCESSABLE_ENTITY, "no such currency")
        })
        .await;
    server.store.always(Verb::Release, Fault::LoseCall);
    let answer = server.send(&pay()).await;
    assert_eq!((answer.status, answer.text()), (422, "no such currency"));
}
