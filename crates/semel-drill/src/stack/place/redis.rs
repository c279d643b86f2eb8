//! The servers of a store in Redis or Valkey: one, three that Sentinels watch, or a cluster of six.

use std::{
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

use semel_gateway::settings::RedisSettings;
use semel_testkit::servers::{Redis, RedisCluster, Sentinels};
use tokio::time::sleep;

use super::{DISK_MIB, Line};
use crate::stack::{
    StackError,
    settings::{Settings, Store},
    skew::Skew,
    trouble::Trouble,
};

/// How long replicas that lag are cut off from their primary before it dies.
const LAG: Duration = Duration::from_millis(300);
/// Sentinels let a primary that came back believe in itself for ten seconds.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How many replicas the primary has that Sentinels watch.
const REPLICAS: usize = 2;

#[derive(Debug)]
enum Servers {
    Alone(Box<Redis>),
    Cluster(RedisCluster),
    Watched(Vec<Redis>, Sentinels),
}

/// The servers, and each gateway's way to the one, where it is one.
#[derive(Debug)]
pub(in crate::stack) struct RedisPlace {
    servers: Servers,
    pub(super) lines: Vec<Line>,
    /// How they are used.
    pub(super) used: RedisSettings,
    is_lagging: bool,
    pub(in crate::stack) skew: Option<Skew>,
}

impl RedisPlace {
    pub(super) async fn new(settings: &Settings, folder: &Path) -> Result<Self, StackError> {
        let setup = &settings.redis;
        let skew = Skew::of_server(settings, folder)?;
        let mut built = Redis::builder(setup.kind).setting("appendfsync", setup.flush.word());
        for (name, value) in skew.iter().flat_map(Skew::environment) {
            built = built.env(&name, &value);
        }
        if settings.has(Trouble::Power) {
            built = built.disk(DISK_MIB);
        }
        let mut lines = Vec::new();
        let servers = match settings.store {
            Store::RedisCluster => Servers::Cluster(RedisCluster::of(built).await),
            Store::RedisSentinel => {
                let primary = built.clone().start().await;
                let replica = || built.clone().replica_of(primary.address()).start();
                let (one, two) = tokio::join!(replica(), replica());
                let sentinels = Sentinels::watch(setup.kind, &primary, REPLICAS).await;
                Servers::Watched(vec![primary, one, two], sentinels)
            }
            _ => {
                let server = built.start().await;
                for gateway in 0..settings.gateways {
                    lines.push(Line::to(gateway, server.address()).await);
                }
                Servers::Alone(Box::new(server))
            }
        };
        let used = setup.used(settings.store);
        Ok(Self { servers, lines, used, is_lagging: settings.lagging_standby, skew })
    }

    /// Returns the server that has this number.
    pub(in crate::stack) fn server(&mut self, number: usize) -> &mut Redis {
        match &mut self.servers {
            Servers::Alone(server) => server,
            Servers::Cluster(cluster) => cluster.node(number),
            Servers::Watched(servers, _) => &mut servers[number],
        }
    }

    fn servers(&self) -> &[Redis] {
        match &self.servers {
            Servers::Alone(server) => std::slice::from_ref(&**server),
            Servers::Cluster(cluster) => cluster.nodes(),
            Servers::Watched(servers, _) => servers,
        }
    }

    /// Returns the numbers of all servers.
    pub(in crate::stack) fn all(&self) -> Vec<usize> {
        (0..self.servers().len()).collect()
    }

    /// Returns the numbers of those that lead.
    pub(in crate::stack) async fn leaders(&self) -> Vec<usize> {
        let leading = match &self.servers {
            Servers::Alone(server) => vec![server.address()],
            Servers::Cluster(cluster) => cluster.primaries().await,
            Servers::Watched(_, sentinels) => sentinels.named().await.into_iter().collect(),
        };
        let addresses = self.servers().iter().map(Redis::address);
        let leads = |(_, address): &(usize, SocketAddr)| leading.contains(address);
        addresses.enumerate().filter(leads).map(|(number, _)| number).collect()
    }

    /// Kills a primary, and waits until another leads in its place. Where replicas lag, they are cut off
    /// from it shortly before.
    pub(in crate::stack) async fn fail_over(&mut self, number: usize) {
        let gone = self.servers()[number].address();
        if self.is_lagging {
            let leaders = self.leaders().await;
            let followers = |number: &usize| !leaders.contains(number);
            let followers: Vec<_> = self.all().into_iter().filter(followers).collect();
            // Whoever is frozen does not come back at once.
            followers.iter().for_each(|number| self.servers()[*number].pause());
            self.servers()[number].ask(&["CLIENT", "KILL", "TYPE", "replica"]).await;
            sleep(LAG).await;
            self.server(number).kill();
            followers.iter().for_each(|number| self.servers()[*number].resume());
        } else {
            self.server(number).kill();
        }
        match &self.servers {
            Servers::Alone(_) => {}
            Servers::Cluster(cluster) => cluster.until_whole().await,
            Servers::Watched(_, sentinels) => drop(sentinels.promoted(gone).await),
        }
    }

    /// Waits until everybody agrees on who leads, and every replica has what its primary has: until then
    /// another loss could be one of two at once, which nobody promises to bear.
    pub(in crate::stack) async fn settle(&self) -> Result<(), StackError> {
        let deadline = Instant::now() + SETTLED_WITHIN;
        while !self.is_settled().await {
            if Instant::now() > deadline {
                return Err(StackError::Stuck("the servers do not agree on who leads".to_owned()));
            }
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    async fn is_settled(&self) -> bool {
        let replicas = match &self.servers {
            Servers::Alone(_) => return true,
            Servers::Cluster(cluster) => {
                cluster.until_whole().await;
                1
            }
            Servers::Watched(..) => REPLICAS,
        };
        let leaders = self.leaders().await;
        let wanted = self.servers().len() / (replicas + 1);
        for leader in &leaders {
            if !self.servers()[*leader].is_copied_by(replicas).await {
                return false;
            }
        }
        leaders.len() == wanted
    }

    /// Kills all of them, and starts them.
    pub(super) async fn start_anew(&mut self) -> Result<(), StackError> {
        for number in self.all() {
            self.server(number).kill();
        }
        for number in self.all() {
            self.server(number).restart().await;
        }
        self.settle().await
    }

    /// Returns the URL by which a gateway opens the store.
    pub(super) fn url_for(&self, gateway: usize) -> String {
        match self.lines.get(gateway) {
            Some(line) => line.proxy.through(&self.url()),
            None => self.url(),
        }
    }

    pub(super) fn url(&self) -> String {
        let listed = |hosts: Vec<SocketAddr>| {
            let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
            format!("redis://{}", hosts.join(","))
        };
        match &self.servers {
            Servers::Alone(server) => server.url(),
            Servers::Cluster(cluster) => format!("{}?cluster=true", listed(cluster.addresses())),
            Servers::Watched(_, sentinels) => {
                format!("{}/0?sentinel={}", listed(sentinels.addresses()), Sentinels::NAME)
            }
        }
    }
}
