//! How a connection to a primary is made.

use std::{collections::HashMap, time::Duration};

use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, ProtocolVersion, RedisError, Value,
    aio::{AsyncPushSender, MultiplexedConnection},
    cluster::ClusterClient,
    cmd,
};
use rustls::crypto::{CryptoProvider, ring};

use crate::{
    address::{Address, Way},
    error::{Fault, Next, invalid, odd, unavailable},
    link::Live,
    settings::{Demands, Verdict},
};

/// Makes connections.
#[derive(Debug)]
pub(crate) struct Connector {
    pub(crate) address: Address,
    pub(crate) answer_wait: Duration,
    pub(crate) connect_wait: Duration,
    pub(crate) demands: Demands,
}

impl Connector {
    /// Connects to the primary, whoever it is, or to the cluster, and judges its settings.
    pub(crate) async fn connect(&self) -> Result<(Live, Verdict), Fault> {
        if self.address.is_tls() {
            have_cryptography();
        }
        match &self.address.way {
            Way::Cluster => self.cluster().await,
            Way::Direct => self.first().await,
            Way::Sentinel(name) => {
                let (host, port) = self.named(name).await?;
                self.primary(&host, port).await
            }
        }
    }

    async fn cluster(&self) -> Result<(Live, Verdict), Fault> {
        let hosts = self.address.hosts.iter();
        let infos = hosts.map(|(host, port)| self.address.server(host, *port));
        let mut builder = ClusterClient::builder(infos.collect::<Result<Vec<_>, _>>()?)
            .retries(0)
            .connection_timeout(self.connect_wait)
            .response_timeout(self.answer_wait);
        if let Some(certificates) = self.address.certificates() {
            builder = builder.certs(certificates);
        }
        let mut cluster = builder.build()?.get_async_connection().await?;
        let verdict = self.demands.of_cluster(&mut cluster).await?;
        Ok((Live::Cluster(cluster), verdict))
    }

    /// Connects to the first host that is a primary and has the replicas that are waited for: an old primary that came
    /// back has none.
    async fn first(&self) -> Result<(Live, Verdict), Fault> {
        let mut last = None;
        for (host, port) in &self.address.hosts {
            match self.primary(host, *port).await {
                Ok(connection) => return Ok(connection),
                Err(fault) if fault.next == Next::Fail && fault.error.kind().is_definite() => {
                    return Err(fault);
                }
                Err(fault) => last = Some(fault),
            }
        }
        Err(last.unwrap_or_else(|| unavailable("the Redis URL names no host").into()))
    }

    /// Makes a connection that is told what is published: to the primary, or to the first node of a cluster that
    /// answers, since each of them hears what is said to any.
    pub(crate) async fn listening(
        &self,
        told: impl AsyncPushSender + Clone,
    ) -> Result<MultiplexedConnection, Fault> {
        let hosts = match &self.address.way {
            Way::Sentinel(name) => vec![self.named(name).await?],
            Way::Cluster | Way::Direct => self.address.hosts.clone(),
        };
        let mut last = None;
        for (host, port) in &hosts {
            let info = self.address.server(host, *port)?;
            let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
            let info = info.set_redis_settings(settings);
            let config = AsyncConnectionConfig::new().set_push_sender(told.clone());
            let opened = async {
                let mut connection = self.open_with(info, config).await?;
                let server = Server::of(&mut connection).await?;
                Ok((connection, server.role == "master"))
            };
            match opened.await {
                Ok((connection, is_primary)) if is_primary || self.address.way == Way::Cluster => {
                    return Ok(connection);
                }
                Ok(_) => {}
                Err(fault) => last = Some(fault),
            }
        }
        Err(last.unwrap_or_else(|| unavailable("no host of the Redis URL is a primary").into()))
    }

    async fn primary(&self, host: &str, port: u16) -> Result<(Live, Verdict), Fault> {
        let mut connection = self.open(self.address.server(host, port)?).await?;
        let server = Server::of(&mut connection).await?;
        if server.mode == "cluster" {
            return Err(invalid(
                "the server is a node of a cluster; add cluster=true to the options of its URL",
            )
            .into());
        }
        if server.mode == "sentinel" {
            return Err(invalid(
                "the server is a sentinel; add sentinel=NAME to the options of its URL",
            )
            .into());
        }
        if server.role != "master" {
            let error = RedisError::from((
                redis::ErrorKind::Server(redis::ServerErrorKind::ReadOnly),
                "the server is a replica",
            ));
            return Err(error.into());
        }
        let verdict = self.demands.of_server(&mut connection).await?;
        Ok((Live::One(connection), verdict))
    }

