//! What a server must be set to before anything is kept in it.

use std::collections::HashMap;

use redis::{
    Value,
    aio::MultiplexedConnection,
    cluster_async::ClusterConnection,
    cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo, SingleNodeRoutingInfo},
    cmd,
};
use semel::store::capability::Durability;

use crate::{
    connect::pairs,
    error::{Fault, invalid, is_forbidden, unavailable},
    wait::Wait,
};

const NAMES: [&str; 3] = ["appendonly", "appendfsync", "maxmemory-policy"];
/// What is read besides; a server that has it not does not do it.
const PAUSES: &str = "no-appendfsync-on-rewrite";
const UNSTATED: &str = "the server does not let its settings be read: find out whether it keeps what it acknowledges \
                        and evicts nothing, and say so by stating it durable or volatile";

/// What a server tells of its settings.
type Settings = HashMap<String, String>;

/// What is demanded of every server that is connected to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demands {
    pub(crate) accept_volatile: bool,
    /// What the user says of a server that does not let its settings be read.
    pub(crate) stated: Option<Durability>,
    pub(crate) wait: Wait,
    /// Whether a replica may be promoted by sentinels or by the cluster itself.
    pub(crate) fails_over: bool,
}

/// What the settings of the servers mean for what they acknowledge.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    Durable,
    /// It may be lost, and that was accepted.
    Volatile,
    /// It may be lost: nothing new is granted. The sentence says what to set.
    Refused(&'static str),
}

impl Verdict {
    /// What to set before anything is granted.
    pub(crate) const fn refusal(self) -> Option<&'static str> {
        match self {
            Self::Durable | Self::Volatile => None,
            Self::Refused(what_to_set) => Some(what_to_set),
        }
    }
}

/// Why what was acknowledged may be lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Loss {
    Failover,
    Evicts,
    NotFlushed,
    NotKept,
    PausesFlushes,
    UntrueDisks,
}

impl Loss {
    const fn what_to_set(self) -> &'static str {
        match self {
            Self::Failover => {
                "a failover may lose what was acknowledged: set wait_replicas to 1 or more, or accept_volatile"
            }
            Self::Evicts => {
                "the server may evict records: set its maxmemory-policy to noeviction, or accept_volatile"
            }
            Self::NotFlushed => {
                "the server acknowledges what no disk has: set its appendfsync to always, or wait_flushed, or \
                 accept_volatile"
            }
            Self::NotKept => {
                "the server keeps nothing over a restart: set its appendonly to yes and its appendfsync to always, or \
                 accept_volatile"
            }
            Self::PausesFlushes => {
                "the server flushes nothing while it rewrites its file: set its no-appendfsync-on-rewrite to no, or \
                 accept_volatile"
            }
            Self::UntrueDisks => {
                "Valkey answers WAITAOF before its disk has the write, unless it flushes each: set its appendfsync to \
                 always, wait for replicas by wait_replicas instead of wait_replicas_flushed, or accept_volatile"
            }
        }
    }
}

impl Demands {
    /// Judges one server.
    pub(crate) async fn of_server(
        &self,
        server: &mut MultiplexedConnection,
    ) -> Result<Verdict, Fault> {
        let mut is_valkey = false;
        if self.wait.asks_for_disks() {
            let said = server.send_packed_command(&probe()).await;
            knows_disks(said.and_then(Value::extract_error))?;
            let said = server.send_packed_command(cmd("INFO").arg("server")).await;
            is_valkey = names_valkey(said.and_then(Value::extract_error))?;
        }
        let said = server.send_packed_command(&config()).await;
        let said = said.and_then(Value::extract_error).map(|said| vec![said]);
        let verdict = self.judge(said, is_valkey)?;
        if self.wait.replicas_needed() > 0 {
            let said = server.send_packed_command(cmd("INFO").arg("replication")).await?;
            let said: String = redis::from_redis_value(said.extract_error()?).unwrap_or_default();
            self.has_replicas(&said)?;
        }
        Ok(verdict)
    }

