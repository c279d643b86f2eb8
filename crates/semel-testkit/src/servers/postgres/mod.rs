//! Private PostgreSQL servers: on loopback, with data that nobody has used, gone with the test.

mod install;
mod launch;
mod session;
mod shared;
mod sql;
mod standby;
#[cfg(test)]
mod tests;

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};

use self::launch::Launch;
pub use self::{install::Major, session::Session, standby::failover_url};
use super::{
    Disk, Process,
    patience::blocking,
    port,
    scratch::{Medium, Scratch},
};

/// What every server is told, before what the test tells it.
const SETTINGS: &[(&str, &str)] = &[
    ("listen_addresses", "127.0.0.1"),
    ("max_connections", "300"),
    ("max_prepared_transactions", "20"),
    ("shared_buffers", "64MB"),
    // In the data folder: a killed server leaves nothing behind in shared memory.
    ("dynamic_shared_memory_type", "mmap"),
    ("log_line_prefix", "%m [%p] "),
    // A standby may be paused for as long as a test likes.
    ("wal_keep_size", "256MB"),
];

/// What a server is told that need not survive the machine, and lies in memory.
const UNSAFE_SETTINGS: &[(&str, &str)] =
    &[("fsync", "off"), ("full_page_writes", "off"), ("max_wal_size", "256MB")];

/// Sets up a private server.
#[derive(Debug, Clone)]
#[must_use]
pub struct Builder {
    major: Major,
    settings: Vec<(String, String)>,
    environment: Vec<(String, String)>,
    fsync: bool,
    disk_mib: Option<u32>,
}

impl Builder {
    /// Sets a configuration parameter; the last word counts.
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Says whether commits reach the disk. They do not unless asked for, and the data lies in
    /// memory: only a test that takes power away, or measures, can tell. A killed *process* loses
    /// nothing either way.
    pub fn fsync(mut self, fsync: bool) -> Self {
        self.fsync = fsync;
        self
    }

    /// Gives the data a disk of its own, of this size, whose power can be cut; commits reach it.
    /// Only where [`Disk::usable`] says that it can be.
    pub fn disk(mut self, mib: u32) -> Self {
        self.disk_mib = Some(mib);
        self.fsync(true)
    }

    /// Sets a variable of the server's environment, which is all but empty.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Panics
    ///
    /// Panics if this major is not installed or the server does not start.
    pub async fn start(self) -> Postgres {
        blocking(move || self.start_with(|scratch| install::fresh_data(self.major, scratch))).await
    }

    /// Starts a server on the data that `fill` puts into its folder.
    fn start_with(&self, fill: impl FnOnce(&Path)) -> Postgres {
        let medium = if self.fsync { Medium::Disk } else { Medium::Memory };
        let scratch = Scratch::new("postgres", medium);
        let disk = self.disk_mib.map(|mib| Disk::of_server(scratch.path(), mib));
        fill(scratch.path());
        // The data was made once without a flush, and copied.
        disk.iter().for_each(Disk::flush);
        let mut launch = Launch {
            program: self.major.program("postgres"),
            folder: scratch.path().to_owned(),
            port: 0,
            environment: self.environment.clone(),
        };
        let socket = launch.folder.to_str().expect("a temporary folder's name is UTF-8").to_owned();
        let unsafe_settings = if self.fsync { &[] } else { UNSAFE_SETTINGS };
        let own = self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let socket = ("unix_socket_directories", socket.as_str());
        let all = SETTINGS.iter().chain(unsafe_settings).copied().chain([socket]).chain(own);
        launch.configure(all);
        let (port, process) =
            port::start_on_free_port(|port| Launch { port, ..launch.clone() }.start());
        launch.port = port;
        Postgres { built: self.clone(), launch, process: Some(process), disk, scratch }
    }
}

/// A private server. Dropping it ends it, with all its backends, and removes its data.
#[derive(Debug)]
pub struct Postgres {
    built: Builder,
    launch: Launch,
    process: Option<Process>,
    // Before the folder that it is mounted in.
    disk: Option<Disk>,
    scratch: Scratch,
}

