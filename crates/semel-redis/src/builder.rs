//! How a store is opened.

use std::{
    fmt,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize},
    },
    time::Duration,
};

use semel::{Outcome, StoreError, store::capability::Durability};

use crate::{
    RedisStore,
    address::{Address, Files, Way},
    connect::Connector,
    ended::Ended,
    error::invalid,
    hints::Hints,
    link::Link,
    scripts::Scripts,
    settings::{Demands, Verdict},
    space::{BUCKETS, Space},
    wait::Wait,
};

/// Opens a [`RedisStore`].
#[derive(Clone)]
#[must_use]
pub struct RedisBuilder {
    url: Box<str>,
    prefix: Box<str>,
    password: Option<Box<str>>,
    files: Files,
    clock: Option<Box<str>>,
    accept_volatile: bool,
    answer_wait: Duration,
    audit_max: u32,
    body_max: usize,
    connect_wait: Duration,
    connections: Option<usize>,
    stated: Option<Durability>,
    wait: Wait,
}

impl RedisBuilder {
    pub(crate) fn of_url(url: &str) -> Self {
        Self {
            url: url.into(),
            prefix: "semel".into(),
            password: None,
            files: Files::default(),
            clock: None,
            accept_volatile: false,
            answer_wait: Duration::from_secs(10),
            audit_max: 100_000,
            body_max: 1024 * 1024,
            connect_wait: Duration::from_secs(2),
            connections: None,
            stated: None,
            wait: Wait::NONE,
        }
    }

    /// Accepts a server that may lose what it acknowledges: one that keeps no file of its writes or flushes it
    /// later, that may evict records, or that may fail over to a replica which has not everything. The store then
    /// says that it is volatile, and operations that must be durable refuse it. No by default.
    pub const fn accept_volatile(mut self, accept: bool) -> Self {
        self.accept_volatile = accept;
        self
    }

    /// Sets how long the server may take to answer. A connection that takes longer is dropped, and its callers are
    /// told that nobody knows; they ask again by the same token. 10 s by default.
    pub const fn answer_wait(mut self, wait: Duration) -> Self {
        self.answer_wait = wait;
        self
    }

    /// Sets how many audit rows are kept, about: the oldest of each of 256 parts go first. 100,000 by default.
    pub const fn audit_max(mut self, rows: u32) -> Self {
        self.audit_max = rows;
        self
    }

    /// Sets the file of certificate authorities, in PEM, that the servers' certificates are checked against; those
    /// of the web by default.
    pub fn authority(mut self, file: impl Into<PathBuf>) -> Self {
        self.files.authority = Some(file.into());
        self
    }

    /// Sets the largest outcome body that is kept, in bytes. 1 MiB by default.
    pub const fn body_max(mut self, bytes: usize) -> Self {
        self.body_max = bytes;
        self
    }

    /// Sets the body of the Lua function that tells the time to the scripts, in microseconds since 1970. The
    /// server's `TIME` by default.
    pub fn clock(mut self, lua: impl Into<Box<str>>) -> Self {
        self.clock = Some(lua.into());
        self
    }

    /// Sets how long making a connection may take. 2 s by default.
    pub const fn connect_wait(mut self, wait: Duration) -> Self {
        self.connect_wait = wait;
        self
    }

    /// Sets how many connections the store shares out among its callers. By default 1, which carries many callers
    /// at once; 8 where answers wait for replicas and 32 where they wait for disks, since a connection that waits
    /// answers nobody else.
    pub const fn connections(mut self, connections: usize) -> Self {
        self.connections = Some(connections);
        self
    }

    /// Sets the files, in PEM, of the certificate that servers are shown which ask for one, and of its key.
    pub fn identity(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.files.identity = Some((certificate.into(), key.into()));
        self
    }

