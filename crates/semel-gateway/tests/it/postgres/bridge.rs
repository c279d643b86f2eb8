//! Bridged: an application that completes in its own transaction, gateways that are killed and
//! overtaken around it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use semel_testkit::{
    Gate,
    servers::{Major, Postgres},
};
use tokio::sync::mpsc;
use tokio_postgres::{Client, Error};

use super::{PAY, Place};
use crate::{
    child::Process,
    message::{Message, PATIENCE, Wire, answer, request, send},
    upstream::{Deed, Upstream},
};

/// How often the worst moment is met.
const TIMES: usize = 100;

const BRIDGED: &str = "bridged = true\non_lost = \"rerun\"\n";

fn key(message: &Message) -> String {
    message.header("idempotency-key").unwrap_or_default().to_owned()
}

/// Makes a payment in a transaction that stays open.
async fn open(place: &Place, key: &str) -> Client {
    let client = place.connect().await;
    client.batch_execute("BEGIN").await.unwrap();
    let insert = place.sql("INSERT INTO semel.payment (key) VALUES ($1)");
    client.execute(&insert, &[&key]).await.unwrap();
    client
}

/// Completes the permit in that transaction.
async fn complete(place: &Place, client: &Client, message: &Message) -> Result<(), Error> {
    let permit = message.header("semel-permit").expect("a permit");
    let text = place.sql("SELECT semel.complete($1, 'single', 'pay', 201, '[]', $2)");
    let body = format!("paid {}", key(message));
    client.execute(&text, &[&permit, &body.as_bytes()]).await.map(drop)
}

async fn pay(gateway: &Process, key: &str) -> Message {
    send(gateway.address, "POST /pay", &[("idempotency-key", key)], "{\"amount\":5}").await
}

async fn paying(gateway: &Process, key: &str) -> Wire<tokio::net::TcpStream> {
    let mut wire = Wire::to(gateway.address).await;
    wire.write(request("POST /pay", &[("idempotency-key", key)], "{\"amount\":5}")).await;
    wire
}

fn replays(answered: &Message, key: &str) -> bool {
    assert_eq!(
        (answered.status(), answered.text()),
        (201, &*format!("paid {key}")),
        "{answered:?}"
    );
    answered.header("idempotent-replayed") == Some("true")
}

/// C13, C26, S22: the gateway is killed after the application's commit and before its answer: the payment is there
/// once, and its retry is replayed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_killed_after_the_commit_leaves_one_payment_and_its_replay() {
    let place = Place::new().await;
    let (committed, mut commits) = mpsc::unbounded_channel();
    let till = place.clone();
    let upstream = Upstream::new(move |message| {
        let (place, committed) = (till.clone(), committed.clone());
        async move {
            let client = open(&place, &key(&message)).await;
            complete(&place, &client, &message).await.unwrap();
            client.batch_execute("COMMIT").await.unwrap();
            committed.send(()).unwrap();
            Deed::Hang
        }
    })
    .await;
    place.configure(&upstream, true, &format!("{PAY}{BRIDGED}"));
    let mut gateway = place.serve().await;
    let mut replayed = 0;
    for number in 0..TIMES {
        let key = format!("killed-{number}");
        let _asked = paying(&gateway, &key).await;
        tokio::time::timeout(PATIENCE, commits.recv()).await.unwrap().unwrap();
        gateway.kill().await;
        gateway.restart().await;
        replayed += usize::from(replays(&pay(&gateway, &key).await, &key));
    }
    let times = i64::try_from(TIMES).unwrap();
    assert_eq!((place.payments().await, replayed), ((times, times), TIMES));
    assert_eq!(upstream.seen.requests().len(), TIMES);
}

/// The server is killed between the application's commit and the gateway's look: the look is asked again
/// until it is answered, and what was committed is what is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_after_the_commit_is_asked_again() {
    let mut server = Postgres::start(Major::V18).await;
    let place = Place::bare().await.at(&server.url()).made().await;
    let gate = Gate::shut();
    let (till, at) = (place.clone(), Arc::clone(&gate));
    let upstream = Upstream::new(move |message| {
        let (place, gate) = (till.clone(), Arc::clone(&at));
        async move {
            let client = open(&place, &key(&message)).await;
            complete(&place, &client, &message).await.unwrap();
            client.batch_execute("COMMIT").await.unwrap();
            gate.pass().await;
            Deed::Write(answer(500, &[], "the database is away"))
        }
    })
    .await;
    place.configure(&upstream, true, &format!("{PAY}{BRIDGED}"));
    let gateway = place.serve().await;
    let mut first = paying(&gateway, "k").await;
    gate.arrived(1).await;
    server.kill();
    gate.open();
    server.restart().await;
    assert!(!replays(&first.answer("POST").await.unwrap(), "k"), "what was committed");
    assert!(replays(&pay(&gateway, "k").await, "k"));
    assert_eq!((place.payments().await.0, upstream.seen.requests().len()), (1, 1));
}