impl Postgres {
    /// Sets up a server of one major.
    pub fn builder(major: Major) -> Builder {
        Builder {
            major,
            settings: Vec::new(),
            environment: Vec::new(),
            fsync: false,
            disk_mib: None,
        }
    }

    /// Starts a server as it comes: see [`Builder`] for other ways.
    ///
    /// # Panics
    ///
    /// Panics if this major is not installed or the server does not start.
    pub async fn start(major: Major) -> Self {
        Self::builder(major).start().await
    }

    /// Returns its major.
    #[must_use]
    pub fn major(&self) -> Major {
        self.built.major
    }

    /// Returns where it listens; that stays through a restart.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.launch.port).into()
    }

    /// Returns the URL of the database `postgres`, as its superuser.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// Returns the URL of a database, as the superuser. No user has a password.
    #[must_use]
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@{}/{database}", self.address())
    }

    /// Returns the folder of its Unix socket, for those who name a folder as host.
    #[must_use]
    pub fn socket_folder(&self) -> &Path {
        self.scratch.path()
    }

    /// Returns what it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        self.launch.log()
    }

    /// Creates an empty database and returns its URL.
    ///
    /// # Panics
    ///
    /// Panics if there is one of this name.
    pub async fn database(&self, name: &str) -> String {
        // From the template that nobody is connected to.
        self.run_sql(&format!("CREATE DATABASE \"{name}\" TEMPLATE template0")).await;
        self.url_of(name)
    }

    /// Runs statements for setting up in the database `postgres`, and returns their rows: a line
    /// each, columns set apart by `|`.
    ///
    /// # Panics
    ///
    /// Panics with the server's words if a statement fails.
    pub async fn run_sql(&self, statements: &str) -> String {
        let rows = self.try_sql("postgres", statements).await;
        rows.unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    /// Runs statements in a database, each in a transaction of its own unless they say otherwise.
    ///
    /// # Errors
    ///
    /// Fails with the words of psql at the first statement that does.
    pub async fn try_sql(&self, database: &str, statements: &str) -> Result<String, String> {
        let (major, url) = (self.major(), self.url_of(database));
        let statements = statements.to_owned();
        blocking(move || sql::run(major, &url, &statements)).await
    }

    /// Kills it with all its backends, as the kernel does when memory runs out.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
        self.scratch.kill_all();
    }

    /// Shuts it down: open transactions are rolled back, connections are cut.
    ///
    /// # Panics
    ///
    /// Panics if it does not end.
    pub async fn stop(&mut self) {
        self.end_by("INT").await;
    }

    /// Shuts it down without a word to anybody, and without writing down what is only in the log: its
    /// immediate shutdown.
    ///
    /// # Panics
    ///
    /// Panics if it does not end.
    pub async fn stop_immediately(&mut self) {
        self.end_by("QUIT").await;
    }

    async fn end_by(&mut self, signal: &'static str) {
        self.resume();
        if let Some(mut process) = self.process.take() {
            blocking(move || Launch::stop(&mut process, signal)).await;
        }
        self.scratch.kill_all();
    }

    /// Cuts the power of its disk and ends it: what was not flushed is gone. Afterwards it can be
    /// restarted.
    ///
    /// # Panics
    ///
    /// Panics if it has no disk of its own, by [`Builder::disk`].
    pub async fn cut_power(&mut self) {
        let mut disk = self.disk.take().expect("the server has a disk of its own");
        self.pause();
        disk.cut();
        self.kill();
        self.disk = Some(
            blocking(move || {
                disk.back();
                disk
            })
            .await,
        );
    }

    /// Starts it again on its data and its port, after shutting it down if it still runs.
    ///
    /// # Panics
    ///
    /// Panics if it does not start.
    pub async fn restart(&mut self) {
        self.stop().await;
        let launch = self.launch.clone();
        let started = blocking(move || launch.start()).await;
        self.process = Some(started.unwrap_or_else(|why| panic!("{why}")));
    }

    /// Freezes it with all its backends: connections stay open and nothing answers.
    pub fn pause(&self) {
        self.scratch.stop_all();
    }

    /// Lets it go on after [`pause`](Self::pause).
    pub fn resume(&self) {
        self.scratch.continue_all();
    }
}
