//! Streaming standbys: commits that wait for one, and what takes over when the primary is gone.

use std::{net::SocketAddr, path::Path, time::Duration};

use super::{Major, Postgres};
use crate::servers::{
    patience::{PATIENCE, blocking},
    template, user,
};

/// How often the primary is asked about its standby.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const IN_RECOVERY: &str = "SELECT pg_is_in_recovery()";

impl Postgres {
    /// Starts a standby that streams from this server under a name. It has the same settings, and
    /// is gone when dropped, like any server.
    ///
    /// # Panics
    ///
    /// Panics if it cannot be made.
    pub async fn standby(&self, name: &str) -> Self {
        self.standby_through(name, self.address()).await
    }

    /// Starts a standby that reaches this server through a proxy, so that the way can be cut.
    ///
    /// # Panics
    ///
    /// Panics if it cannot be made.
    pub async fn standby_through(&self, name: &str, primary: SocketAddr) -> Self {
        let (built, name) = (self.built.clone(), name.to_owned());
        blocking(move || {
            built.start_with(|scratch| copy_primary(built.major, &name, primary, scratch))
        })
        .await
    }

    /// Makes every commit wait until the standby of this name has it on disk, from now on, and waits
    /// until it is so.
    ///
    /// # Panics
    ///
    /// Panics if no standby of this name streams.
    pub async fn commits_wait_for(&self, name: &str) {
        self.set_synchronous(&format!("FIRST 1 (\"{name}\")")).await;
        let state = format!(
            "SELECT count(*) FROM pg_stat_replication \
             WHERE application_name = '{name}' AND sync_state = 'sync'"
        );
        self.until_sql(&state, "1").await;
    }

    /// Lets commits wait for no standby; those that wait go on.
    ///
    /// # Panics
    ///
    /// Panics if this server does not answer.
    pub async fn commits_wait_for_nobody(&self) {
        self.set_synchronous("").await;
    }

    /// Makes this standby a primary that waits for no standby, and waits until it takes writes.
    ///
    /// # Panics
    ///
    /// Panics if it is no standby.
    pub async fn promote(&self) {
        assert_eq!(self.insist(IN_RECOVERY).await, "t", "this is no standby");
        self.until_promoted().await;
        self.commits_wait_for_nobody().await;
    }

