//! A server is shut down or killed, and started again, under load; and what it acknowledged is on disk.

use std::sync::Arc;

use semel::{Engine, State, Store};
use semel_postgres::{PostgresStore, transact::Transact};
use semel_testkit::servers::{Major, Postgres};
use sqlx::postgres::PgPoolOptions;
use tokio::task::JoinSet;

use super::{
    callers::{Atomic, BySqlx, Leased},
    crowd::Crowd,
    pair::connect,
    verdict,
};
use crate::{transact::pool::Pool, words::*};

const LEDGER: &str = "CREATE TABLE ledger (key text NOT NULL)";

/// The store and the application's pools go on by themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_under_load_loses_nothing_and_doubles_nothing() {
    let mut server = Postgres::builder(Major::V15).fsync(true).start().await;
    let url = server.url();
    let store = PostgresStore::builder(&url).open().await.unwrap();
    server.run_sql(LEDGER).await;
    let engine = Engine::builder(Arc::new(store)).build();
    let transact = Transact::loader().load(&connect(&server).await).await.unwrap();
    let pool = PgPoolOptions::new().max_connections(3).connect(&url).await.unwrap();
    let leased = Arc::new(Leased { engine, ledger: Pool::new(&url, 4) });
    let atomic = Arc::new(Atomic { transact: transact.clone(), pool: Pool::new(&url, 4) });
    let by_sqlx = Arc::new(BySqlx { transact, pool });
    let (crowd, mut sent) = (Arc::new(Crowd::default()), JoinSet::new());
    crowd.send(4, &leased, &mut sent);
    crowd.send(4, &atomic, &mut sent);
    crowd.send(4, &by_sqlx, &mut sent);
    for kills in [false, true] {
        crowd.until_told(100).await;
        if kills {
            server.kill();
        }
        // Shuts it down first if it still runs.
        server.restart().await;
    }
    crowd.until_told(100).await;
    crowd.over(sent).await;
    crowd.resolve_unknown(&leased, &server).await;
    assert_eq!(verdict::broken(&crowd, &server).await, []);
}

/// S05: neither the server nor the role waits for the disk, and the writer of the log sleeps: what an
/// application completes by function, in the bridged form too, is there all the same.
#[tokio::test]
async fn what_a_function_completed_before_a_crash_is_on_disk() {
    let mut server = Postgres::builder(Major::V15)
        .fsync(true)
        .setting("synchronous_commit", "off")
        .setting("wal_writer_delay", "10s")
        .start()
        .await;
    let store = PostgresStore::builder(server.url()).open().await.unwrap();
    let bridged = semel::permit::encode(&hold(&store, &id("bridged")).await);
    let by_function = "semel.claim('acme', 'pay', 'claimed', 'pay 10')";
    for (key, held) in [
        ("claimed", format!("FROM {by_function} AS held")),
        ("bridged", format!("FROM (SELECT '{bridged}' AS permit) AS held")),
    ] {
        let complete = format!("SELECT semel.complete(held.permit, 'acme', 'pay', 201) {held}");
        server.run_sql(&format!("BEGIN; {complete}; COMMIT;")).await;
        server.kill();
        server.restart().await;
        let kept = until_answered(|| store.read(vec![id(key)])).await;
        let kept = kept.records[0].clone().expect("what was acknowledged is there");
        assert_eq!(kept.state, State::Done, "{key}");
    }
}
