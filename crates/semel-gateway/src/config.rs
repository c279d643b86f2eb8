//! The configuration: one TOML file, one struct, every setting declared once.
//!
//! [`Config::load`] reads a file and goes on after every problem, so that all of them are told at
//! once, each with line, column, the setting and the nearest known name. What each setting means
//! stands here and nowhere else: the default file and the reference page are made from these
//! declarations.

mod check;
mod destination;
mod operation;
mod problem;
mod read;
mod reference;
mod schema;
mod secret;
mod settings;
mod span;
mod store;
mod upstream;
mod value;

use std::{
    fs::File,
    io::{self, Read},
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use http::HeaderName;
use toml::{Spanned, de::DeValue};

pub use self::{
    destination::{DestinationConfig, DestinationKind, HookUrl, NativeSettings, RelayConfig},
    operation::{Horizons, OldPlan, OperationConfig},
    problem::{Problem, ProblemKind, Problems, line_and_column, nearest},
    reference::{default_file, reference_page},
    secret::Secret,
    span::{Horizon, Size, written},
    store::{PostgresConfig, PostgresUrl, RedisConfig, RedisUrl, StoreUrl},
    upstream::{Host, UpstreamConfig},
    value::{KeyHeader, Methods, Url},
};
use self::{
    read::{Reading, Table, refuse},
    schema::{Kind, Section, Value, section, settings, words},
};
pub(crate) use self::{schema::Word, span::span, store::may_hold_password};

settings! {
    /// The whole file.
    pub struct Config {
        /// Where clients connect.
        listen: SocketAddr = "127.0.0.1:8080",
        /// Where operators and probes connect: health, readiness and metrics. Without it there is no such listener.
        admin: Option<SocketAddr>,
        /// Where the records are kept: `sqlite:PATH`, or `postgres://USER@HOST/DATABASE` for several gateways on one database, which can be the application's own, or `redis://HOST` (`rediss://` by TLS) for several gateways on Redis or Valkey. `memory:` forgets everything at the end of the process and serves only operations that are not durable. `{ env = "NAME" }` and `{ file = "PATH" }` say where the URL stands.
        store: StoreUrl = "sqlite:semel.db",
        /// The upstream for every request that matches no operation and no upstream's `prefixes`. Without it the only upstream is meant; with several, such a request gets 404.
        default_upstream: Option<String>,
        /// How long a shutdown waits for holders to finish. What has not finished then keeps its lease, and `on_lost` decides.
        shutdown_wait: Duration = "30s",
        /// The largest number of bytes of keyed requests and answers held in memory at once. Past it a caller is asked to come back.
        in_flight: Size = "256 MiB",
        /// How many callers may wait for other holders at once. Past it a caller is told at once that the intent is in progress.
        waiters: u32 = 1000,
        /// How often records whose time is over are dropped.
        sweep_every: Duration = "60s",
        /// How many records one step of a sweep touches at most.
        sweep_records: u32 = 500,
        /// What is believed of `Forwarded` and `X-Forwarded-*` as they came: `append` keeps them and adds to them, where only proxies of your own can connect; `replace` drops them.
        forwarded: Forwarded = "replace",
        /// What one client connection may take.
        limits: Option<Limits>,
        /// How a store in PostgreSQL is used.
        postgres: Option<PostgresConfig>,
        /// How a store in Redis or Valkey is used.
        redis: Option<RedisConfig>,
        /// The certificate of the listener. Without it the listener speaks plain HTTP.
        tls: Option<Tls>,
        /// Whose keys they are: the same key of two tenants names two intents. Must be set.
        tenant: Option<TenantConfig>,
        /// Who is asked whether a caller may see an answer that comes from the store: a table, or `"none"` if everybody who reaches the gateway as a tenant may. Must be set.
        replay_auth: Option<ReplayAuth>,
        /// The servers behind the gateway. At least one.
        upstream: Vec<UpstreamConfig>,
        /// The protected operations. Everything else passes through.
        operation: Vec<OperationConfig>,
        /// How the events of the outbox are relayed. Only with destinations.
        relay: Option<RelayConfig>,
        /// Where the events of the outbox go. A file with destinations and without tenant, upstreams and operations is one for `semel relay` alone.
        destination: Vec<DestinationConfig>,
    }
}

settings! {
    /// What one client connection may take.
    pub struct Limits {
        /// How many client connections may be open at once.
        connections: u32 = 4096,
        /// How long a TLS handshake may take.
        handshake_wait: Duration = "10s",
        /// How long the head of a request may take, and how long a connection may be idle.
        head_wait: Duration = "60s",
        /// How long the next piece of a request's body may take.
        body_wait: Duration = "30s",
        /// How long a client may take nothing of an answer.
        write_wait: Duration = "60s",
        /// The largest head of a request.
        head: Size = "64 KiB",
        /// The largest number of headers of a request.
        headers: u32 = 100,
    }
}

settings! {
    /// The certificate of the listener.
    pub struct Tls {
        /// The certificate chain in PEM, the server's own first.
        certificate: PathBuf,
        /// Its private key in PEM.
        key: PathBuf,
    }
}

settings! {
    /// Whose keys they are.
    pub struct TenantConfig {
        /// Where the tenant comes from: `header` is a header that a proxy of your own sets and strips from clients, `api_key` a header with the caller's API key, of which only a digest is kept, and `single_tenant` says that all callers share one space of keys.
        source: TenantFrom,
        /// The header, for `header` and `api_key`.
        header: Option<HeaderName>,
        /// Allows `authorization` as the header of `api_key`: its value never changes for a caller. Bearer tokens are refused even so, since a refreshed token would be a new tenant and every key a new intent.
        static_credentials: bool = false,
    }
}

settings! {
    /// The endpoint that is asked before anything that comes from the store is sent. It gets a GET with the headers of the request; 2xx allows, 401 and 403 are passed on, and any other answer is a 503.
    pub struct ReplayAuthAsk {
        /// The endpoint: `http` or `https`, a host, perhaps a port and a path. A user, a query and a fragment are refused.
        url: Url,
        /// How long it may take altogether.
        wait: Duration = "5s",
        /// How long connecting may take.
        connect_wait: Duration = "2s",
        /// Headers of the request that are not passed to it.
        without: Vec<HeaderName> = [],
        /// The certificates trusted for `https`, in PEM. Without it, Mozilla's roots.
        ca: Option<PathBuf>,
    }
}

/// What is believed of the headers in which proxies tell of each other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Forwarded {
    /// They are kept and added to.
    Append,
    /// They are dropped.
    Replace,
}

