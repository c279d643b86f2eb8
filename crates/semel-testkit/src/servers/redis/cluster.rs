//! A cluster of six nodes: three primaries, and a replica of each.

use std::net::SocketAddr;

use tokio::sync::OnceCell;

use super::super::{
    patience::{blocking, until},
    port,
};
use super::{Builder, Redis, RedisKind};

const PRIMARIES: usize = 3;
const SLOTS: usize = 16_384;

/// A cluster. Dropping it ends all of its nodes.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Redis>,
}

impl RedisCluster {
    /// Starts six nodes, and waits until each knows all and every replica has what its primary has. Who
    /// does not answer for a second is gone.
    ///
    /// # Panics
    ///
    /// Panics if they do not start or do not become a cluster.
    pub async fn start(kind: RedisKind) -> Self {
        Self::of(Redis::builder(kind)).await
    }

    /// Starts six nodes that are set up alike, as [`start`](Self::start) does.
    ///
    /// # Panics
    ///
    /// Panics if they do not start or do not become a cluster.
    pub async fn of(builder: Builder) -> Self {
        blocking(move || {
            let cluster = Self { nodes: (0..2 * PRIMARIES).map(|_| node(&builder)).collect() };
            cluster.join();
            cluster
        })
        .await
    }

    /// Returns the cluster that all tests of the process share, starting it for the first. Each test uses
    /// keys of its own in it, and leaves its running alone.
    ///
    /// # Panics
    ///
    /// Panics if it does not start.
    pub async fn shared(kind: RedisKind) -> &'static Self {
        static CLUSTERS: [OnceCell<RedisCluster>; 3] = [const { OnceCell::const_new() }; 3];
        let place = RedisKind::ALL.iter().position(|other| *other == kind);
        let cluster = &CLUSTERS[place.expect("all kinds are listed")];
        cluster.get_or_init(|| Self::start(kind)).await
    }

    /// Returns where the nodes listen, the first primaries first.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(Redis::address).collect()
    }

    /// Returns where the nodes speak TLS.
    ///
    /// # Panics
    ///
    /// Panics if they do not, by [`Builder::tls`].
    #[must_use]
    pub fn tls_addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(Redis::tls_address).collect()
    }

    /// Returns the nodes, the first primaries first, to be killed and restarted.
    #[must_use]
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// Returns a node, to be killed and restarted.
    pub fn node(&mut self, at: usize) -> &mut Redis {
        &mut self.nodes[at]
    }

    /// Returns the nodes that take themselves for primaries now.
    ///
    /// # Panics
    ///
    /// Panics if one that lives does not answer in time.
    #[must_use]
    pub async fn primaries(&self) -> Vec<SocketAddr> {
        let mut primaries = Vec::new();
        for node in &self.nodes {
            if node.process.is_some() && node.is_primary().await {
                primaries.push(node.address());
            }
        }
        primaries
    }

    /// Waits until three nodes that live take themselves for primaries, and every one that lives says that
    /// all slots are served.
    ///
    /// # Panics
    ///
    /// Panics if they do not come to be.
    pub async fn until_whole(&self) {
        let living = self.nodes.iter().filter(|node| node.process.is_some());
        let addresses: Vec<_> = living.map(Redis::address).collect();
        blocking(move || {
            let said =
                |node: &SocketAddr, words: &[&str]| super::talk(*node, words).unwrap_or_default();
            let is_whole = |node: &SocketAddr| {
                let said = said(node, &["CLUSTER", "INFO"]);
                said.contains("cluster_state:ok") && said.contains("cluster_slots_pfail:0")
            };
            let leads = |node: &&SocketAddr| said(node, &["ROLE"]).starts_with("master");
            let whole = until(|| {
                addresses.iter().all(is_whole)
                    && addresses.iter().filter(leads).count() == PRIMARIES
            });
            assert!(whole, "the cluster is not whole");
        })
        .await;
    }

    fn join(&self) {
        for (at, node) in self.nodes.iter().enumerate() {
            ok(node, &["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()]);
            if at < PRIMARIES {
                let (first, next) = (at * SLOTS / PRIMARIES, (at + 1) * SLOTS / PRIMARIES);
                let (first, last) = (first.to_string(), (next - 1).to_string());
                ok(node, &["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
            }
            self.meet(node);
        }
        let known = |node: &Redis| info(node, "cluster_known_nodes:6");
        assert!(until(|| self.nodes.iter().all(known)), "the nodes do not know each other");
        for at in 0..PRIMARIES {
            let id = self.nodes[at].said(&["CLUSTER", "MYID"]);
            let replica = &self.nodes[PRIMARIES + at];
            let follows = || replica.said(&["CLUSTER", "REPLICATE", &id]) == "OK";
            assert!(until(follows), "a node does not become a replica");
        }
        let ready = |node: &Redis| info(node, "cluster_state:ok") && info(node, "cluster_size:3");
        assert!(until(|| self.nodes.iter().all(ready)), "the cluster does not come to be");
        let synced = |node: &Redis| node.said(&["INFO", "replication"]).contains("status:up");
        assert!(until(|| self.nodes[PRIMARIES..].iter().all(synced)), "a replica has no copy");
        let counted =
            |node: &Redis| node.said(&["INFO", "replication"]).contains("connected_slaves:1");
        assert!(until(|| self.nodes[..PRIMARIES].iter().all(counted)), "a primary has no replica");
    }

    /// The first is told of everybody; the rest spreads by itself.
    fn meet(&self, node: &Redis) {
        let (host, port) = (node.address().ip().to_string(), node.address().port().to_string());
        let bus = bus_of(node);
        ok(&self.nodes[0], &["CLUSTER", "MEET", &host, &port, &bus]);
    }
}

fn node(builder: &Builder) -> Redis {
    // By default the bus lies ten thousand ports above, which may be past the last.
    let bus = port::free_port().to_string();
    let builder = builder
        .clone()
        .setting("cluster-enabled", "yes")
        .setting("tls-cluster", if builder.tls.is_some() { "yes" } else { "no" })
        .setting("cluster-port", &bus)
        .setting("cluster-node-timeout", "1000")
        .setting("cluster-announce-ip", "127.0.0.1");
    builder.start_fresh()
}

fn bus_of(node: &Redis) -> String {
    let said = node.said(&["CONFIG", "GET", "cluster-port"]);
    said.lines().nth(1).expect("a node has a bus").to_owned()
}

fn ok(node: &Redis, words: &[&str]) {
    let said = node.said(words);
    assert_eq!(said, "OK", "{words:?}");
}

fn info(node: &Redis, says: &str) -> bool {
    node.said(&["CLUSTER", "INFO"]).contains(says)
}
