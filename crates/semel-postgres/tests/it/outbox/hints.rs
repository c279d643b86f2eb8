//! Hints: of runs in the process, of other processes, and of what may have been missed.

use std::{
    collections::HashMap,
    future::poll_fn,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use semel::outbox::OutboxHints;
use semel_postgres::{
    PostgresStore,
    transact::{Guard, Started, Transact},
};
use semel_testkit::servers::{Major, Postgres, TcpProxy, Towards};
use tokio_postgres::{AsyncMessage, Client, Error, NoTls};

use super::steps::*;
use crate::transact::shop::{call, paid};

const LONG: Duration = Duration::from_secs(60);

async fn connect(server: &Postgres) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn publishes(transact: &Transact, client: &mut Client, key: &str) {
    let work = async |mut guard: Guard<Started<_>>| {
        guard.publish(event("1", "told")).unwrap();
        Ok::<_, Error>(guard.done(paid(), ()))
    };
    drop(transact.run(client, &call(key), work).await.unwrap());
}

/// Starts to wait, and lets the waiter begin.
async fn waiting(store: &Arc<PostgresStore>) -> tokio::task::JoinHandle<bool> {
    let waiter = Arc::clone(store);
    let waits = tokio::spawn(async move { waiter.hinted(LONG).await.unwrap() });
    tokio::task::yield_now().await;
    waits
}

/// A relay of the same process hears of a run at once, without a connection that listens.
#[tokio::test]
async fn a_run_is_hinted_at_in_its_process() {
    let server = Postgres::start(Major::V15).await;
    let store = Arc::new(PostgresStore::builder(server.url()).open().await.unwrap());
    let mut client = connect(&server).await;
    let waits = waiting(&store).await;
    publishes(&store.transact(), &mut client, "k").await;
    assert!(waits.await.unwrap());
    assert!(!store.hinted(Duration::from_millis(1)).await.unwrap(), "nothing came since");
}

async fn listens(server: &Postgres) -> Arc<PostgresStore> {
    let builder = PostgresStore::builder(server.url()).outbox_listen(true);
    Arc::new(builder.open().await.unwrap())
}

/// Commits of one process are told to another.
#[tokio::test]
async fn another_process_is_told() {
    let server = Postgres::start(Major::V15).await;
    let (here, there) = (listens(&server).await, listens(&server).await);
    let mut client = connect(&server).await;
    // Both have begun to listen once each has heard of that.
    for n in 0.. {
        let waits = waiting(&there).await;
        publishes(&here.transact(), &mut client, &format!("k{n}")).await;
        if waits.await.unwrap() && n > 3 {
            break;
        }
    }
}

/// M82: where a listener that reads nothing has let the queue of notifications run full, commits of
/// applications go on, and what they publish is read by polling.
#[tokio::test]
async fn a_full_queue_of_notifications_fails_no_commit() {
    let server = Postgres::builder(Major::V18).setting("max_notify_queue_pages", "64");
    let server = server.start().await;
    let store = listens(&server).await;
    let stuck = connect(&server).await;
    stuck.batch_execute("LISTEN other").await.unwrap();
    stuck.batch_execute("BEGIN; SELECT 1").await.unwrap();
    let filler = connect(&server).await;
    let fill = "SELECT pg_notify('other', n || repeat('x', 7900)) FROM generate_series(1, 10) AS n";
    let full = async || filler.batch_execute(fill).await.is_err();
    let filled = async { while !full().await {} };
    tokio::time::timeout(LONG, filled).await.expect("64 pages are full at some time");
    let (leader, mut client) = (lead(&store, "kafka").await, connect(&server).await);
    for n in 0..20 {
        publishes(&store.transact(), &mut client, &format!("k{n}")).await;
    }
    assert!(full().await, "it was full all the time");
    assert_eq!(drain(&store, &leader, 100).await.len(), 20);
    stuck.batch_execute("ROLLBACK").await.unwrap();
}

/// M83: however many commit, notifications are few, each in a transaction of its own: none of theirs waits
/// for the lock that a notification takes at its commit.
#[tokio::test(flavor = "multi_thread")]
async fn many_commits_are_told_by_few_notifications() {
    let server = Postgres::start(Major::V18).await;
    let store = listens(&server).await;
    let (listener, mut heard) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    let told = Arc::new(Mutex::new(HashMap::<i32, u128>::new()));
    let counts = Arc::clone(&told);
    tokio::spawn(async move {
        while let Some(message) = poll_fn(|context| heard.poll_message(context)).await {
            if let Ok(AsyncMessage::Notification(one)) = message {
                *counts.lock().unwrap().entry(one.process_id()).or_default() += 1;
            }
        }
    });
    listener.batch_execute("LISTEN semel").await.unwrap();
    let began = Instant::now();
    let writers = (0..8).map(|writer| {
        let (store, url) = (Arc::clone(&store), server.url());
        tokio::spawn(async move {
            let (mut client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
            tokio::spawn(connection);
            for n in 0..40 {
                publishes(&store.transact(), &mut client, &format!("k{writer}-{n}")).await;
            }
            client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get::<_, i32>(0)
        })
    });
    let mut pids = Vec::new();
    for writer in writers.collect::<Vec<_>>() {
        pids.push(writer.await.unwrap());
    }
    // What was told before this has come once its own has.
    listener.batch_execute("NOTIFY semel").await.unwrap();
    let told = told.lock().unwrap();
    assert!(pids.iter().all(|pid| !told.contains_key(pid)), "{pids:?} {told:?}");
    // One at most in the time that lies between two.
    let most = began.elapsed().as_millis() / 20 + 3;
    let count: u128 = told.values().sum();
    assert!((1..=most).contains(&count), "{count} notifications of at most {most}");
}

/// M86: a connection that listens and is cut is replaced, and whoever waits is told to look, since nobody
/// knows what was missed.
#[tokio::test]
async fn a_listener_that_was_cut_off_looks_again() {
    let server = Postgres::start(Major::V15).await;
    PostgresStore::migrate(&PostgresStore::builder(server.url())).await.unwrap();
    let line = TcpProxy::start(server.address()).await;
    let url = server.url().replace(&server.address().to_string(), &line.address().to_string());
    let store =
        PostgresStore::builder(url).migrate(false).outbox_listen(true).open().await.unwrap();
    let store = Arc::new(store);
    assert!(waiting(&store).await.await.unwrap(), "it listens now");
    let waits = waiting(&store).await;
    line.cut().await;
    assert!(waits.await.unwrap(), "it listens again");
}

/// M85: a connection that stays open and brings nothing any more is found by asking the server, and
/// replaced.
#[tokio::test]
async fn a_listener_that_hears_nothing_any_more_is_replaced() {
    let server = Postgres::start(Major::V15).await;
    PostgresStore::migrate(&PostgresStore::builder(server.url())).await.unwrap();
    let line = TcpProxy::start(server.address()).await;
    let (first, then) = (line.address(), server.address());
    let url =
        format!("postgres://postgres@{first},{then}/postgres?target_session_attrs=read-write");
    let store =
        PostgresStore::builder(url).migrate(false).outbox_listen(true).open().await.unwrap();
    let store = Arc::new(store);
    assert!(waiting(&store).await.await.unwrap(), "it listens now");
    let waits = waiting(&store).await;
    line.refuse().await;
    line.hold(Towards::Client);
    let began = Instant::now();
    assert!(waits.await.unwrap(), "it listens elsewhere");
    assert!(began.elapsed() < LONG / 2, "long before anything times out: {:?}", began.elapsed());
}
