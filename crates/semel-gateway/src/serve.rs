//! The gateway: the layer around the proxy, its listeners, and how all of it begins and ends.

use std::{collections::HashMap, fmt, io, sync::Arc, time::Duration};

use semel::{
    Clock, Engine, StoreError, SystemClock,
    outbox::relay::Relay,
    store::capability::{Inspect, SweepBudget},
};
use semel_http::{BuildError, Operations, RouteError, SemelLayer};
use thiserror::Error;
use tokio::{net::TcpListener, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower_layer::Layer as _;

use crate::{
    admin::{self, Admin},
    auth::AuthRequest,
    config::StoreUrl,
    entry::Entry,
    listener::Listener,
    proxy::{Proxy, Routes, Tunnels, Upstream, UpstreamError},
    relay::{self, RelayingError},
    settings::{ListenerLimits, Settings, UpstreamSettings},
    shutdown::Shutdown,
    stores::{self, Opened},
    tls::{self, TlsError},
};

/// How often connections that nobody uses are looked through.
const PRUNE_EVERY: Duration = Duration::from_secs(1);

/// Says why a gateway cannot serve.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The authorisation endpoint or an upstream cannot be used.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The layer cannot be built.
    #[error("the operations cannot be protected")]
    Layer(#[from] BuildError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// Why not.
        #[source]
        error: io::Error,
    },
    /// An operation is bridged, and its upstream is not sent permits.
    #[error("the operation {operation} is bridged, and the upstream `{upstream}` is not")]
    NotBridged {
        /// The operation.
        operation: semel::Operation,
        /// The upstream's name.
        upstream: String,
    },
    /// The operations cannot be used together.
    #[error("the operations cannot be used")]
    Operations(#[from] RouteError),
    /// Events cannot be relayed.
    #[error(transparent)]
    Relaying(RelayingError),
    /// The store cannot be opened.
    #[error("the store {url} cannot be opened")]
    Store {
        /// Its URL.
        url: StoreUrl,
        /// Why not.
        #[source]
        error: StoreError,
    },
    /// The listener's TLS cannot be set up.
    #[error("the listener cannot speak TLS")]
    Tls(#[from] TlsError),
    /// An operation names an upstream that is not there.
    #[error("the operation {operation} names the upstream `{upstream}`, which is not there")]
    UnknownUpstream {
        /// The operation.
        operation: semel::Operation,
        /// The name.
        upstream: String,
    },
}

/// How a gateway ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum Ended {
    /// Everything that ran has ended and is stored.
    Clean,
    /// Something was cut short; what it held keeps its lease, and `on_lost` decides.
    CutShort,
}

/// A gateway that is ready to serve.
pub struct Gateway {
    engine: Engine,
    layer: SemelLayer,
    inspect: Arc<dyn Inspect>,
    service: Entry<semel_http::SemelService<Proxy>>,
    upstreams: Vec<Arc<Upstream>>,
    tunnels: Tunnels,
    relay: Option<Relay>,
    tls: Option<Arc<rustls::ServerConfig>>,
    limits: ListenerLimits,
    ready_wait: Duration,
    shutdown_wait: Duration,
    clock: Arc<dyn Clock>,
}

/// Serves until a shutdown has ended; the admin listener is opened as the settings say.
///
/// # Errors
///
/// Fails before anything is served, if something in the settings cannot be used.
pub async fn run(
    settings: &Settings,
    listener: TcpListener,
    shutdown: Shutdown,
) -> Result<Ended, ServeError> {
    let admin = match settings.admin {
        Some(admin) => Some(
            TcpListener::bind(admin.address)
                .await
                .map_err(|error| ServeError::Listen { address: admin.address, error })?,
        ),
        None => None,
    };
    Ok(Gateway::new(settings).await?.serve(listener, admin, shutdown).await)
}

impl Gateway {
    /// Opens the store and puts the gateway together.
    ///
    /// # Errors
    ///
    /// Fails if something in the settings cannot be used.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    pub async fn new(settings: &Settings) -> Result<Self, ServeError> {
        let opened = stores::open(&settings.store).await;
        let opened =
            opened.map_err(|error| ServeError::Store { url: settings.store.url.clone(), error })?;
        Self::with_store(settings, opened).await
    }

    /// Puts the gateway together on a store that is open already, whatever the settings say of one.
    ///
    /// # Errors
    ///
    /// Fails if something in the settings cannot be used.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    pub async fn with_store(settings: &Settings, opened: Opened) -> Result<Self, ServeError> {
        let tls = settings.tls.as_ref().map(tls::server).transpose()?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let inspect = Arc::clone(&opened.inspect);
        let outbox = opened.outbox.clone();
        let engine = engine(opened, settings, &clock);
        let tunnels = Tunnels::default();
        let mut upstreams = upstreams(&settings.upstreams, &clock)?;
        let routes = routes(settings, &upstreams)?;
        let mut layer = SemelLayer::builder(engine.clone(), routes.operations.clone())
            .in_flight_max(settings.in_flight_max);
        let tenant = Arc::clone(&settings.tenant);
        layer = layer.tenant(move |parts: &http::request::Parts| tenant.tenant(parts));
        layer = match settings.authorize.clone() {
            Some(auth) => {
                let auth = AuthRequest::new(auth, Arc::clone(&clock))?;
                upstreams.push(Arc::clone(auth.upstream()));
                layer.authorize(auth)
            }
            None => layer.replay_auth_none(),
        };
        let layer = layer.build()?;
        let relay = match &settings.relay {
            Some(relay) => Some(relay::start(relay, outbox, &clock).await?),
            None => None,
        };
        let proxy = Proxy::new(routes, settings.forwarded, tunnels.clone());
        Ok(Self {
            service: Entry { inner: layer.layer(proxy), head_max: settings.limits.head_max },
            engine,
            layer,
            inspect,
            relay,
            upstreams,
            tunnels,
            tls,
            limits: settings.limits,
            ready_wait: settings.admin.map_or(Duration::from_secs(2), |admin| admin.ready_wait),
            shutdown_wait: settings.shutdown_wait,
            clock,
        })
    }

    /// Returns the engine, for the counters.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Serves until a shutdown has ended.
    pub async fn serve(
        self,
        listener: TcpListener,
        admin: Option<TcpListener>,
        shutdown: Shutdown,
    ) -> Ended {
        let connections = TaskTracker::new();
        let killed = shutdown.now().child_token();
        let background = TaskTracker::new();
        let over = CancellationToken::new();
        let _ends_background = over.clone().drop_guard();
        self.prune_with(&background, &over);
        if let Some(tcp) = admin {
            let admin = Admin::new(admin::Shared {
                gateway: Some(admin::Serving {
                    engine: self.engine.clone(),
                    layer: self.layer.clone(),
                    inspect: Arc::clone(&self.inspect),
                    upstreams: self.upstreams.clone(),
                    connections: connections.clone(),
                    counted: Default::default(),
                }),
                relay: self.relay.clone(),
                closing: shutdown.gentle().clone(),
                ready_wait: self.ready_wait,
                clock: Arc::clone(&self.clock),
            });
            background.spawn(admin.serve(tcp, over.clone()));
        }
        let listener = Listener {
            tcp: listener,
            tls: self.tls.clone(),
            limits: self.limits,
            connections: connections.clone(),
            closing: shutdown.gentle().clone(),
            killed: killed.clone(),
        };
        listener.serve(self.service.clone()).await;
        let served = async {
            tokio::select! {
                ended = self.end(&connections) => ended,
                () = shutdown.now().cancelled() => Ended::CutShort,
            }
        };
        let (served, relayed) = tokio::join!(served, self.end_relay(&shutdown));
        killed.cancel();
        if relayed == Ended::Clean { served } else { Ended::CutShort }
    }

    /// Lets what runs finish within the bound.
    async fn end(&self, connections: &TaskTracker) -> Ended {
        let until = self.clock.monotonic().after(self.shutdown_wait);
        let left = || until.since(self.clock.monotonic());
        connections.close();
        let finished = async {
            connections.wait().await;
            self.layer.drain().await;
        };
        tokio::pin!(finished);
        // Waiting retries get the answer they wait for if it comes soon. After two thirds of the time
        // the engine closes, and they are told to come back while there is time to tell them.
        let soon = timeout(self.shutdown_wait * 2 / 3, finished.as_mut()).await.is_ok();
        self.tunnels.closing.cancel();
        let closed = self.engine.close(left());
        if soon {
            return if closed.await { Ended::Clean } else { Ended::CutShort };
        }
        let (closed, finished) = tokio::join!(closed, timeout(left(), finished));
        if closed && finished.is_ok() { Ended::Clean } else { Ended::CutShort }
    }

    async fn end_relay(&self, shutdown: &Shutdown) -> Ended {
        match &self.relay {
            Some(relay) => relay::end(relay, self.shutdown_wait, shutdown).await,
            None => Ended::Clean,
        }
    }

    fn prune_with(&self, background: &TaskTracker, over: &CancellationToken) {
        let (upstreams, over) = (self.upstreams.clone(), over.clone());
        background.spawn(async move {
            let mut every = tokio::time::interval(PRUNE_EVERY);
            loop {
                tokio::select! {
                    () = over.cancelled() => return,
                    _ = every.tick() => upstreams.iter().for_each(|upstream| upstream.prune()),
                }
            }
        });
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("upstreams", &self.upstreams).finish_non_exhaustive()
    }
}

