//! The same promises on a file that survives.

use std::path::Path;

use axum::body::Body;
use http::{Method, Request, StatusCode};
use semel_http::{Operation, Resource};
use semel_sqlite::SqliteStore;

use crate::support::{Server, Setup, ask, pay};

/// Serves a durable operation on a store in `dir`.
async fn serving(dir: &Path) -> Server {
    let operation = Operation::new("payments.create").unwrap().on(Method::POST, "/payments");
    let store = SqliteStore::builder(dir.join("semel.db")).open().unwrap();
    let mut setup = Setup::new([operation]);
    setup.store = std::sync::Arc::new(store);
    setup
        .serve(|ledger, _: Request<Body>| async move {
            let row = ledger.write().to_string();
            let headers = [("location", "/payments/1"), ("link", "<a>"), ("x-request-id", "r")];
            let bytes: Vec<u8> = (0..=255).collect();
            (StatusCode::CREATED, Resource::new("payment", row), headers, bytes)
        })
        .await
}

/// C01, C10, C73
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_on_one_file_run_once_and_everybody_gets_the_answer() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (serving(dir.path()).await, serving(dir.path()).await);
    let sent: Vec<_> = (0..25).flat_map(|_| [one.sending(&pay()), two.sending(&pay())]).collect();
    let mut fresh = 0;
    for answer in sent {
        let answer = answer.await.unwrap();
        assert_eq!((answer.status, answer.body.len()), (201, 256));
        assert!(answer.is("location", "/payments/1"));
        fresh += usize::from(!answer.replayed());
    }
    assert_eq!((one.ledger.rows() + two.ledger.rows(), fresh), (1, 1));
}

/// C73
#[tokio::test]
async fn an_answer_outlives_its_process_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let before = serving(dir.path()).await;
    let first = before.send(&pay()).await;
    assert!(before.engine.close(crate::support::DEADLINE).await);
    drop(before);
    let after = serving(dir.path()).await;
    let again = after.send(&pay()).await;
    assert!(again.replayed());
    assert_eq!((again.status, &again.body), (first.status, &first.body));
    for name in ["location", "link", "content-type", "content-length"] {
        assert_eq!(again.header(name), first.header(name), "{name}");
    }
    assert_eq!(again.header("x-request-id"), None);
    let status = after.send(&ask("GET", "/.semel/intents/payments.create/K1")).await.document();
    assert_eq!((&status["state"], &status["pointer"]["id"]), (&"done".into(), &"1".into()));
    assert_eq!(after.refused(&pay().json("{}")).await, (422, "mismatch".to_owned()));
    assert_eq!(after.ledger.rows(), 0);
}
