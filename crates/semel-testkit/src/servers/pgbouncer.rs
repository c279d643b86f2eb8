//! Private PgBouncers: the plain 1.18 that knows no prepared statements, pooling by transaction.

use std::{
    fmt::Write as _,
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::Path,
};

use super::{
    Postgres, Process,
    patience::{blocking, until},
    port,
    scratch::{Medium, Scratch},
    tools, user,
};

/// What every pooler is told, before what the test tells it.
const SETTINGS: &[(&str, &str)] = &[
    ("listen_addr", "127.0.0.1"),
    ("unix_socket_dir", ""),
    ("pool_mode", "transaction"),
    ("max_client_conn", "1000"),
    ("auth_type", "trust"),
    // Whoever the server knows; the superuser asks it.
    ("auth_user", "postgres"),
    ("admin_users", "postgres"),
    // Drivers send it, and a pooler that was set up for them ignores it.
    ("ignore_startup_parameters", "extra_float_digits"),
];

/// Sets up a private pooler.
#[derive(Debug, Clone)]
#[must_use]
pub struct Builder {
    upstream: SocketAddr,
    settings: Vec<(String, String)>,
}

impl Builder {
    /// Says how many connections to the server each database and user share.
    pub fn pool_size(self, size: u16) -> Self {
        self.setting("default_pool_size", &size.to_string())
    }

    /// Sets a parameter of the section `pgbouncer`; the last word counts.
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts the pooler and waits until it listens.
    ///
    /// # Panics
    ///
    /// Panics if it is not installed or does not start.
    pub async fn start(self) -> PgBouncer {
        blocking(move || self.start_fresh()).await
    }

    fn start_fresh(self) -> PgBouncer {
        let scratch = Scratch::new("pgbouncer", Medium::Memory);
        let start = |port| {
            self.configure(scratch.path(), port);
            launch(scratch.path(), port)
        };
        let (port, process) = port::start_on_free_port(start);
        PgBouncer { port, process: Some(process), scratch }
    }

    fn configure(&self, folder: &Path, port: u16) {
        let (host, server_port) = (self.upstream.ip(), self.upstream.port());
        let users = folder.join("users.txt");
        let mut text = format!("[databases]\n* = host={host} port={server_port}\n[pgbouncer]\n");
        let own = self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in SETTINGS.iter().copied().chain(own) {
            writeln!(text, "{name} = {value}").expect("a string grows");
        }
        writeln!(text, "listen_port = {port}\nauth_file = {}", users.display())
            .expect("a string grows");
        fs::write(users, "\"postgres\" \"\"\n").expect("users can be written");
        fs::write(folder.join("pgbouncer.ini"), text).expect("settings can be written");
    }
}

/// A private pooler before a server. Dropping it ends it.
#[derive(Debug)]
pub struct PgBouncer {
    process: Option<Process>,
    port: u16,
    scratch: Scratch,
}

impl PgBouncer {
    /// Sets up a pooler before whatever answers as PostgreSQL at `upstream`: a server, or a proxy.
    pub fn builder(upstream: SocketAddr) -> Builder {
        Builder { upstream, settings: Vec::new() }
    }

    /// Starts a pooler before a server, with so many connections to it for each database and user.
    ///
    /// # Panics
    ///
    /// Panics if it is not installed or does not start.
    pub async fn start(server: &Postgres, pool_size: u16) -> Self {
        Self::builder(server.address()).pool_size(pool_size).start().await
    }

