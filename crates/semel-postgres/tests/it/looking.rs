//! A look under the lock of a name, beside transactions of an application that completes by itself.

use semel::{
    IntentId, Key, Operation, Outcome, Permit, Policy, Scope, State, Store, StoreError, Tenant,
    Token,
    decide::{Ask, Compare, OnLost, ReleaseAsk},
    permit,
    store::{
        ClaimAnswer, ReleaseAnswer,
        capability::{Bridge, Looked},
    },
};
use semel_postgres::{PostgresStore, transact::Tx};
use semel_testkit::servers::Major;
use tokio_postgres::Client;

use crate::fixture::Fixture;

fn id(key: &str) -> IntentId {
    named("acme", key)
}

fn named(tenant: &str, key: &str) -> IntentId {
    let scope = Scope::new(Tenant::new(tenant).unwrap(), Operation::new("pay").unwrap());
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

/// Completes as an application in Rust does.
async fn in_rust<T: Tx>(on: &Fixture, tx: T, held: &Permit) -> Result<T, StoreError> {
    let transact = on.open().await.transact();
    let outcome = Outcome::new(201, "paid").pointer("payment", "7");
    let text = permit::encode(held);
    transact.complete_bridged(tx, &text, &held.id.scope, outcome, &Policy::default()).await
}

/// An application in Rust completes by the permit in its own transaction, whichever its driver: what
/// it stores is what is kept.
#[tokio::test]
async fn an_application_in_rust_completes_by_its_permit() {
    let on = Fixture::new(Major::V18).await;
    let (store, mut client) = (on.open().await, on.connect().await);
    let held = hold(&store, "by-tokio-postgres").await;
    let tx = client.transaction().await.unwrap();
    in_rust(&on, tx, &held).await.unwrap().commit().await.unwrap();
    let pool = sqlx::PgPool::connect(&on.url).await.unwrap();
    let other = hold(&store, "by-sqlx").await;
    let tx = pool.begin().await.unwrap();
    in_rust(&on, tx, &other).await.unwrap().commit().await.unwrap();
    for permit in [held, other] {
        let record = store.read(vec![permit.id]).await.unwrap().records.remove(0).unwrap();
        assert_eq!(record.state, State::Done);
        let outcome = Outcome::new(201, "paid").pointer("payment", "7");
        assert_eq!(record.outcome, Some(outcome));
    }
}

/// A permit that has ended, is of another scope or is none at all takes the application's transaction
/// along.
#[tokio::test]
async fn a_permit_that_does_not_count_takes_the_transaction_along() {
    let on = Fixture::new(Major::V18).await;
    let (store, mut client) = (on.open().await, on.connect().await);
    client.batch_execute(&on.sql("CREATE TABLE semel.payment (n int)")).await.unwrap();
    let held = hold(&store, "k").await;
    let stale = Permit { token: Token::from_bytes([8; 16]), ..held.clone() };
    let foreign = Permit { id: named("else", "k"), ..held.clone() };
    for (permit, scope) in [
        (permit::encode(&stale), &held.id.scope),
        (permit::encode(&foreign), &held.id.scope),
        ("1.no.permit".to_owned(), &held.id.scope),
        (permit::encode(&held), &foreign.id.scope),
    ] {
        let tx = client.transaction().await.unwrap();
        tx.execute(&on.sql("INSERT INTO semel.payment VALUES (1)"), &[]).await.unwrap();
        let transact = store.transact();
        let outcome = Outcome::new(201, "paid");
        let refused =
            transact.complete_bridged(tx, &permit, scope, outcome, &Policy::default()).await;
        assert_eq!(refused.map(drop).unwrap_err().kind(), semel::StoreErrorKind::Invalid);
    }
    let rows = client.query_one(&on.sql("SELECT count(*) FROM semel.payment"), &[]).await.unwrap();
    assert_eq!(rows.get::<_, i64>(0), 0, "nothing was committed");
    assert_eq!(state(&store, "k").await, Some(State::Running));
}