    /// Sets the password of the user in the URL, where that holds none.
    pub fn password(mut self, password: impl Into<Box<str>>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Sets what all keys begin with: 1 to 64 letters, digits, `.`, `_`, `-` or `:`. `semel` by default.
    pub fn prefix(mut self, prefix: impl Into<Box<str>>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// States whether the server keeps what it acknowledges and evicts nothing, where it does not let its settings
    /// be read, as many that are run by others. Nobody checks it.
    pub const fn stated(mut self, durability: Durability) -> Self {
        self.stated = Some(durability);
        self
    }

    /// Sets whether nothing is answered before the server's own disk has it (`WAITAOF`, Redis 7.2): for servers
    /// that flush every second. No by default.
    pub const fn wait_flushed(mut self, flushed: bool) -> Self {
        self.wait.flushed = flushed;
        self
    }

    /// Sets how long replicas and disks may take before a caller is told that nobody knows. 2 s by default: a server
    /// that flushes every second takes up to one.
    pub const fn wait_for(mut self, wait: Duration) -> Self {
        self.wait.up_to = wait;
        self
    }

    /// Sets how many replicas must have a write before it is answered (`WAIT`). With fewer nothing is granted. 0 by
    /// default.
    pub const fn wait_replicas(mut self, replicas: u32) -> Self {
        self.wait.replicas = replicas;
        self
    }

    /// Sets how many replicas' disks must have a write before it is answered (`WAITAOF`, Redis 7.2). 0 by default.
    pub const fn wait_replicas_flushed(mut self, replicas: u32) -> Self {
        self.wait.replicas_flushed = replicas;
        self
    }

    /// Checks what can be checked without a server: the URL, the prefix, the files of certificates.
    ///
    /// # Errors
    ///
    /// Fails with an error whose sentence says what is wrong, and shows no secret.
    pub fn check(&self) -> Result<(), StoreError> {
        Space::new(&self.prefix)?;
        self.address().map(drop)
    }

    fn address(&self) -> Result<Address, StoreError> {
        let address = Address::read(&self.url, &self.files)?;
        Ok(match &self.password {
            Some(password) => address.with_password(password),
            None => address,
        })
    }

    /// Connects, and checks that the server keeps what it acknowledges. Must be called inside a Tokio runtime.
    ///
    /// By TLS, ring becomes the process's default provider of rustls's cryptography where there is none yet; a
    /// process that wants another installs it before.
    ///
    /// # Errors
    ///
    /// Fails with an error whose kind and sentence say what to do about a server that is away, that can only be
    /// read, or that may lose what it acknowledges.
    pub async fn open(self) -> Result<RedisStore, StoreError> {
        let counts = [self.connections.unwrap_or(1), self.body_max.min(Outcome::BODY_MAX)];
        let waits = [self.answer_wait, self.connect_wait, self.wait.up_to];
        if counts.contains(&0) || waits.contains(&Duration::ZERO) {
            return Err(invalid(
                "answer_wait, body_max, connect_wait, connections and wait_for must be at least 1",
            ));
        }
        let address = self.address()?;
        let demands = Demands {
            accept_volatile: self.accept_volatile,
            stated: self.stated,
            wait: self.wait,
            // Who names several servers means that another one may take over.
            fails_over: address.way != Way::Direct || address.hosts.len() > 1,
        };
        let space = Space::new(&self.prefix)?;
        let mut connector = Connector {
            address,
            // An answer comes after whatever it waits for.
            answer_wait: self.answer_wait.max(self.wait.up_to * 2),
            connect_wait: self.connect_wait,
            demands,
        };
        let (first, verdict) = connector.connect().await?;
        let durability = match verdict {
            Verdict::Durable => Durability::Durable,
            Verdict::Volatile => Durability::Volatile,
            Verdict::Refused(what_to_set) => return Err(invalid(what_to_set)),
        };
        // What was found durable is not to become less behind the back of those who rely on it.
        connector.demands.accept_volatile &= durability == Durability::Volatile;
        let lines = match self.wait {
            wait if wait.asks_for_disks() => 32,
            wait if wait.is_wanted() => 8,
            _ => 1,
        };
        let lines = self.connections.unwrap_or(lines);
        let buckets = u32::try_from(BUCKETS).unwrap_or(u32::MAX);
        Ok(RedisStore {
            audit_max: self.audit_max.div_ceil(buckets).max(1),
            body_max: self.body_max.min(Outcome::BODY_MAX),
            durability,
            // Plain commands know no other time than the server's, and what is waited for counts from a write.
            ended: (self.clock.is_none() && !self.wait.is_wanted()).then(Ended::new),
            hints: Hints::new(&self.prefix),
            link: Link::new(Arc::new(connector), space, self.wait, lines, first),
            scripts: Scripts::new(self.clock.as_deref()),
            swept: AtomicUsize::new(0),
            is_sweeping: AtomicBool::new(false),
        })
    }
}

/// Without the URL: it has secrets.
impl fmt::Debug for RedisBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBuilder")
            .field("prefix", &self.prefix)
            .field("accept_volatile", &self.accept_volatile)
            .field("stated", &self.stated)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}
