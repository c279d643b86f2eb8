//! Three Sentinels that watch a primary and promote a replica when it is gone.

use std::net::{Ipv4Addr, SocketAddr};

use super::super::{
    Process,
    patience::{blocking, until},
    port,
    scratch::{Medium, Scratch},
};
use super::{Redis, RedisKind, RedisTls, launch::Launch, talk::talk};

/// Three Sentinels. Dropping them ends them.
#[derive(Debug)]
pub struct Sentinels {
    watchers: Vec<Watcher>,
}

#[derive(Debug)]
struct Watcher {
    port: u16,
    tls_port: Option<u16>,
    _process: Process,
    _scratch: Scratch,
}

impl Sentinels {
    /// What the watched servers are called.
    pub const NAME: &'static str = "mymaster";

    /// Starts three that watch `primary`, and waits until they know its replicas and each other. Who does
    /// not answer for half a second is gone, if two say so. Where the primary speaks TLS, they do too.
    ///
    /// # Panics
    ///
    /// Panics if they do not start.
    pub async fn watch(kind: RedisKind, primary: &Redis, replicas: usize) -> Self {
        let tls = primary.tls.as_ref().map(|(tls, _)| tls.clone());
        let primary = if tls.is_some() { primary.tls_address() } else { primary.address() };
        blocking(move || Self::start(kind, primary, tls.as_ref(), replicas)).await
    }

    fn start(
        kind: RedisKind,
        primary: SocketAddr,
        tls: Option<&RedisTls>,
        replicas: usize,
    ) -> Self {
        let watchers: Vec<_> = (0..3).map(|_| Watcher::start(kind, primary, tls)).collect();
        let ready = until(|| watchers.iter().all(|watcher| watcher.knows(replicas)));
        assert!(ready, "the sentinels do not know each other");
        Self { watchers }
    }

    /// Returns where they listen.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.watchers.iter().map(Watcher::address).collect()
    }

    /// Returns where they speak TLS, if they do.
    #[must_use]
    pub fn tls_addresses(&self) -> Vec<SocketAddr> {
        let ports = self.watchers.iter().filter_map(|watcher| watcher.tls_port);
        ports.map(|port| (Ipv4Addr::LOCALHOST, port).into()).collect()
    }

    /// Returns which server they take for the primary.
    ///
    /// # Panics
    ///
    /// Panics if they do not answer.
    #[must_use]
    pub async fn primary(&self) -> SocketAddr {
        let first = self.watchers[0].address();
        blocking(move || primary(first)).await
    }

    /// Returns which server all of them take for the primary, if they agree.
    pub async fn named(&self) -> Option<SocketAddr> {
        let addresses = self.addresses();
        blocking(move || {
            let first = primary(addresses[0]);
            addresses.iter().all(|watcher| primary(*watcher) == first).then_some(first)
        })
        .await
    }

    /// Waits until they take another server than `gone` for the primary, and returns it.
    ///
    /// # Panics
    ///
    /// Panics if they promote none.
    pub async fn promoted(&self, gone: SocketAddr) -> SocketAddr {
        let addresses = self.addresses();
        blocking(move || {
            let promoted = until(|| addresses.iter().all(|watcher| primary(*watcher) != gone));
            assert!(promoted, "no replica is promoted");
            primary(addresses[0])
        })
        .await
    }
}

fn primary(sentinel: SocketAddr) -> SocketAddr {
    let said = talk(sentinel, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Sentinels::NAME]);
    let said = said.expect("a sentinel answers");
    let address = said.split_once('\n').map(|(host, port)| format!("{host}:{port}"));
    address.and_then(|address| address.parse().ok()).expect("a sentinel names an address")
}

impl Watcher {
    fn start(kind: RedisKind, primary: SocketAddr, tls: Option<&RedisTls>) -> Self {
        let scratch = Scratch::new("sentinel", Medium::Memory);
        let program = kind.installed();
        let folder = scratch.path().to_owned();
        let mut launch =
            Launch { data: folder.clone(), folder, environment: Vec::new(), program, port: 0 };
        let name = Sentinels::NAME;
        let settings = [
            ("bind", "127.0.0.1".to_owned()),
            ("protected-mode", "no".to_owned()),
            ("sentinel", format!("monitor {name} {} {} 2", primary.ip(), primary.port())),
            ("sentinel", format!("down-after-milliseconds {name} 500")),
            ("sentinel", format!("failover-timeout {name} 5000")),
        ];
        let mut tls_port = None;
        let (port, process) = port::start_on_free_port(|port| {
            launch.port = port;
            tls_port = tls.map(|_| port::free_port());
            let secured = tls.zip(tls_port).map(|(tls, port)| tls.settings(port));
            let secured = secured.unwrap_or_default();
            let secured = secured.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            let own = settings.iter().map(|(name, value)| (*name, value.as_str()));
            launch.write(own.chain(secured));
            launch.start(&["--sentinel"])
        });
        Self { port, tls_port, _process: process, _scratch: scratch }
    }

    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    fn knows(&self, replicas: usize) -> bool {
        let said = talk(self.address(), &["SENTINEL", "MASTER", Sentinels::NAME]);
        let said = said.unwrap_or_default();
        let lines: Vec<_> = said.lines().collect();
        let is = |name: &str, value: usize| {
            let at = lines.iter().position(|line| *line == name);
            at.and_then(|at| lines.get(at + 1)).is_some_and(|is| *is == value.to_string())
        };
        is("num-slaves", replicas) && is("num-other-sentinels", 2)
    }
}
