//! Where the server is, and how to speak to it: a URL as libpq knows them, or a configuration.

use std::{fmt, path::PathBuf, time::Duration};

use semel::StoreError;
use tokio_postgres::{
    Config,
    config::{Host as Name, SslMode, TargetSessionAttrs},
};

use crate::error::invalid;

/// How long a host may take to answer, unless the address says.
const CONNECT: Duration = Duration::from_secs(5);

/// What the driver takes for "not said": two hours, in which a dead connection would not be noticed.
const KEEPALIVE_UNSAID: Duration = Duration::from_secs(2 * 60 * 60);
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 3;

/// One or more hosts that hold the same data, one of which can be written to.
#[derive(Clone)]
pub(crate) struct Address {
    /// One configuration per host, in the order to try them.
    pub(crate) hosts: Vec<Host>,
    pub(crate) connect: Duration,
    pub(crate) ssl_mode: SslMode,
    pub(crate) files: TlsFiles,
}

/// One host.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) config: Config,
    /// Host and port, for messages.
    pub(crate) told: Box<str>,
}

/// Files that TLS needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsFiles {
    /// The authorities that the server's certificate is checked against; none: the well-known ones.
    pub(crate) authority: Option<PathBuf>,
    /// This client's certificate, and its key.
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

impl Address {
    /// Reads a URL such as `postgres://user@host,other/database?sslmode=verify-full`.
    pub(crate) fn read(url: &str) -> Result<Self, StoreError> {
        let (rest, files) = known(url)?;
        // The driver's words may quote the URL, which has the password in it.
        let config: Config = rest.parse().map_err(|_| {
            invalid(
                "the PostgreSQL URL cannot be understood; write \
                 postgres://user@host:port/database?option=value with percent-encoded special characters",
            )
        })?;
        Self::of(config, files)
    }

    /// Takes a configuration.
    pub(crate) fn of(mut config: Config, files: TlsFiles) -> Result<Self, StoreError> {
        if config.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
            return Err(invalid("Semel writes: target_session_attrs must not be read-only"));
        }
        // Whether a host can be written to is seen on each connection, to say so in words.
        config.target_session_attrs(TargetSessionAttrs::Any);
        if config.get_application_name().is_none() {
            config.application_name("semel");
        }
        if config.get_keepalives_idle() == KEEPALIVE_UNSAID {
            config.keepalives_idle(KEEPALIVE_IDLE);
        }
        if config.get_keepalives_interval().is_none() {
            config.keepalives_interval(KEEPALIVE_INTERVAL);
        }
        if config.get_keepalives_retries().is_none() {
            config.keepalives_retries(KEEPALIVE_RETRIES);
        }
        let connect = config.get_connect_timeout().copied().unwrap_or(CONNECT);
        config.connect_timeout(connect);
        let ssl_mode = config.get_ssl_mode();
        Ok(Self { hosts: hosts(&config)?, connect, ssl_mode, files })
    }
}

/// Hosts and ports alone: an address has secrets.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.hosts.iter().map(|host| &host.told)).finish()
    }
}

/// Takes the options of libpq out that the driver does not know.
fn known(url: &str) -> Result<(String, TlsFiles), StoreError> {
    let mut files = TlsFiles::default();
    let Some((before, options)) = url.split_once('?') else {
        return Ok((url.to_owned(), files));
    };
    let mut left = Vec::new();
    for option in options.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("sslmode", "verify-full")) => left.push("sslmode=require"),
            Some(("sslmode", mode)) if !["disable", "prefer", "require"].contains(&mode) => {
                return Err(invalid("sslmode must be disable, prefer, require or verify-full"));
            }
            Some(("sslrootcert", "system")) => {}
            Some(("sslrootcert", path)) => files.authority = Some(decoded(path)?.into()),
            Some(("sslcert", path)) => files.certificate = Some(decoded(path)?.into()),
            Some(("sslkey", path)) => files.key = Some(decoded(path)?.into()),
            _ => left.push(option),
        }
    }
    Ok((format!("{before}?{}", left.join("&")), files))
}