fn engine(opened: Opened, settings: &Settings, clock: &Arc<dyn Clock>) -> Engine {
    let mut engine =
        Engine::builder(opened.store).clock(Arc::clone(clock)).waiters_max(settings.waiters_max);
    if let Some(bridge) = opened.bridge {
        engine = engine.bridge(bridge);
    }
    if let Some(notify) = opened.notify {
        engine = engine.notify(notify);
    }
    let engine = engine.build();
    let budget = SweepBudget { records: settings.sweep_records };
    engine.sweep_with(opened.sweep, settings.sweep_every, budget);
    engine
}

fn upstreams(
    settings: &[UpstreamSettings],
    clock: &Arc<dyn Clock>,
) -> Result<Vec<Arc<Upstream>>, UpstreamError> {
    let make = |settings: &UpstreamSettings| {
        Upstream::new(settings.clone(), Arc::clone(clock)).map(Arc::new)
    };
    settings.iter().map(make).collect()
}

fn routes(settings: &Settings, upstreams: &[Arc<Upstream>]) -> Result<Routes, ServeError> {
    let named: HashMap<_, _> =
        upstreams.iter().map(|upstream| (upstream.settings.name.as_str(), upstream)).collect();
    let mut by_operation = HashMap::new();
    let mut operations = Vec::new();
    for protected in &settings.operations {
        operations.push(protected.operation.clone());
        let Some(name) = &protected.upstream else { continue };
        let operation = protected.operation.name().clone();
        let upstream = named.get(name.as_str()).ok_or_else(|| ServeError::UnknownUpstream {
            operation: operation.clone(),
            upstream: name.clone(),
        })?;
        if protected.operation.is_bridged() && !upstream.settings.bridged {
            return Err(ServeError::NotBridged { operation, upstream: name.clone() });
        }
        by_operation.insert(operation, Arc::clone(upstream));
    }
    let by_prefix = upstreams.iter().flat_map(|upstream| {
        let prefixes = upstream.settings.prefixes.iter();
        prefixes.map(|prefix| (prefix.clone(), Arc::clone(upstream)))
    });
    Ok(Routes::new(Operations::new(operations)?, by_operation, by_prefix))
}
