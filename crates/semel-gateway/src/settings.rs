//! What the gateway runs with, as plain data: the configuration is read elsewhere and ends here.
//!
//! Every default stands in a `Default` or a `new` of this file.

use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use http::{HeaderName, HeaderValue, Uri};
use semel::outbox::{Destination, Start, relay::RelayPolicy};
use semel_http::TenantSource;

use crate::config::{Secret, StoreUrl};

/// Everything the gateway runs with.
#[derive(Clone)]
pub struct Settings {
    /// Where records live.
    pub store: StoreSettings,
    /// The servers behind the gateway.
    pub upstreams: Vec<UpstreamSettings>,
    /// What is protected, and by which upstream it is served.
    pub operations: Vec<Protected>,
    /// Who asks.
    pub tenant: Arc<dyn TenantSource>,
    /// Who is asked before anything that comes from the store is sent; `None` says that nobody needs
    /// to be.
    pub authorize: Option<AuthSettings>,
    /// The TLS of the listener; without it the listener speaks plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Where operators and probes connect.
    pub admin: Option<AdminSettings>,
    /// What one client connection may take.
    pub limits: ListenerLimits,
    /// What is believed of the headers in which proxies tell of each other.
    pub forwarded: Forwarded,
    /// How many bytes of bodies may be held at once over all requests with a key.
    pub in_flight_max: usize,
    /// How many callers may wait for other holders at once.
    pub waiters_max: usize,
    /// How often records are swept.
    pub sweep_every: Duration,
    /// How many records one step of a sweep touches.
    pub sweep_records: u32,
    /// How long a shutdown waits for what runs.
    pub shutdown_wait: Duration,
    /// How the events of the store's outbox are relayed by the same process, if they are.
    pub relay: Option<RelaySettings>,
}

impl Settings {
    /// Makes settings with every default, without operations and upstreams.
    #[must_use]
    pub fn new(store: impl Into<StoreSettings>, tenant: impl TenantSource + 'static) -> Self {
        Self {
            store: store.into(),
            upstreams: Vec::new(),
            operations: Vec::new(),
            tenant: Arc::new(tenant),
            authorize: None,
            tls: None,
            admin: None,
            limits: ListenerLimits::default(),
            forwarded: Forwarded::default(),
            in_flight_max: 256 << 20,
            waiters_max: 1_000,
            sweep_every: Duration::from_secs(60),
            sweep_records: 500,
            shutdown_wait: Duration::from_secs(30),
            relay: None,
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("store", &self.store)
            .field("upstreams", &self.upstreams)
            .field("operations", &self.operations)
            .finish_non_exhaustive()
    }
}

/// Where records live, and how that place is used.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// Where.
    pub url: StoreUrl,
    /// How, if it is PostgreSQL.
    pub postgres: PostgresSettings,
    /// How, if it is Redis.
    pub redis: RedisSettings,
}

impl From<StoreUrl> for StoreSettings {
    fn from(url: StoreUrl) -> Self {
        Self { url, postgres: PostgresSettings::default(), redis: RedisSettings::default() }
    }
}

/// How a store in PostgreSQL is used.
#[derive(Clone, Debug)]
pub struct PostgresSettings {
    /// The schema that holds everything.
    pub schema: String,
    /// The password of the user in the URL, if it is not in the URL.
    pub password: Option<Secret>,
    /// The authorities that the server's certificate is checked against, in PEM.
    pub ca: Option<PathBuf>,
    /// How many connections are opened at most.
    pub connections: usize,
    /// Whether statements are prepared under names.
    pub prepared: bool,
    /// Whether a gateway that starts makes or migrates the schema.
    pub migrate: bool,
    /// Whether events leave only once some standby has flushed their transactions.
    pub flushed: bool,
    /// Whether commits of events are told between processes.
    pub listen: bool,
}

impl Default for PostgresSettings {
    fn default() -> Self {
        Self {
            schema: "semel".to_owned(),
            password: None,
            ca: None,
            connections: 6,
            prepared: false,
            migrate: true,
            flushed: false,
            listen: false,
        }
    }
}

