//! Two sites, each with a server that may die: one is the primary, whose commits wait for the other.

use semel_postgres::PostgresStore;
use semel_testkit::servers::{Major, Postgres, TcpProxy};

/// The servers of today, and addresses that outlive them.
pub(super) struct Cluster {
    pub(super) primary: Postgres,
    standby: Postgres,
    /// Where the primary and the standby are.
    sites: [TcpProxy; 2],
    /// An address that moves to the primary, for drivers that know but one.
    moving: TcpProxy,
}

impl Cluster {
    /// Starts both, with the schema and a ledger that takes any number of rows for a key.
    pub(super) async fn start(major: Major) -> Self {
        let primary = Postgres::builder(major).fsync(true).start().await;
        PostgresStore::migrate(&PostgresStore::builder(primary.url())).await.unwrap();
        primary.run_sql("CREATE TABLE ledger (key text NOT NULL)").await;
        let standby = primary.standby("b").await;
        primary.commits_wait_for("b").await;
        let moving = TcpProxy::start(primary.address()).await;
        let sites =
            [TcpProxy::start(primary.address()).await, TcpProxy::start(standby.address()).await];
        Self { primary, standby, sites, moving }
    }

    /// Names both sites.
    pub(super) fn url(&self) -> String {
        let [one, other] = [0, 1].map(|at| self.sites[at].address());
        let options = "target_session_attrs=read-write&connect_timeout=2";
        format!("postgres://postgres@{one},{other}/postgres?{options}")
    }

    /// Names the address that moves.
    pub(super) fn moving_url(&self) -> String {
        format!("postgres://postgres@{}/postgres", self.moving.address())
    }

    /// Kills the primary with all it is at; its standby takes over, and gets a standby of its own where
    /// the primary was.
    pub(super) async fn fail_over(&mut self) {
        self.primary.kill();
        self.standby.promote().await;
        self.moving.lead_to(self.standby.address());
        let next = self.standby.standby("b").await;
        self.sites.swap(0, 1);
        self.sites[1].lead_to(next.address());
        self.primary = std::mem::replace(&mut self.standby, next);
        self.primary.commits_wait_for("b").await;
    }
}