    /// Judges a cluster by all of its nodes: the replicas are the primaries of tomorrow.
    pub(crate) async fn of_cluster(
        &self,
        cluster: &mut ClusterConnection,
    ) -> Result<Verdict, Fault> {
        let mut is_valkey = false;
        if self.wait.asks_for_disks() {
            let one = RoutingInfo::SingleNode(SingleNodeRoutingInfo::RandomPrimary);
            let said = cluster.route_command(probe(), one.clone()).await;
            knows_disks(said.and_then(Value::extract_error))?;
            let mut info = cmd("INFO");
            info.arg("server");
            let said = cluster.route_command(info, one).await;
            is_valkey = names_valkey(said.and_then(Value::extract_error))?;
        }
        let all = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllNodes, None));
        let said = cluster.route_command(config(), all).await;
        let each = |said: Value| match said.extract_error()? {
            Value::Map(nodes) => nodes
                .into_iter()
                .map(|(_, said)| said.extract_error())
                .collect::<Result<Vec<_>, _>>(),
            said => Ok(vec![said]),
        };
        self.judge(said.and_then(each), is_valkey)
    }

    /// What survives, by what the servers tell of their settings; by what is stated, where one does not tell all.
    fn judge(
        &self,
        said: Result<Vec<Value>, redis::RedisError>,
        is_valkey: bool,
    ) -> Result<Verdict, Fault> {
        let known = match said {
            Ok(said) => said.into_iter().map(pairs).collect::<Result<Vec<_>, _>>()?,
            Err(error) if is_forbidden(&error) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let tells = |said: &Settings| NAMES.iter().all(|name| said.contains_key(*name));
        if known.is_empty() || !known.iter().all(tells) {
            return Ok(match self.stated {
                Some(Durability::Durable) => Verdict::Durable,
                Some(Durability::Volatile) => Verdict::Volatile,
                None => Verdict::Refused(UNSTATED),
            });
        }
        Ok(match known.iter().find_map(|said| self.loss(said, is_valkey)) {
            None => Verdict::Durable,
            Some(_) if self.accept_volatile => Verdict::Volatile,
            Some(loss) => Verdict::Refused(loss.what_to_set()),
        })
    }

    fn loss(&self, said: &Settings, is_valkey: bool) -> Option<Loss> {
        let is = |name: &str, wanted: &str| said.get(name).is_some_and(|value| value == wanted);
        // Seen by its system calls: Valkey 9.1.2, flushing every second, answers at once, and Redis 8.2.3 when it has.
        let flushes_each = is("appendfsync", "always");
        let is_untrue =
            is_valkey && (self.wait.replicas_flushed > 0 || self.wait.flushed && !flushes_each);
        let waited = self.wait.replicas_needed() > 0;
        if !is("appendonly", "yes") {
            Some(Loss::NotKept)
        } else if !is("maxmemory-policy", "noeviction") {
            Some(Loss::Evicts)
        } else if is_untrue {
            Some(Loss::UntrueDisks)
        } else if !flushes_each && !self.wait.flushed {
            Some(Loss::NotFlushed)
        } else if is(PAUSES, "yes") && !self.wait.flushed {
            Some(Loss::PausesFlushes)
        } else if self.fails_over && !waited {
            Some(Loss::Failover)
        } else {
            None
        }
    }

    fn has_replicas(&self, said: &str) -> Result<(), Fault> {
        let count = said.lines().find_map(|line| line.trim().strip_prefix("connected_slaves:"));
        let count: u32 = count.and_then(|count| count.parse().ok()).unwrap_or(0);
        if count < self.wait.replicas_needed() {
            let asked = self.wait.replicas_needed();
            let message =
                format!("the primary has too few replicas: {count}, and {asked} are waited for");
            return Err(unavailable(message).into());
        }
        Ok(())
    }
}

fn config() -> redis::Cmd {
    let mut config = cmd("CONFIG");
    config.arg("GET").arg(&NAMES).arg(PAUSES);
    config
}

/// Asks for no disk at all: only whether the server could.
fn probe() -> redis::Cmd {
    let mut probe = cmd("WAITAOF");
    probe.arg(0).arg(0).arg(1);
    probe
}

fn knows_disks(said: redis::RedisResult<Value>) -> Result<(), Fault> {
    match said {
        Ok(_) => Ok(()),
        Err(error) if is_forbidden(&error) => Err(invalid(
            "the server cannot wait for disks (WAITAOF): it needs Redis 7.2 or Valkey, and the right to",
        )
        .into()),
        Err(error) => Err(error.into()),
    }
}

fn names_valkey(said: redis::RedisResult<Value>) -> Result<bool, Fault> {
    match said {
        Ok(said) => {
            let said: String = redis::from_redis_value(said).unwrap_or_default();
            Ok(said.lines().any(|line| line.trim() == "server_name:valkey"))
        }
        // Then its settings cannot be read either, and somebody speaks for it.
        Err(error) if is_forbidden(&error) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