/// How a store in Redis or Valkey is used.
#[derive(Clone, Debug)]
pub struct RedisSettings {
    /// What all keys begin with.
    pub prefix: String,
    /// The password of the user in the URL, if it is not in the URL.
    pub password: Option<Secret>,
    /// The authorities that the servers' certificates are checked against, in PEM.
    pub ca: Option<PathBuf>,
    /// The certificate that servers are shown which ask for one, and its key, in PEM.
    pub client: Option<(PathBuf, PathBuf)>,
    /// Whether servers are accepted that may lose what they acknowledge.
    pub accept_volatile: bool,
    /// What is known of servers that do not let their settings be read.
    pub stated: Option<StatedDurability>,
    /// How many replicas must have a write before it is answered.
    pub wait_replicas: u32,
    /// Whether the server's own disk must have it.
    pub wait_flushed: bool,
    /// How many replicas' disks must have it.
    pub wait_replicas_flushed: u32,
    /// How long replicas and disks may take.
    pub wait_for: Duration,
}

impl Default for RedisSettings {
    fn default() -> Self {
        Self {
            prefix: "semel".to_owned(),
            password: None,
            ca: None,
            client: None,
            accept_volatile: false,
            stated: None,
            wait_replicas: 0,
            wait_flushed: false,
            wait_replicas_flushed: 0,
            wait_for: Duration::from_secs(2),
        }
    }
}

/// What is known of a server that does not let its settings be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StatedDurability {
    /// It keeps what it acknowledges, and evicts nothing.
    Durable,
    /// It may lose what it acknowledges.
    Volatile,
}

/// An operation, and the upstream that serves it.
#[derive(Clone, Debug)]
pub struct Protected {
    /// The operation.
    pub operation: semel_http::Operation,
    /// The name of its upstream; `None` where the path decides.
    pub upstream: Option<String>,
}

/// How an upstream is reached.
#[derive(Clone, Debug)]
pub struct UpstreamSettings {
    /// Its name, in metrics and problem documents.
    pub name: String,
    /// `http` or `https`, a host, perhaps a port, perhaps a path that is put before every path.
    pub url: Uri,
    /// The paths that belong to it where no operation says otherwise, such as `/billing`; the longest
    /// match wins, and `/` matches every path.
    pub prefixes: Vec<String>,
    /// The certificates trusted for `https`; without it, Mozilla's roots.
    pub ca_file: Option<PathBuf>,
    /// Which `Host` is sent.
    pub host: HostHeader,
    /// Whether what it says by `semel-effect` and `semel-pointer` is believed.
    pub trusted: bool,
    /// Whether it is sent the permits of bridged operations.
    pub bridged: bool,
    /// How long finding the address, connecting and the TLS handshake may take together, and the
    /// wait for a free connection.
    pub connect_wait: Duration,
    /// How long the head of an answer may take, from the first byte of the request on.
    pub answer_wait: Duration,
    /// How long the next piece of a body may take.
    pub body_wait: Duration,
    /// How many connections may be open at once.
    pub connections_max: usize,
    /// How many of them are kept while nobody uses them.
    pub idle_max: usize,
    /// How long one is kept while nobody uses it.
    pub idle_for: Duration,
    /// When no call is tried any more.
    pub circuit: CircuitSettings,
}

impl UpstreamSettings {
    /// Makes the settings of an upstream with every default.
    #[must_use]
    pub fn new(name: impl Into<String>, url: Uri) -> Self {
        Self {
            name: name.into(),
            url,
            prefixes: Vec::new(),
            ca_file: None,
            host: HostHeader::Upstream,
            trusted: false,
            bridged: false,
            connect_wait: Duration::from_secs(5),
            answer_wait: Duration::from_secs(60),
            body_wait: Duration::from_secs(300),
            connections_max: 512,
            idle_max: 64,
            // Shorter than the five seconds after which many servers close an idle connection.
            idle_for: Duration::from_secs(4),
            circuit: CircuitSettings::default(),
        }
    }
}

/// Which `Host` an upstream is sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum HostHeader {
    /// The one the client sent.
    Client,
    /// The one in the upstream's URL.
    #[default]
    Upstream,
}

/// When an upstream is left alone for a while.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CircuitSettings {
    /// After how many failures in a row the circuit opens; zero never opens it.
    pub failures: u32,
    /// How long it stays open until one call is tried.
    pub open_for: Duration,
}

impl Default for CircuitSettings {
    fn default() -> Self {
        Self { failures: 5, open_for: Duration::from_secs(5) }
    }
}

/// What is believed of the headers in which proxies tell of each other.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Forwarded {
    /// What came with the request is kept and added to: only proxies of one's own can connect.
    Append,
    /// What came with the request is dropped.
    #[default]
    Replace,
}