    async fn until_promoted(&self) {
        let deadline = std::time::Instant::now() + PATIENCE;
        while self.insist(IN_RECOVERY).await == "t" {
            assert!(std::time::Instant::now() < deadline, "the standby is not promoted");
            self.insist("SELECT pg_promote(wait => false) WHERE pg_is_in_recovery()").await;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Asks again as often as a standby cancels the question for what it has to replay.
    async fn insist(&self, question: &str) -> String {
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            match self.try_sql("postgres", question).await {
                Ok(said) => return said,
                Err(error) => {
                    let is_cancelled = error.contains("conflict with recovery");
                    let in_time = std::time::Instant::now() < deadline;
                    assert!(is_cancelled && in_time, "{question}: {error}");
                }
            }
        }
    }

    /// Waits until everything that this primary has written is visible on a standby.
    ///
    /// # Panics
    ///
    /// Panics if the standby does not catch up.
    pub async fn until_caught_up(&self, standby: &Self) {
        let written = self.run_sql("SELECT pg_current_wal_flush_lsn()").await;
        let reached = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'");
        standby.until_sql(&reached, "t").await;
    }

    async fn set_synchronous(&self, names: &str) {
        let set = format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'");
        self.run_sql(&format!("{set};\nSELECT pg_reload_conf();")).await;
        // A reload is a signal to the server, which tells its backends when it gets to it.
        self.until_sql("SHOW synchronous_standby_names", names).await;
    }

    async fn until_sql(&self, question: &str, answer: &str) {
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            let said = self.run_sql(question).await;
            if said == answer {
                return;
            }
            assert!(std::time::Instant::now() < deadline, "{question}: {said}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Returns a URL that names several servers: a driver connects to the one that takes writes.
#[must_use]
pub fn failover_url(servers: &[&Postgres], database: &str) -> String {
    let hosts: Vec<_> = servers.iter().map(|server| server.address().to_string()).collect();
    let hosts = hosts.join(",");
    format!("postgres://postgres@{hosts}/{database}?target_session_attrs=read-write")
}

fn copy_primary(major: Major, name: &str, primary: SocketAddr, scratch: &Path) {
    let (host, port) = (primary.ip(), primary.port());
    let primary = format!("host={host} port={port} user=postgres application_name={name}");
    let mut copy = user::command(&major.program("pg_basebackup"));
    copy.arg("--pgdata").arg(scratch.join("data")).args(["--dbname", &primary]);
    // Settings for streaming are written along.
    copy.args(["--write-recovery-conf", "--checkpoint=fast", "--wal-method=stream", "--no-sync"]);
    template::run(&mut copy);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::{TcpProxy, Towards};

    /// How long a test looks whether something happens that must not: enough for a commit that waits
    /// for nobody.
    const A_WHILE: Duration = Duration::from_millis(300);

    #[tokio::test]
    async fn a_commit_waits_for_a_paused_synchronous_standby_and_goes_on_when_it_resumes() {
        let primary = Postgres::start(Major::V18).await;
        let standby = primary.standby("b").await;
        primary.run_sql("CREATE TABLE t (n int)").await;
        primary.commits_wait_for("b").await;
        primary.run_sql("INSERT INTO t VALUES (1)").await;
        standby.pause();
        let mut commit = std::pin::pin!(primary.run_sql("INSERT INTO t VALUES (2)"));
        assert!(tokio::time::timeout(A_WHILE, &mut commit).await.is_err(), "nobody was waited for");
        standby.resume();
        commit.await;
        primary.until_caught_up(&standby).await;
        assert_eq!(standby.run_sql("SELECT count(*) FROM t").await, "2");
        let refused = standby.try_sql("postgres", "INSERT INTO t VALUES (3)").await.unwrap_err();
        assert!(refused.contains("read-only transaction"), "{refused}");
    }

    #[tokio::test]
    async fn a_promoted_standby_has_every_commit_that_waited_for_it_and_takes_writes() {
        let mut primary = Postgres::start(Major::V15).await;
        primary.run_sql("CREATE TABLE t (n int)").await;
        let standby = primary.standby("b").await;
        primary.commits_wait_for("b").await;
        primary.run_sql("INSERT INTO t SELECT generate_series(1, 100)").await;
        let both = failover_url(&[&primary, &standby], "postgres");
        let where_writes_go = "SELECT inet_server_port();";
        let mut session = primary.session(&both);
        assert_eq!(session.ask(where_writes_go).await, primary.address().port().to_string());
        primary.kill();
        standby.promote().await;
        standby.run_sql("INSERT INTO t VALUES (101)").await;
        assert_eq!(standby.run_sql("SELECT count(*) FROM t").await, "101");
        let mut session = standby.session(&both);
        assert_eq!(session.ask(where_writes_go).await, standby.address().port().to_string());
    }

    #[tokio::test]
    async fn a_standby_behind_a_held_line_falls_back_and_catches_up() {
        let primary = Postgres::start(Major::V17).await;
        let proxy = TcpProxy::start(primary.address()).await;
        let standby = primary.standby_through("far", proxy.address()).await;
        primary.run_sql("CREATE TABLE t (n int)").await;
        primary.until_caught_up(&standby).await;
        proxy.hold(Towards::Client);
        primary.run_sql("INSERT INTO t VALUES (1)").await;
        assert_eq!(standby.run_sql("SELECT count(*) FROM t").await, "0");
        proxy.let_go(Towards::Client);
        primary.until_caught_up(&standby).await;
        assert_eq!(standby.run_sql("SELECT count(*) FROM t").await, "1");
    }
}