    async fn open(&self, info: ConnectionInfo) -> Result<MultiplexedConnection, Fault> {
        self.open_with(info, AsyncConnectionConfig::new()).await
    }

    async fn open_with(
        &self,
        info: ConnectionInfo,
        config: AsyncConnectionConfig,
    ) -> Result<MultiplexedConnection, Fault> {
        let client = match self.address.certificates() {
            Some(certificates) => Client::build_with_tls(info, certificates).map_err(|error| {
                invalid(format!(
                    "the files of client_cert, client_key and ca cannot be used: {error}"
                ))
            })?,
            None => Client::open(info)?,
        };
        let config = config
            .set_connection_timeout(Some(self.connect_wait))
            .set_response_timeout(Some(self.answer_wait));
        Ok(client.get_multiplexed_async_connection_with_config(&config).await?)
    }

    /// Asks all sentinels for the primary, and takes the one that most of them name: one that was away may
    /// still name the last.
    async fn named(&self, name: &str) -> Result<(String, u16), Fault> {
        let asked = self.address.hosts.iter().map(|(host, port)| self.told(host, *port, name));
        let mut votes: HashMap<(String, u16), usize> = HashMap::new();
        let mut last = None;
        for told in futures_util::future::join_all(asked).await {
            match told {
                Ok(Some(named)) => *votes.entry(named).or_default() += 1,
                Ok(None) => {}
                Err(fault) => last = Some(fault),
            }
        }
        let most = votes.into_iter().max_by_key(|(_, votes)| *votes);
        match (most, last) {
            (Some((named, _)), _) => Ok(named),
            (None, Some(fault)) => Err(fault),
            (None, None) => {
                Err(invalid(format!("no sentinel knows a primary called {name}; correct the URL"))
                    .into())
            }
        }
    }

    async fn told(
        &self,
        host: &str,
        port: u16,
        name: &str,
    ) -> Result<Option<(String, u16)>, Fault> {
        let ask = async {
            let mut sentinel = self.open(self.address.watcher(host, port)?).await?;
            let mut ask = cmd("SENTINEL");
            ask.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
            let named: Option<(String, u16)> = ask.query_async(&mut sentinel).await?;
            Ok(named)
        };
        let late = || Fault::from(unavailable("a sentinel does not answer"));
        tokio::time::timeout(self.connect_wait * 2, ask).await.map_err(|_| late())?
    }
}

/// Sees to it that the process has a default for the cryptography of TLS: the driver knows no other way to it,
/// and panics where there is none, or two could be meant.
fn have_cryptography() {
    if CryptoProvider::get_default().is_none() {
        // Somebody else may have been quicker, which will do as well.
        drop(ring::default_provider().install_default());
    }
}

/// What a server says of itself to whoever greets it, whatever it lets its user do.
struct Server {
    mode: String,
    role: String,
}

impl Server {
    async fn of(connection: &mut MultiplexedConnection) -> Result<Self, Fault> {
        let said = connection.send_packed_command(&cmd("HELLO")).await?.extract_error()?;
        let pairs = pairs(said)?;
        let word = |name: &str| pairs.get(name).cloned().unwrap_or_default();
        Ok(Self { mode: word("mode"), role: word("role") })
    }
}

/// Reads names and texts that follow each other; what is no text is left out.
pub(crate) fn pairs(said: Value) -> Result<HashMap<String, String>, Fault> {
    let pairs: Vec<(Value, Value)> = match said {
        Value::Map(pairs) => pairs,
        Value::Array(values) => {
            let mut pairs = Vec::new();
            let mut values = values.into_iter();
            while let (Some(name), Some(value)) = (values.next(), values.next()) {
                pairs.push((name, value));
            }
            pairs
        }
        _ => return Err(odd()),
    };
    let text = |value| redis::from_redis_value::<String>(value).ok();
    Ok(pairs.into_iter().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect())
}