    /// Returns where it listens; that stays through a restart.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns the URL of a database of the server through this pooler, as the superuser.
    #[must_use]
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@{}/{database}", self.address())
    }

    /// Returns what it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        read_log(self.scratch.path())
    }

    /// Kills it: its clients lose their connections, and the server sees its own end.
    pub fn kill(&mut self) {
        self.process = None;
        self.scratch.kill_all();
    }

    /// Starts it again on its port, after killing it if it still runs.
    ///
    /// # Panics
    ///
    /// Panics if it does not start.
    pub async fn restart(&mut self) {
        self.kill();
        let (folder, port) = (self.scratch.path().to_owned(), self.port);
        let started = blocking(move || launch(&folder, port)).await;
        self.process = Some(started.unwrap_or_else(|why| panic!("{why}")));
    }

    /// Freezes it: connections stay open and nothing passes.
    pub fn pause(&self) {
        self.scratch.stop_all();
    }

    /// Lets it go on after [`pause`](Self::pause).
    pub fn resume(&self) {
        self.scratch.continue_all();
    }
}

fn launch(folder: &Path, port: u16) -> Result<Process, String> {
    let program = tools::first_of(&["/usr/sbin/pgbouncer"], "PgBouncer");
    let log = File::options().create(true).append(true).open(folder.join("log"));
    let log = log.expect("a log can be opened");
    let (program, first) = user::words(program);
    let mut process = Process::start(program, |command| {
        user::plain_environment(command);
        command.args(first).arg(folder.join("pgbouncer.ini")).current_dir(folder).stderr(log);
    });
    let mut ended = None;
    let listens = until(|| {
        ended = process.ended();
        ended.is_some() || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
    });
    match (ended, listens) {
        (None, true) => Ok(process),
        (None, false) => Err(format!("PgBouncer does not listen\n{}", read_log(folder))),
        (Some(status), _) => Err(format!("PgBouncer ended: {status}\n{}", read_log(folder))),
    }
}

fn read_log(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::servers::Major;

    const WHO: &str = "SELECT pg_backend_pid();";

    #[tokio::test]
    async fn two_clients_use_one_backend_in_turn() {
        let server = Postgres::shared(Major::V15).await;
        let database = server.database("pooled").await;
        let pooler = PgBouncer::start(server, 1).await;
        let url = pooler.url_of("pooled");
        let mut stays = server.session(&url);
        let first = stays.ask(WHO).await;
        let second = server.session(&url).ask(WHO).await;
        assert_eq!(first, second, "a client that is in no transaction holds the backend");
        assert_eq!(stays.ask(WHO).await, first);
        assert_ne!(server.session(&database).ask(WHO).await, first);
    }

    #[tokio::test]
    async fn a_transaction_keeps_its_backend_until_it_ends() {
        let server = Postgres::shared(Major::V17).await;
        server.database("pool_of_one").await;
        let pooler = PgBouncer::start(server, 1).await;
        let url = pooler.url_of("pool_of_one");
        let mut holder = server.session(&url);
        holder.ask("BEGIN;").await;
        let mut waiter = server.session(&url);
        waiter.say("SELECT 'served';");
        until_one_waits(server, &pooler.url_of("pgbouncer")).await;
        holder.ask("COMMIT;").await;
        assert_eq!(waiter.hear().await, "served");
    }

    /// The pooler itself tells who waits.
    async fn until_one_waits(server: &Postgres, admin: &str) {
        let mut admin = server.session(admin);
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let pools = admin.ask("SHOW POOLS;").await;
            let pool = pools.lines().find(|pool| pool.starts_with("pool_of_one|"));
            if pool.and_then(|pool| pool.split('|').nth(3)) == Some("1") {
                return;
            }
            assert!(Instant::now() < deadline, "nobody waits: {pools}");
        }
    }

    #[tokio::test]
    async fn roles_that_come_later_are_let_in_and_a_killed_pooler_comes_back() {
        let server = Postgres::shared(Major::V18).await;
        let mut pooler = PgBouncer::start(server, 2).await;
        server.run_sql("CREATE ROLE pooled_app LOGIN").await;
        let url = pooler.url_of("postgres").replacen("postgres@", "pooled_app@", 1);
        for _ in 0..2 {
            assert_eq!(server.session(&url).ask("SELECT current_user;").await, "pooled_app");
            pooler.kill();
            pooler.restart().await;
        }
    }
}
