//! What every gateway promises, on this store: replay, refusal, duplicates across processes, an outage.

use std::sync::Arc;

use semel_gateway::{Gateway, config::StoreUrl};
use semel_testkit::servers::{Major, PgBouncer, Postgres};

use super::{PAY, Place};
use crate::{
    command::run,
    gateway::{Served, protected, settings},
    message::send,
    upstream::Upstream,
};

async fn pay(address: std::net::SocketAddr, key: &str) -> crate::message::Message {
    send(address, "POST /pay", &[("idempotency-key", key)], "{\"amount\":5}").await
}

/// C73: what was answered is replayed byte for byte, by the next process too.
#[tokio::test]
async fn what_was_answered_is_replayed_after_a_kill() {
    let (place, upstream) = (Place::new().await, Upstream::counting().await);
    place.configure(&upstream, false, PAY);
    let mut gateway = place.serve().await;
    let first = pay(gateway.address, "k").await;
    assert_eq!(first.status(), 201);
    gateway.kill().await;
    gateway.restart().await;
    let again = pay(gateway.address, "k").await;
    assert_eq!((again.status(), &again.body), (201, &first.body));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(upstream.seen.requests().len(), 1);
}

/// C10: two processes on one database, every key sent to both at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_on_one_database_run_each_intent_once() {
    const KEYS: usize = 100;
    let (place, upstream) = (Place::new().await, Upstream::counting().await);
    place.configure(&upstream, false, PAY);
    let (one, two) = (Arc::new(place.serve().await), Arc::new(place.serve().await));
    for first in (0..KEYS).step_by(20) {
        let mut asked = tokio::task::JoinSet::new();
        for number in first..first + 20 {
            for address in [one.address, two.address] {
                asked.spawn(async move { (number, pay(address, &format!("pair-{number}")).await) });
            }
        }
        let mut bodies = std::collections::BTreeMap::<usize, Vec<Vec<u8>>>::new();
        while let Some(got) = asked.join_next().await {
            let (number, got) = got.unwrap();
            assert_eq!(got.status(), 201, "{got:?}");
            bodies.entry(number).or_default().push(got.body);
        }
        assert!(bodies.values().all(|pair| pair.len() == 2 && pair[0] == pair[1]));
    }
    let effects = upstream.seen.effects();
    assert_eq!(effects.len(), KEYS);
    assert!(effects.values().all(|times| *times == 1), "{effects:?}");
}

/// C79: while the server is away nothing is sent and the gateway says that it is not ready; afterwards it
/// goes on by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_of_the_server_refuses_and_heals() {
    let mut server = Postgres::start(Major::V18).await;
    let upstream = Upstream::counting().await;
    let mut settings = settings(&[("api", &upstream.url())]);
    settings.store = StoreUrl::parse(&server.url(), std::path::Path::new("")).unwrap().into();
    settings.operations = vec![protected("pay", "/pay", None)];
    let gateway = Served::of(Gateway::new(&settings).await.unwrap()).await;
    let ready = || async { send(gateway.admin, "GET /readyz", &[], "").await.status() };
    assert_eq!((ready().await, gateway.pay("before").await.status()), (200, 201));
    server.kill();
    assert_eq!(ready().await, 503);
    let refused = gateway.pay("during").await;
    assert_eq!((refused.status(), refused.code().as_str()), (503, "store-away"));
    assert_eq!(upstream.seen.requests().len(), 1, "nothing was sent");
    server.restart().await;
    let deadline = tokio::time::Instant::now() + crate::message::PATIENCE;
    while ready().await != 200 {
        assert!(tokio::time::Instant::now() < deadline, "it is never ready again");
    }
    assert_eq!(gateway.pay("before").await.header("idempotent-replayed"), Some("true"));
    assert_eq!(gateway.pay("during").await.status(), 201);
}