words! { Forwarded: Append = "append", Replace = "replace" }

/// Where the tenant comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TenantFrom {
    /// A digest of the caller's API key.
    ApiKey,
    /// A header that a trusted proxy sets.
    Header,
    /// Everybody is one tenant.
    SingleTenant,
}

words! { TenantFrom: ApiKey = "api_key", Header = "header", SingleTenant = "single_tenant" }

/// Who is asked before anything that comes from the store is sent.
#[derive(Clone, Debug)]
pub enum ReplayAuth {
    /// An endpoint.
    Ask(ReplayAuthAsk),
    /// Nobody.
    None,
}

impl Value for ReplayAuth {
    fn kind() -> Kind {
        Kind::Table(ReplayAuthAsk::settings)
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        match value.get_ref() {
            DeValue::Table(_) => section(value, path, reading).map(Self::Ask),
            DeValue::String(text) if text == "none" => Some(Self::None),
            _ => {
                refuse(value, path, reading, "\"none\" or a table [replay_auth] with a `url`");
                None
            }
        }
    }
}

/// The largest configuration, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if u64::try_from(read).is_ok_and(|read| read <= FILE_BYTES_MAX) {
        return Ok(text);
    }
    Err(io::Error::other(format!("it has more than {} KiB", FILE_BYTES_MAX >> 10)))
}

/// Whether the files and folders that a configuration names are looked at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Files {
    /// They must be readable, and the store writable.
    Checked,
    /// They are not looked at.
    Ignored,
}

