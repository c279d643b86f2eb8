//! A primary whose commits wait for its standby, and the way between the two.

use std::time::Duration;

use semel_postgres::{PostgresBuilder, PostgresStore};
use semel_testkit::servers::{Major, Postgres, TcpProxy};
use tokio_postgres::{Client, NoTls};

/// Both servers.
pub(super) struct Pair {
    pub(super) old: Postgres,
    pub(super) new: Postgres,
    line: TcpProxy,
}

impl Pair {
    /// Starts both, with a schema without records and an empty ledger.
    pub(super) async fn start(major: Major) -> Self {
        let old = Postgres::start(major).await;
        PostgresStore::migrate(&PostgresStore::builder(old.url())).await.unwrap();
        old.run_sql("CREATE TABLE ledger (key text NOT NULL)").await;
        let line = TcpProxy::start(old.address()).await;
        let new = old.standby_through("b", line.address()).await;
        old.commits_wait_for("b").await;
        Self { old, new, line }
    }

    /// Cuts the primary off from its standby, which takes over. The primary knows nothing of it, and
    /// goes on as it was.
    pub(super) async fn isolate_and_promote(&self) {
        self.isolate().await;
        self.new.promote().await;
    }

    /// Cuts the primary off from its standby.
    pub(super) async fn isolate(&self) {
        self.line.refuse().await;
        self.line.cut().await;
    }
}

/// Begins to open a store that soon gives up waiting.
pub(super) fn impatient(url: &str) -> PostgresBuilder {
    let url = format!("{url}{}connect_timeout=1", if url.contains('?') { '&' } else { '?' });
    PostgresStore::builder(url).answer_wait(Duration::from_millis(400))
}

/// Connects as an application does.
pub(super) async fn connect(server: &Postgres) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
