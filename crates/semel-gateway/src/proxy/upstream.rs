//! One upstream: its address, its connections, its circuit, and what is counted of it.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{HeaderValue, Uri, uri::Scheme};
use rustls_pki_types::ServerName;
use semel::{Clock, Monotonic};
use thiserror::Error;
use tokio::{
    net::{TcpStream, lookup_host},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::{
    counters::Counters,
    failure::NotSent,
    link::Link,
    socket::{Counted, Socket},
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
    slots: Arc<Semaphore>,
    /// The one used last stands last.
    idle: Mutex<VecDeque<Link>>,
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
            slots: Arc::new(Semaphore::new(settings.connections_max)),
            idle: Mutex::default(),
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

    /// Returns the connection that was idle for the shortest time, if that is at most `idle_max`.
    pub(super) fn take(&self, idle_max: Duration) -> Option<Link> {
        let now = self.clock.monotonic();
        let idle_max = idle_max.min(self.settings.idle_for);
        loop {
            let mut link = {
                let mut idle = self.idle();
                if now.since(idle.back()?.idle_since) > idle_max {
                    return None;
                }
                idle.pop_back()?
            };
            if link.is_ready() {
                return Some(link);
            }
        }
    }

    /// Keeps a connection for the next exchange, or closes it if there are enough.
    pub(super) fn put(&self, mut link: Link) {
        link.idle_since = self.clock.monotonic();
        let mut idle = self.idle();
        if idle.len() < self.settings.idle_max {
            idle.push_back(link);
        }
    }

    /// Closes what was idle for too long, or closed by the upstream.
    pub(crate) fn prune(&self) {
        let now = self.clock.monotonic();
        let kept = |link: &mut Link| {
            now.since(link.idle_since) <= self.settings.idle_for && link.is_ready()
        };
        self.idle().retain_mut(kept);
    }

    /// Opens a new connection.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what was opened.
    pub(super) async fn connect(&self) -> Result<Link, NotSent> {
        let until = self.clock.monotonic().after(self.settings.connect_wait);
        let slot = self.slot(until).await?;
        let left = until.since(self.clock.monotonic());
        let (socket, given) = timeout(left, self.dial())
            .await
            .map_err(|_| NotSent::Connect("the connection was not made in time".into()))??;
        self.counters.connected();
        Link::open(socket, given, slot).await.map_err(|error| NotSent::Connect(error.to_string()))
    }

    /// Waits for leave to open a connection.
    async fn slot(&self, until: Monotonic) -> Result<OwnedSemaphorePermit, NotSent> {
        let slots = Arc::clone(&self.slots);
        if let Ok(slot) = Arc::clone(&slots).try_acquire_owned() {
            return Ok(slot);
        }
        // Idle connections that this exchange may not use make room for one it may.
        drop(self.idle().pop_front());
        let left = until.since(self.clock.monotonic());
        match timeout(left, slots.acquire_owned()).await {
            Ok(Ok(slot)) => Ok(slot),
            Ok(Err(_)) | Err(_) => Err(NotSent::Busy),
        }
    }

    async fn dial(&self) -> Result<(Socket, super::socket::Given), NotSent> {
        let refused = |error: std::io::Error| NotSent::Connect(error.to_string());
        let addresses = lookup_host((self.host.as_str(), self.port)).await;
        let mut last = NotSent::Address("the name has no address".into());
        for address in addresses.map_err(|error| NotSent::Address(error.to_string()))? {
            match TcpStream::connect(address).await {
                Ok(tcp) => {
                    tcp.set_nodelay(true).map_err(refused)?;
                    return self.secured(Counted::new(tcp)).await;
                }
                Err(error) => last = refused(error),
            }
        }
        Err(last)
    }

    async fn secured(&self, tcp: Counted) -> Result<(Socket, super::socket::Given), NotSent> {
        let given = tcp.given();
        let Some((connector, name)) = &self.tls else {
            return Ok((Socket::Plain(tcp), given));
        };
        let handshake = connector.connect(name.clone(), tcp).await;
        let tls = handshake.map_err(|error| NotSent::Tls(error.to_string()))?;
        Ok((Socket::Tls(Box::new(tls)), given))
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<Link>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upstream").field("settings", &self.settings).finish_non_exhaustive()
    }
}

fn is_secure(url: &Uri) -> Result<bool, &'static str> {
    match url.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => Ok(false),
        Some(scheme) if *scheme == Scheme::HTTPS => Ok(true),
        _ => Err("its URL must begin with http:// or https://"),
    }
}