impl Config {
    /// Reads and checks a file, and the files and folders that it names.
    ///
    /// # Errors
    ///
    /// Returns everything that is wrong with it.
    pub fn load(path: &Path) -> Result<Self, Problems> {
        Self::load_with(path, Files::Checked)
    }

    /// Reads and checks a file, and as asked the files and folders that it names.
    ///
    /// # Errors
    ///
    /// Returns everything that is wrong with it.
    pub fn load_with(path: &Path, files: Files) -> Result<Self, Problems> {
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        match read(path) {
            Ok(text) => Self::parse(&text, path, folder, files),
            Err(error) => {
                let why = match error.kind() {
                    io::ErrorKind::NotFound => {
                        "there is no such file; name another by --config, or begin with what \
                         `semel reference --toml` prints"
                            .to_owned()
                    }
                    _ => error.to_string(),
                };
                let message = format!("the configuration cannot be read: {why}");
                let problem = Problem {
                    kind: ProblemKind::Environment,
                    key: String::new(),
                    message,
                    line: 1,
                    column: 1,
                };
                Err(Problems { file: path.into(), problems: vec![problem] })
            }
        }
    }

    /// Reads and checks a text. `file` is shown with its problems, and relative paths start at
    /// `folder`.
    ///
    /// # Errors
    ///
    /// Returns everything that is wrong with it.
    pub fn parse(text: &str, file: &Path, folder: &Path, files: Files) -> Result<Self, Problems> {
        let mut reading = Reading::new(folder);
        let (tree, errors) = toml::de::DeTable::parse_recoverable(text);
        let broken = !errors.is_empty();
        for error in errors {
            let span = error.span().unwrap_or(0..0);
            reading.at(ProblemKind::Syntax, "", span, error.message().to_owned());
        }
        let mut config = None;
        if !broken {
            let table = &mut Table { table: tree.get_ref(), path: "", reading: &mut reading };
            config = Self::from_table(table);
        }
        if let Some(config) = &config {
            check::all(config, &mut reading);
            if files == Files::Checked {
                check::environment(config, &mut reading);
            }
        }
        match config {
            Some(config) if reading.found.is_empty() => Ok(config),
            _ => {
                reading.found.sort_by_key(|found| found.span.start);
                let problems = reading.found.into_iter().map(|found| found.placed(text)).collect();
                Err(Problems { file: file.into(), problems })
            }
        }
    }

    /// Says whether it is for a relay alone: it says where events go, and nothing of requests.
    #[must_use]
    pub const fn is_for_a_relay_alone(&self) -> bool {
        !self.destination.is_empty()
            && self.tenant.is_none()
            && self.replay_auth.is_none()
            && self.upstream.is_empty()
            && self.operation.is_empty()
    }

    /// Returns the upstream of that name.
    #[must_use]
    pub fn upstream_named(&self, name: &str) -> Option<&UpstreamConfig> {
        self.upstream.iter().find(|upstream| upstream.name == name)
    }

    /// Returns the upstream of an operation.
    #[must_use]
    pub fn upstream_of(&self, operation: &OperationConfig) -> Option<&UpstreamConfig> {
        match &operation.upstream {
            Some(name) => self.upstream_named(name),
            None => self.route(operation.path.as_str()),
        }
    }

    /// Returns the upstream for a path that belongs to no operation: the one with the longest
    /// matching prefix, else the default.
    #[must_use]
    pub fn route(&self, path: &str) -> Option<&UpstreamConfig> {
        let by_prefix = self
            .upstream
            .iter()
            .filter_map(|upstream| Some((upstream.prefix_of(path)?, upstream)))
            .max_by_key(|(prefix, _)| prefix.len());
        match by_prefix {
            Some((_, upstream)) => Some(upstream),
            None => self.upstream.iter().find(|upstream| self.is_default(upstream)),
        }
    }

    /// Says whether an upstream gets what belongs to no other.
    fn is_default(&self, upstream: &UpstreamConfig) -> bool {
        match &self.default_upstream {
            Some(name) => upstream.name == *name,
            None => self.upstream.len() == 1,
        }
    }
}