/// The endpoint that is asked before anything that comes from the store is sent.
#[derive(Clone, Debug)]
pub struct AuthSettings {
    /// The endpoint, and how it is reached; its URL is asked as it stands.
    pub upstream: UpstreamSettings,
    /// How long it may take altogether.
    pub wait: Duration,
    /// Request headers that are not passed to it, besides those of the body and of the connection.
    pub without: Vec<HeaderName>,
}

/// The files of a listener's TLS.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsFiles {
    /// The certificate chain in PEM, the server's own first.
    pub certificate: PathBuf,
    /// Its private key in PEM.
    pub key: PathBuf,
}

/// What one client connection may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ListenerLimits {
    /// How many client connections may be open at once.
    pub connections_max: usize,
    /// How long a TLS handshake may take.
    pub handshake_wait: Duration,
    /// How long the head of a request may take, and how long a connection may be idle.
    pub head_wait: Duration,
    /// How long the next piece of a request's body may take.
    pub body_wait: Duration,
    /// How long a client may take nothing of an answer.
    pub write_wait: Duration,
    /// The largest head of a request, in bytes.
    pub head_max: usize,
    /// The largest number of headers.
    pub headers_max: usize,
}

impl Default for ListenerLimits {
    fn default() -> Self {
        Self {
            connections_max: 4096,
            handshake_wait: Duration::from_secs(10),
            head_wait: Duration::from_secs(60),
            body_wait: Duration::from_secs(30),
            write_wait: Duration::from_secs(60),
            head_max: 64 * 1024,
            headers_max: 100,
        }
    }
}

/// Where operators and probes connect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AdminSettings {
    /// The address.
    pub address: SocketAddr,
    /// How long the store may take to be called ready.
    pub ready_wait: Duration,
}

impl AdminSettings {
    /// Makes the settings of the admin listener with every default.
    #[must_use]
    pub const fn new(address: SocketAddr) -> Self {
        Self { address, ready_wait: Duration::from_secs(2) }
    }
}

/// How events are relayed.
#[derive(Clone, Debug)]
pub struct RelaySettings {
    /// Where they go.
    pub destinations: Vec<DestinationSettings>,
    /// Within which bounds.
    pub policy: RelayPolicy,
    /// What orders the events of a pass.
    pub source: RelaySource,
}

/// What orders the events that are read at once.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RelaySource {
    /// Replication slots: the order of commits.
    Slot,
    /// The table: the order of positions.
    #[default]
    Table,
}

/// Somewhere events go.
#[derive(Clone, Debug)]
pub struct DestinationSettings {
    /// Its name: the store keeps its cursor under it.
    pub name: Destination,
    /// How events are sent there.
    pub sink: Sink,
    /// The types of aggregates whose events go there; all if there are none.
    pub types: Vec<String>,
    /// Where it begins if nobody ever led it.
    pub start: Start,
    /// How long one send may take.
    pub publish_wait: Duration,
}

/// How events are sent.
#[derive(Clone, Debug)]
pub enum Sink {
    /// As requests.
    Http(HttpSink),
    /// To Kafka.
    Kafka(KafkaSink),
}

/// How events are sent as requests.
#[derive(Clone)]
pub struct HttpSink {
    /// Where. Its path and query may hold a secret.
    pub url: Uri,
    /// What `Authorization` says.
    pub authorization: Option<Secret>,
    /// The media type of payloads whose event says none.
    pub content_type: HeaderValue,
    /// The certificates trusted for `https`; without it, Mozilla's roots.
    pub ca_file: Option<PathBuf>,
    /// How many requests may be on their way at once.
    pub connections_max: usize,
    /// How long finding the address, connecting and the TLS handshake may take together.
    pub connect_wait: Duration,
}

impl fmt::Debug for HttpSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSink").field("host", &self.url.host()).finish_non_exhaustive()
    }
}

/// How events are sent to Kafka.
#[derive(Clone, Eq, PartialEq)]
pub struct KafkaSink {
    /// The brokers that are asked first.
    pub brokers: Vec<String>,
    /// The topic; `${aggregatetype}` stands for the type of the aggregate.
    pub topic: String,
    /// Settings of librdkafka, some of which are secrets.
    pub settings: Vec<(String, String)>,
}

impl fmt::Debug for KafkaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { brokers, topic, .. } = self;
        let mut debug = f.debug_struct("KafkaSink");
        debug.field("brokers", brokers).field("topic", topic).finish_non_exhaustive()
    }
}