fn decoded(text: &str) -> Result<String, StoreError> {
    let bad = || invalid("a path in the PostgreSQL URL is not percent-encoded UTF-8");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first == b'%' {
            // The library would read a sign too.
            let digits = after.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
            let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
            let digits = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            bytes.push(digits.ok_or_else(bad)?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

/// Makes a configuration for each host: the driver would wait for one that accepts and says nothing.
fn hosts(config: &Config) -> Result<Vec<Host>, StoreError> {
    let (names, addresses) = (config.get_hosts(), config.get_hostaddrs());
    let count = names.len().max(addresses.len());
    let ports = config.get_ports();
    if count == 0 {
        return Err(invalid("the PostgreSQL URL names no host"));
    }
    if !names.is_empty() && !addresses.is_empty() && names.len() != addresses.len() {
        return Err(invalid("the PostgreSQL URL names more hosts than addresses, or fewer"));
    }
    if ports.len() > 1 && ports.len() != count {
        return Err(invalid("the PostgreSQL URL names more ports than hosts, or fewer"));
    }
    Ok((0..count).map(|at| host(config, at)).collect())
}

fn host(config: &Config, at: usize) -> Host {
    let mut one = Config::new();
    let port = config.get_ports().get(at).or_else(|| config.get_ports().first()).copied();
    let port = port.unwrap_or(5432);
    one.port(port);
    let address = config.get_hostaddrs().get(at);
    let told = match config.get_hosts().get(at) {
        Some(Name::Tcp(name)) => {
            one.host(name);
            format!("{name}:{port}")
        }
        #[cfg(unix)]
        Some(Name::Unix(folder)) => {
            one.host_path(folder);
            format!("{}:{port}", folder.display())
        }
        None => {
            // The name that a certificate is checked for.
            let address = address.map(ToString::to_string).unwrap_or_default();
            one.host(&address);
            format!("{address}:{port}")
        }
    };
    if let Some(address) = address {
        one.hostaddr(*address);
    }
    copy(config, &mut one);
    Host { config: one, told: told.into() }
}

/// Copies what does not depend on the host.
fn copy(from: &Config, to: &mut Config) {
    if let Some(user) = from.get_user() {
        to.user(user);
    }
    if let Some(password) = from.get_password() {
        to.password(password);
    }
    if let Some(database) = from.get_dbname() {
        to.dbname(database);
    }
    if let Some(options) = from.get_options() {
        to.options(options);
    }
    if let Some(name) = from.get_application_name() {
        to.application_name(name);
    }
    if let Some(timeout) = from.get_connect_timeout() {
        to.connect_timeout(*timeout);
    }
    if let Some(timeout) = from.get_tcp_user_timeout() {
        to.tcp_user_timeout(*timeout);
    }
    if let Some(interval) = from.get_keepalives_interval() {
        to.keepalives_interval(interval);
    }
    if let Some(retries) = from.get_keepalives_retries() {
        to.keepalives_retries(retries);
    }
    to.keepalives(from.get_keepalives())
        .keepalives_idle(from.get_keepalives_idle())
        .ssl_mode(from.get_ssl_mode())
        .ssl_negotiation(from.get_ssl_negotiation())
        .channel_binding(from.get_channel_binding())
        .load_balance_hosts(from.get_load_balance_hosts());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_of_a_url_is_tried_in_order() {
        let address = Address::read("postgres://u:p@a:1,b:2/d?connect_timeout=3").unwrap();
        let told: Vec<_> = address.hosts.iter().map(|host| &*host.told).collect();
        assert_eq!(told, ["a:1", "b:2"]);
        assert_eq!(address.connect, Duration::from_secs(3));
        assert!(address.hosts.iter().all(|host| host.config.get_dbname() == Some("d")));
    }

    #[test]
    fn options_of_libpq_about_certificates_are_understood() {
        let url =
            "postgresql://u@h/d?sslmode=verify-full&sslrootcert=%2Fca%20x.pem&sslcert=c&sslkey=k";
        let address = Address::read(url).unwrap();
        assert_eq!(address.ssl_mode, SslMode::Require);
        assert_eq!(address.files.authority, Some("/ca x.pem".into()));
        assert!(address.files.certificate.is_some() && address.files.key.is_some());
    }

    #[test]
    fn no_error_and_no_debug_shows_the_password() {
        let bad = Address::read("postgres://u:sec%ret@h/d?word=secret").unwrap_err();
        assert!(!format!("{bad} {bad:?}").contains("sec"), "{bad:?}");
        let good = Address::read("postgres://u:secret@h/d").unwrap();
        assert!(!format!("{good:?}").contains("secret"));
    }

    #[test]
    fn an_address_that_cannot_be_written_to_is_refused() {
        for bad in [
            "postgres://h/d?target_session_attrs=read-only",
            "postgres:///d",
            "postgres://h/d?sslmode=verify-ca",
            "postgres://a:1,b:2,c:3/d?hostaddr=127.0.0.1",
            "postgres://h/d?sslrootcert=%+7",
            "no url",
        ] {
            assert!(Address::read(bad).is_err(), "{bad}");
        }
    }
}
