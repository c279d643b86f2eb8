//! Hints: of runs in the process, of other processes, and of what may have been missed.

use std::{sync::Arc, time::Duration};

use semel::outbox::OutboxHints;
use semel_postgres::{
    PostgresStore,
    transact::{Guard, Started, Transact},
};
use semel_testkit::servers::{Major, Postgres, TcpProxy, Towards};
use tokio_postgres::{Client, Error, NoTls};

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

/// M82, M83: commits of one process are told to another by a transaction of their own, after they are
/// there: a listener that fills the queue fails none of them.
#[tokio::test]
async fn another_process_is_told_outside_the_transactions() {
    let server = Postgres::start(Major::V15).await;
    let open = async || {
        let store = PostgresStore::builder(server.url()).outbox_listen(true).open().await.unwrap();
        Arc::new(store)
    };
    let (here, there) = (open().await, open().await);
    let mut client = connect(&server).await;
    // Both have begun to listen once each has heard of that.
    for n in 0.. {
        let waits = waiting(&there).await;
        publishes(&here.transact(), &mut client, &format!("k{n}")).await;
        if waits.await.unwrap() && n > 3 {
            break;
        }
    }
    let notified = "SELECT count(*) FROM pg_stat_activity
        WHERE query LIKE 'NOTIFY%' AND xact_start IS NOT NULL";
    assert_eq!(server.run_sql(notified).await, "0");
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
    assert!(waits.await.unwrap(), "it listens elsewhere");
}