/// C28: an application that is overtaken while its transaction is open cannot complete and cannot
/// commit, its successor's payment is the only one, and both callers end with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_that_is_overtaken_cannot_commit() {
    let place = Place::new().await;
    place.move_time_by_hand().await;
    let (opened, mut opens) = mpsc::unbounded_channel();
    let firsts = Arc::new(Mutex::new(HashMap::<String, Arc<Gate>>::new()));
    let till = place.clone();
    let upstream = Upstream::new(move |message| {
        let (place, opened, firsts) = (till.clone(), opened.clone(), Arc::clone(&firsts));
        async move {
            let key = key(&message);
            let client = open(&place, &key).await;
            let gate = Gate::shut();
            let is_first = firsts.lock().unwrap().insert(key.clone(), Arc::clone(&gate)).is_none();
            if is_first {
                opened.send(Arc::clone(&gate)).unwrap();
                gate.pass().await;
            }
            let completed = complete(&place, &client, &message).await;
            let committed = client.batch_execute("COMMIT").await;
            match completed {
                Ok(()) => {
                    committed.unwrap();
                    Deed::Write(answer(200, &[], "its own answer"))
                }
                Err(error) => {
                    assert_eq!(error.code().map(|code| code.code()), Some("SM001"), "{error:?}");
                    Deed::Write(answer(500, &[], "overtaken"))
                }
            }
        }
    })
    .await;
    place.configure(&upstream, true, &format!("{PAY}{BRIDGED}"));
    let (one, two) = (place.serve().await, place.serve().await);
    let clock = place.connect().await;
    let mut replayed = 0;
    for number in 0..TIMES {
        let key = format!("overtaken-{number}");
        let mut first = paying(&one, &key).await;
        let gate = tokio::time::timeout(PATIENCE, opens.recv()).await.unwrap().unwrap();
        place.advance(&clock, 31).await;
        assert!(!replays(&pay(&two, &key).await, &key), "it runs anew");
        gate.open();
        let stale = first.answer("POST").await.unwrap();
        assert_eq!((stale.status(), stale.code().as_str()), (409, "stale-permit"), "{stale:?}");
        replayed += usize::from(replays(&pay(&one, &key).await, &key));
    }
    let times = i64::try_from(TIMES).unwrap();
    assert_eq!((place.payments().await, replayed), ((times, times), TIMES));
}

/// An application that has completed and not yet committed is not overtaken, however long ago its lease
/// was over: whoever comes waits for its commit, and gets what it stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_that_has_completed_is_not_overtaken() {
    for commits in [true, false] {
        let place = Place::new().await;
        place.move_time_by_hand().await;
        let gate = Gate::shut();
        let (till, at) = (place.clone(), Arc::clone(&gate));
        let upstream = Upstream::new(move |message| {
            let (place, gate) = (till.clone(), Arc::clone(&at));
            async move {
                let client = open(&place, &key(&message)).await;
                complete(&place, &client, &message).await.unwrap();
                gate.pass().await;
                let end = if commits { "COMMIT" } else { "ROLLBACK" };
                client.batch_execute(end).await.unwrap();
                Deed::Write(answer(500, &[], "after the transaction"))
            }
        })
        .await;
        place.configure(&upstream, true, &format!("{PAY}{BRIDGED}wait = \"0s\"\n"));
        let (one, two) = (place.serve().await, place.serve().await);
        let mut first = paying(&one, "k").await;
        gate.arrived(1).await;
        place.advance(&place.connect().await, 31).await;
        let refused = pay(&two, "k").await;
        assert_eq!((refused.status(), refused.code().as_str()), (409, "in-progress"));
        gate.open();
        let answered = first.answer("POST").await.unwrap();
        if commits {
            assert!(!replays(&answered, "k"), "what was stored, and not the 500");
            assert!(replays(&pay(&two, "k").await, "k"));
        } else {
            assert_eq!((answered.status(), answered.text()), (500, "after the transaction"));
            assert_eq!(pay(&two, "k").await.status(), 500, "it runs anew");
        }
        assert_eq!(place.payments().await.0, i64::from(commits));
    }
}

/// C10: duplicates that race across two gateways make one payment, and all of them end with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicates_across_two_gateways_make_one_payment() {
    const KEYS: usize = 40;
    let place = Place::new().await;
    let till = place.clone();
    let upstream = Upstream::new(move |message| {
        let place = till.clone();
        async move {
            let client = open(&place, &key(&message)).await;
            complete(&place, &client, &message).await.unwrap();
            client.batch_execute("COMMIT").await.unwrap();
            Deed::Write(answer(200, &[], "its own answer"))
        }
    })
    .await;
    place.configure(&upstream, true, &format!("{PAY}{BRIDGED}"));
    let (one, two) = (place.serve().await, place.serve().await);
    let mut asked = tokio::task::JoinSet::new();
    for number in 0..KEYS {
        for address in [one.address, two.address, one.address] {
            asked.spawn(async move {
                let key = format!("pair-{number}");
                let headers = [("idempotency-key", key.as_str())];
                let answered = send(address, "POST /pay", &headers, "{\"amount\":5}").await;
                usize::from(replays(&answered, &key))
            });
        }
    }
    let replayed: usize = asked.join_all().await.into_iter().sum();
    let keys = i64::try_from(KEYS).unwrap();
    assert_eq!((place.payments().await, replayed), ((keys, keys), 2 * KEYS));
}
