//! A server is shut down or killed, and started again, under load; and what it acknowledged is on disk.

use std::sync::Arc;

use semel::{Engine, Store, store::Completed};
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

/// Neither the database nor the role waits for the disk, and the writer of the log sleeps: what the
/// store acknowledges last is there all the same.
#[tokio::test]
async fn what_is_acknowledged_last_before_a_crash_is_on_disk() {
    let mut server =
        Postgres::builder(Major::V18).fsync(true).setting("wal_writer_delay", "10s").start().await;
    let store = PostgresStore::builder(server.url()).open().await.unwrap();
    let lax = "ALTER DATABASE postgres SET synchronous_commit = off;
        ALTER ROLE postgres SET synchronous_commit = off";
    server.run_sql(lax).await;
    drop(store);
    let store = PostgresStore::builder(server.url()).open().await.unwrap();
    for crash in 0..4 {
        let key = format!("crash-{crash}");
        let claims = ask(&id(&key));
        let permit = granted(until_answered(|| claim(&store, &claims)).await);
        if crash % 2 == 1 {
            assert_eq!(store.complete(permit.clone(), done(201)).await.unwrap(), Completed::Stored);
        }
        server.kill();
        server.restart().await;
        let kept = until_answered(|| store.read(vec![id(&key)])).await;
        let kept = kept.records[0].clone().expect("what was acknowledged is there");
        assert_eq!(kept.token, permit.token);
        assert_eq!(kept.outcome.is_some(), crash % 2 == 1, "{key}");
    }
}