/// An operator lists, shows and resolves records of this store.
#[tokio::test]
async fn operators_settle_records_of_this_store() {
    let place = Place::new().await;
    let upstream = Upstream::saying(crate::message::answer(500, &[], "a fault")).await;
    place.configure(&upstream, false, PAY);
    let gateway = place.serve().await;
    assert_eq!(pay(gateway.address, "k").await.status(), 500);
    let listed = run(place.path(), &["records", "--json", "list"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    assert!(listed.out.contains("\"unknown\""), "{listed:?}");
    let resolved = run(
        place.path(),
        &["records", "resolve", "pay", "k", "--note", "asked", "--done", "--yes"],
    );
    assert_eq!(resolved.code, 0, "{resolved:?}");
    let again = pay(gateway.address, "k").await;
    assert_eq!(again.code(), "outcome-not-kept", "it is done, and nobody kept an answer");
    let url = ["--store", &place.url, "--schema", &place.schema];
    let counts = run(place.path(), &[&["records", "counts"][..], &url].concat());
    assert_eq!(counts.code, 0, "{counts:?}");
}

/// A transaction that its coordinator prepared and forgot is told of, and holds nobody up but its own key.
#[tokio::test]
async fn a_forgotten_prepared_transaction_is_told_of() {
    let place = Place::new().await;
    let store = ["--store", &place.url, "--schema", &place.schema];
    let list =
        |more: &[&str]| run(place.path(), &[&["records"], more, &["prepared"], &store].concat());
    let client = place.connect().await;
    let forget = format!(
        "BEGIN; SELECT pg_advisory_xact_lock(semel.lock_hash('single', 'pay', 'k', ''));
         PREPARE TRANSACTION 'forgotten_{}'",
        place.schema
    );
    client.batch_execute(&place.sql(&forget)).await.unwrap();
    let told = list(&[]);
    let name = format!("forgotten_{}", place.schema);
    assert!(told.out.contains(&name) && told.out.contains("ago"), "{told:?}");
    let told = list(&["--json"]).json();
    let listed = told["prepared"].as_array().unwrap();
    assert!(listed.iter().any(|one| one["name"] == *name && one["owner"] == "postgres"), "{told}");
    client.batch_execute(&format!("ROLLBACK PREPARED '{name}'")).await.unwrap();
    assert!(!list(&[]).out.contains(&name));
}

/// Behind a pooler in transaction mode, with fewer connections than a gateway has, nothing differs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_behind_a_pooler_run_each_intent_once() {
    let (direct, upstream) = (Place::new().await, Upstream::counting().await);
    let pooler = PgBouncer::start(direct.server, 2).await;
    let place = direct.at(&pooler.url_of("postgres"));
    place.configure(&upstream, false, PAY);
    let (one, two) = (place.serve().await, place.serve().await);
    let mut asked = tokio::task::JoinSet::new();
    for number in 0..30 {
        for address in [one.address, two.address] {
            asked.spawn(async move { pay(address, &format!("pooled-{number}")).await });
        }
    }
    for got in asked.join_all().await {
        assert_eq!(got.status(), 201, "{got:?}");
    }
    assert_eq!(upstream.seen.effects().values().copied().collect::<Vec<_>>(), [1; 30]);
}

/// No password and no permit stands in anything that is printed, answered or logged.
#[tokio::test]
async fn no_secret_is_ever_shown() {
    let (place, upstream) = (Place::new().await, Upstream::counting().await);
    place.configure(&upstream, true, PAY);
    let config = place.path().join("semel.toml");
    let with_password = place.url.replace("postgres@", "postgres:hunter2@");
    let text = std::fs::read_to_string(&config).unwrap();
    let text = text.replace(&format!("\"{}\"", place.url), "{ file = \"url\" }");
    std::fs::write(&config, format!("{text}bridged = true\n")).unwrap();
    std::fs::write(place.path().join("url"), &with_password).unwrap();

    let mut gateway = crate::child::Process::start_logging(place.path(), "trace").await;
    assert_eq!(pay(gateway.address, "k").await.code(), "not-completed");
    let permit = upstream.seen.requests()[0].header("semel-permit").unwrap().to_owned();
    gateway.kill().await;
    let log = gateway.log();
    assert!(log.contains("did not complete"), "it was logged");
    assert!(!log.contains("hunter2"), "the password was logged");
    let token = permit.split('.').nth(5).unwrap();
    assert!(!log.contains(&permit) && !log.contains(token), "the permit was logged");

    let nowhere = with_password.replace(&place.server.address().to_string(), "127.0.0.1:1");
    for arguments in [
        vec!["check"],
        vec!["records", "list"],
        vec!["migrate", "--check", "--json"],
        vec!["migrate", "--check", "--store", &nowhere],
        vec!["records", "list", "--store", &nowhere],
        vec!["migrate", "--store", "postgers://u:hunter2@h/d"],
        vec!["migrate", "--store", "host=h password=hunter2"],
        vec!["migrate", "--store", "postgres://u:hunter2@h:x/d"],
        vec!["migrate", "--store", "postgres://u@h/d?sslmode=hunter2"],
    ] {
        let ran = run(place.path(), &arguments);
        assert!(!ran.out.contains("hunter2") && !ran.err.contains("hunter2"), "{ran:?}");
        assert!(!(ran.out + &ran.err).is_empty(), "{arguments:?} says nothing");
    }
}
