//! A look under the lock of a name, beside transactions of an application that completes by itself.

use semel::{
    IntentId, Key, Operation, Permit, Scope, State, Store, Tenant, Token,
    decide::{Ask, Compare, OnLost, ReleaseAsk},
    permit,
    store::{
        ClaimAnswer, ReleaseAnswer,
        capability::{Bridge, Looked},
    },
};
use semel_postgres::PostgresStore;
use semel_testkit::servers::Major;
use tokio_postgres::Client;

use crate::fixture::Fixture;

fn id(key: &str) -> IntentId {
    let scope = Scope::new(Tenant::new("acme").unwrap(), Operation::new("pay").unwrap());
    scope.intent(Key::new(key).unwrap())
}

/// Claims an intent as a gateway does.
async fn hold(store: &PostgresStore, key: &str) -> Permit {
    let now = store.read(Vec::new()).await.unwrap().now;
    let ask = Ask {
        id: id(key),
        token: Token::from_bytes([7; 16]),
        fingerprint: semel::Fingerprint::of_bytes(b"pay 10"),
        older: Vec::new(),
        not_after: now.after(std::time::Duration::from_secs(60)),
        lease: std::time::Duration::from_secs(30),
        on_lost: OnLost::Rerun,
        compare: Compare::Strict,
        claimed_by: None,
    };
    match store.claim(vec![ask]).await.unwrap().remove(0).answer {
        ClaimAnswer::Granted { permit, .. } => permit,
        other => panic!("it was to be granted: {other:?}"),
    }
}

/// Completes as an application does, in the transaction that is open on its connection.
async fn complete(on: &Fixture, client: &Client, held: &Permit) -> Result<(), String> {
    let text = on.sql("SELECT semel.complete($1, 'acme', 'pay', 201, '[]', 'paid')");
    let completed = client.query_one(&text, &[&permit::encode(held)]).await;
    completed
        .map(drop)
        .map_err(|error| error.code().map(|c| c.code().to_owned()).unwrap_or_default())
}

async fn state(store: &PostgresStore, key: &str) -> Option<State> {
    match store.look(id(key)).await.unwrap() {
        Looked::Busy => None,
        Looked::Seen { record, .. } => record.map(|record| record.state),
    }
}

/// A completion that is not committed is busy, without a wait; its commit or rollback decides.
#[tokio::test]
async fn a_completion_that_is_not_committed_is_busy() {
    for major in Major::ALL {
        for (end, then) in [("COMMIT", State::Done), ("ROLLBACK", State::Running)] {
            let on = Fixture::new(major).await;
            let (store, client) = (on.open().await, on.connect().await);
            let held = hold(&store, "k").await;
            client.batch_execute("BEGIN").await.unwrap();
            assert_eq!(state(&store, "k").await, Some(State::Running), "it has not asked yet");
            complete(&on, &client, &held).await.unwrap();
            assert_eq!(state(&store, "k").await, None, "nobody can say yet");
            assert_eq!(state(&store, "other").await, None, "there is no record of another");
            client.batch_execute(end).await.unwrap();
            assert_eq!(state(&store, "k").await, Some(then), "{end}");
        }
    }
}

/// What was given back after a look ends the permit: the application's completion raises, and so its
/// transaction cannot commit.
#[tokio::test]
async fn a_run_that_was_given_back_cannot_be_committed() {
    let on = Fixture::new(Major::V18).await;
    let (store, client) = (on.open().await, on.connect().await);
    let held = hold(&store, "k").await;
    client.batch_execute(&on.sql("CREATE TABLE semel.payment (n int)")).await.unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    client.batch_execute(&on.sql("INSERT INTO semel.payment VALUES (1)")).await.unwrap();
    assert_eq!(state(&store, "k").await, Some(State::Running));
    let ask = ReleaseAsk {
        token: held.token,
        fence: Some(held.fence),
        compare: false,
        reason: None,
        remember_for: std::time::Duration::from_secs(60),
    };
    let released = store.release(held.id.clone(), ask).await.unwrap();
    assert_eq!(released.answer, ReleaseAnswer::Stored);
    assert_eq!(complete(&on, &client, &held).await, Err("SM001".to_owned()));
    client.batch_execute("COMMIT").await.unwrap();
    let rows = client.query_one(&on.sql("SELECT count(*) FROM semel.payment"), &[]).await.unwrap();
    assert_eq!(rows.get::<_, i64>(0), 0, "the commit rolled back");
}

/// A release and a completion meet an application's open transaction as busy, and never wait for it.
#[tokio::test]
async fn a_release_beside_an_open_completion_does_not_wait() {
    let on = Fixture::new(Major::V18).await;
    let (store, client) = (on.open().await, on.connect().await);
    let held = hold(&store, "k").await;
    client.batch_execute("BEGIN").await.unwrap();
    complete(&on, &client, &held).await.unwrap();
    let ask = ReleaseAsk {
        token: held.token,
        fence: Some(held.fence),
        compare: false,
        reason: None,
        remember_for: std::time::Duration::from_secs(60),
    };
    let busy = store.release(held.id.clone(), ask).await.unwrap_err();
    assert_eq!(busy.kind(), semel::StoreErrorKind::Busy);
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(state(&store, "k").await, Some(State::Done));
}
