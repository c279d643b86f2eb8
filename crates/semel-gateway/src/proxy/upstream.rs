//! One upstream: its address, its connections, its circuit, and what is counted of it.

use std::{sync::Arc, time::Duration};

use http::{HeaderValue, Uri, uri::Scheme};
use rustls_pki_types::ServerName;
use semel::{Clock, Monotonic};
use thiserror::Error;
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::{
    counters::Counters,
    failure::NotSent,
    link::Link,
    pool::{Place, Pool},
    socket::{Counted, Given, Socket},
};
use crate::{
    circuit::Circuit,
    settings::UpstreamSettings,
    tls::{self, TlsError},
};

/// Says why an upstream cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UpstreamError {
    /// Its TLS cannot be set up.
    #[error("the upstream `{name}` cannot be used")]
    Tls {
        /// The upstream.
        name: String,
        /// Why not.
        #[source]
        error: TlsError,
    },
    /// Its URL cannot be used.
    #[error("the upstream `{name}` cannot be used: {reason}")]
    Url {
        /// The upstream.
        name: String,
        /// What its URL lacks.
        reason: &'static str,
    },
}

/// An upstream as it is used.
pub struct Upstream {
    pub(crate) settings: UpstreamSettings,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) circuit: Circuit,
    pub(super) counters: Counters,
    /// What `Host` says of it.
    pub(super) authority: HeaderValue,
    /// What is put before every path.
    pub(super) base: String,
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    pool: Pool,
}

impl Upstream {
    /// Makes an upstream of its settings; nothing is connected.
    ///
    /// # Errors
    ///
    /// Fails if its URL or its certificates cannot be used.
    pub fn new(settings: UpstreamSettings, clock: Arc<dyn Clock>) -> Result<Self, UpstreamError> {
        let url = settings.url.clone();
        let refused = |reason| UpstreamError::Url { name: settings.name.clone(), reason };
        let secure = is_secure(&url).map_err(refused)?;
        let authority = url.authority().ok_or_else(|| refused("its URL names no host"))?;
        if authority.as_str().contains('@') {
            return Err(refused("its URL carries a user, which is not sent anywhere"));
        }
        if url.query().is_some() {
            return Err(refused("its URL carries a query"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = if secure {
            let config = tls::client(settings.ca_file.as_deref())
                .map_err(|error| UpstreamError::Tls { name: settings.name.clone(), error })?;
            let name = ServerName::try_from(host.clone())
                .map_err(|_| refused("its host is no name a certificate can carry"))?;
            Some((TlsConnector::from(config), name))
        } else {
            None
        };
        Ok(Self {
            authority: HeaderValue::from_str(authority.as_str())
                .map_err(|_| refused("its host cannot be sent in a header"))?,
            base: url.path().trim_end_matches('/').to_owned(),
            port: url.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            host,
            tls,
            circuit: Circuit::new(settings.circuit),
            counters: Counters::default(),
            pool: Pool::new(settings.connections_max, settings.idle_max, settings.idle_for),
            clock,
            settings,
        })
    }

    /// Returns what `Host` says of it.
    pub(crate) const fn authority(&self) -> &HeaderValue {
        &self.authority
    }

    /// Returns every counter with its metric's name and its further labels.
    pub(crate) fn named_counters(&self) -> Vec<(&'static str, &'static str, u64)> {
        self.counters.named()
    }

    /// Says whether nothing is sent to it for now.
    pub(crate) fn is_left_alone(&self) -> bool {
        self.circuit.is_open()
    }

    /// Returns a connection that was idle for at most `idle_max`.
    pub(super) fn take(&self, idle_max: Duration) -> Option<Box<Link>> {
        self.pool.take(self.clock.monotonic(), idle_max)
    }

    /// Keeps a connection for another exchange.
    pub(super) fn put(&self, link: Box<Link>) {
        self.pool.put(link, self.clock.monotonic());
    }

    /// Closes connections that nobody will use.
    pub(crate) fn prune(&self) {
        self.pool.prune(self.clock.monotonic());
    }

    /// Opens a connection, or waits for one that has just been used.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what was opened.
    pub(super) async fn connect(&self) -> Result<Box<Link>, NotSent> {
        let until = self.clock.monotonic().after(self.settings.connect_wait);
        let place = timeout(self.settings.connect_wait, self.pool.place()).await;
        let slot = match place.ok().flatten() {
            Some(Place::Link(link)) => return Ok(link),
            Some(Place::Slot(slot)) => slot,
            None => return Err(NotSent::Busy),
        };
        let left = until.since(self.clock.monotonic());
        let (socket, given) = timeout(left, self.dial(until)).await.map_err(|_| late())??;
        self.counters.connected();
        let opened = Link::open(socket, given, slot).await;
        opened.map(Box::new).map_err(|error| NotSent::Connect(error.to_string()))
    }

    /// Tries one address after the other, none of them so long that the next has no time left.
    async fn dial(&self, until: Monotonic) -> Result<(Socket, Given), NotSent> {
        let refused = |error: std::io::Error| NotSent::Connect(error.to_string());
        let found = lookup_host((self.host.as_str(), self.port)).await;
        let mut addresses = found.map_err(|error| NotSent::Address(error.to_string()))?.peekable();
        let mut last = NotSent::Address("the name has no address".into());
        while let Some(address) = addresses.next() {
            let left = until.since(self.clock.monotonic());
            let share = if addresses.peek().is_some() { left / 2 } else { left };
            match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(tcp)) => {
                    tcp.set_nodelay(true).map_err(refused)?;
                    return self.secured(Counted::new(tcp)).await;
                }
                Ok(Err(error)) => last = refused(error),
                Err(_) => last = late(),
            }
        }
        Err(last)
    }

    async fn secured(&self, tcp: Counted) -> Result<(Socket, Given), NotSent> {
        let given = tcp.given();
        let Some((connector, name)) = &self.tls else {
            return Ok((Socket::Plain(tcp), given));
        };
        let handshake = connector.connect(name.clone(), tcp).await;
        let tls = handshake.map_err(|error| NotSent::Tls(error.to_string()))?;
        Ok((Socket::Tls(Box::new(tls)), given))
    }
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upstream").field("settings", &self.settings).finish_non_exhaustive()
    }
}

fn late() -> NotSent {
    NotSent::Connect("the connection was not made in time".into())
}

fn is_secure(url: &Uri) -> Result<bool, &'static str> {
    match url.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => Ok(false),
        Some(scheme) if *scheme == Scheme::HTTPS => Ok(true),
        _ => Err("its URL must begin with http:// or https://"),
    }
}
