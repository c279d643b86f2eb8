//! Where the servers are, as a URL says it.
//!
//! ```text
//! redis://user:password@host:6379/0                       one server
//! redis://a:6379,b:6379                                   the first of them that is a primary
//! redis://s1:26379,s2:26379,s3:26379/0?sentinel=mymaster  the primary that the sentinels name
//! redis://a:6379,b:6379?cluster=true                      a cluster, by some of its nodes
//! rediss://...                                            the same, by TLS
//! valkey://..., valkeys://...                             the same, by other names
//! ```

use std::{
    fmt,
    path::{Path, PathBuf},
};

use redis::{
    ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo,
    TlsCertificates,
};
use semel::StoreError;

use crate::error::{Fault, invalid};

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// How the primary is found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Way {
    /// The hosts are some nodes of a cluster.
    Cluster,
    /// The hosts are servers, of which one is a primary.
    Direct,
    /// The hosts are sentinels, who know it by this name.
    Sentinel(Box<str>),
}

/// An address with its secrets.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) way: Way,
    pub(crate) hosts: Vec<(String, u16)>,
    is_tls: bool,
    authority: Option<Vec<u8>>,
    identity: Option<Identity>,
    login: Login,
    sentinel: Login,
    db: i64,
}

/// The files by which servers are believed, and the store is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    pub(crate) authority: Option<PathBuf>,
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

/// A certificate and its key.
#[derive(Clone)]
struct Identity {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

#[derive(Clone, Default)]
struct Login {
    user: Option<String>,
    password: Option<String>,
}

impl Address {
    pub(crate) fn read(url: &str, files: &Files) -> Result<Self, StoreError> {
        let (scheme, rest) = url.split_once("://").ok_or_else(no_url)?;
        let is_tls = match scheme {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return Err(no_url()),
        };
        if !is_tls && (files.authority.is_some() || files.identity.is_some()) {
            return Err(invalid(
                "certificates are shown and checked only by TLS: the URL must begin with rediss:// or \
                 valkeys://",
            ));
        }
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (place, db) = place.split_once('/').unwrap_or((place, ""));
        let (login, hosts) = match place.rsplit_once('@') {
            Some((login, hosts)) => (Login::read(login)?, hosts),
            None => (Login::default(), place),
        };
        if [hosts, db, options].iter().any(|part| part.contains('#')) {
            return Err(invalid(
                "a Redis URL has no fragment; write %23 where # belongs to a name",
            ));
        }
        let mut address = Self {
            way: Way::Direct,
            hosts: Vec::new(),
            is_tls,
            authority: files.authority.as_deref().map(read_file).transpose()?,
            identity: files.identity.as_ref().map(Identity::read).transpose()?,
            login,
            sentinel: Login::default(),
            db: if db.is_empty() { 0 } else { db.parse().map_err(|_| no_database())? },
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            address.option(option)?;
        }
        let port = if matches!(address.way, Way::Sentinel(_)) { SENTINEL_PORT } else { PORT };
        address.hosts =
            hosts.split(',').map(|host| read_host(host, port)).collect::<Result<_, _>>()?;
        if address.way == Way::Cluster && address.db != 0 {
            return Err(invalid("a cluster has the database 0 alone"));
        }
        if address.db < 0 {
            return Err(no_database());
        }
        Ok(address)
    }

    fn option(&mut self, option: &str) -> Result<(), StoreError> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let value = decoded(value)?;
        match (name, value.as_str()) {
            ("cluster", "true") if self.way == Way::Direct => self.way = Way::Cluster,
            ("cluster", "false") if self.way == Way::Direct => {}
            ("sentinel", name) if self.way == Way::Direct && !name.is_empty() => {
                self.way = Way::Sentinel(name.into());
            }
            ("sentinel_user", user) => self.sentinel.user = Some(user.to_owned()),
            ("sentinel_password", password) => self.sentinel.password = Some(password.to_owned()),
            _ => {
                return Err(invalid(
                    "the options of a Redis URL are `cluster=true` or `sentinel=NAME`, and beside the \
                     latter `sentinel_user` and `sentinel_password`",
                ));
            }
        }
        Ok(())
    }

    /// Sets the password of the user.
    pub(crate) fn with_password(mut self, password: &str) -> Self {
        self.login.password = Some(password.to_owned());
        self
    }

    /// How a server is connected to.
    pub(crate) fn server(&self, host: &str, port: u16) -> Result<ConnectionInfo, Fault> {
        self.info(host, port, &self.login, self.db)
    }

    /// How a sentinel is connected to.
    pub(crate) fn watcher(&self, host: &str, port: u16) -> Result<ConnectionInfo, Fault> {
        self.info(host, port, &self.sentinel, 0)
    }

    /// Says whether it is reached by TLS.
    pub(crate) const fn is_tls(&self) -> bool {
        self.is_tls
    }

    pub(crate) fn certificates(&self) -> Option<TlsCertificates> {
        let client_tls = self.identity.clone().map(|Identity { certificate, key }| {
            ClientTlsConfig { client_cert: certificate, client_key: key }
        });
        let root_cert = self.authority.clone();
        let is_told = client_tls.is_some() || root_cert.is_some();
        is_told.then_some(TlsCertificates { client_tls, root_cert })
    }

    fn info(&self, host: &str, port: u16, login: &Login, db: i64) -> Result<ConnectionInfo, Fault> {
        let host = host.to_owned();
        let addr = if self.is_tls {
            ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
        } else {
            ConnectionAddr::Tcp(host, port)
        };
        let mut settings = RedisConnectionInfo::default().set_db(db);
        if let Some(user) = &login.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &login.password {
            settings = settings.set_password(password);
        }
        Ok(addr.into_connection_info()?.set_redis_settings(settings))
    }
}

impl Identity {
    fn read((certificate, key): &(PathBuf, PathBuf)) -> Result<Self, StoreError> {
        Ok(Self { certificate: read_file(certificate)?, key: read_file(key)? })
    }
}

impl Login {
    fn read(text: &str) -> Result<Self, StoreError> {
        let (user, password) = match text.split_once(':') {
            Some((user, password)) => (user, Some(decoded(password)?)),
            None => (text, None),
        };
        let user = decoded(user)?;
        Ok(Self { user: (!user.is_empty()).then_some(user), password })
    }
}

/// Hosts and ports alone: an address has secrets.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = self.hosts.iter().map(|(host, port)| format!("{host}:{port}"));
        f.debug_struct("Address")
            .field("way", &self.way)
            .field("hosts", &hosts.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

fn no_url() -> StoreError {
    invalid("the URL of a Redis store begins with redis://, rediss://, valkey:// or valkeys://")
}

fn no_database() -> StoreError {
    invalid("the database in a Redis URL is a number")
}

fn read_file(path: &Path) -> Result<Vec<u8>, StoreError> {
    std::fs::read(path).map_err(|error| {
        invalid(format!("{} cannot be read: {error}", path.display())).with_source(error)
    })
}

fn read_host(text: &str, port: u16) -> Result<(String, u16), StoreError> {
    let bad = || invalid("a host in the Redis URL is not NAME, NAME:PORT or [ADDRESS]:PORT");
    let (host, number) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, number) = rest.split_once(']').ok_or_else(bad)?;
            let is_told = number.strip_prefix(':');
            (host, is_told.or_else(|| number.is_empty().then_some("")).ok_or_else(bad)?)
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    let port = if number.is_empty() { port } else { number.parse().map_err(|_| bad())? };
    if port == 0 || host.is_empty() || host.contains(char::is_whitespace) {
        return Err(bad());
    }
    Ok((host.to_owned(), port))
}

fn decoded(text: &str) -> Result<String, StoreError> {
    let bad = || invalid("a part of the Redis URL is not percent-encoded UTF-8");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        // The library would read a sign too.
        let digits = after.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(digits.ok_or_else(bad)?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Address {
        Address::read(url, &Files::default()).unwrap()
    }

    #[test]
    fn every_way_to_a_primary_has_a_url() {
        let one = read("redis://h");
        assert_eq!((one.way, one.hosts, one.db), (Way::Direct, vec![("h".into(), 6379)], 0));
        let many = read("rediss://u:p@a:1,[::1]:2,c/3");
        assert_eq!(many.hosts, [("a".into(), 1), ("::1".into(), 2), ("c".into(), 6379)]);
        assert!(many.is_tls && many.db == 3);
        let watched = read("redis://:p%40ss@a,b:7/0?sentinel=mymaster&sentinel_password=x");
        assert_eq!(watched.way, Way::Sentinel("mymaster".into()));
        assert_eq!(watched.hosts, [("a".into(), 26379), ("b".into(), 7)]);
        assert_eq!(watched.login.password.as_deref(), Some("p@ss"));
        assert_eq!((watched.login.user, watched.sentinel.password.as_deref()), (None, Some("x")));
        assert_eq!(read("redis://a,b?cluster=true").way, Way::Cluster);
        assert!(!read("valkey://h").is_tls && read("valkeys://h").is_tls);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for bad in [
            "http://h",
            "redis://",
            "redis://h/x",
            "redis://h/-1",
            "redis://h?cluster=yes",
            "redis://h/1?cluster=true",
            "redis://h?cluster=true&sentinel=m",
            "redis://h?sentinel=",
            "redis://h:port",
            "redis://h:0",
            "redis://h#fragment",
            "redis://h/0#fragment",
            "redis://h?cluster=true#fragment",
            "redis://h?cluster=true&cluster=false",
            "redis://%zz@h",
            "redis://h?timeout=3",
        ] {
            assert!(Address::read(bad, &Files::default()).is_err(), "{bad}");
        }
    }

    #[test]
    fn certificates_without_tls_are_refused() {
        let file = PathBuf::from("/nowhere/at/all.pem");
        let ca = Files { authority: Some(file.clone()), identity: None };
        let own = Files { authority: None, identity: Some((file.clone(), file)) };
        for files in [ca, own] {
            let plain = Address::read("redis://h", &files).unwrap_err().to_string();
            assert!(plain.contains("rediss://"), "{plain}");
            let gone = Address::read("rediss://h", &files).unwrap_err().to_string();
            assert!(gone.contains("/nowhere/at/all.pem cannot be read"), "{gone}");
        }
    }

    #[test]
    fn no_error_and_no_debug_shows_a_secret() {
        let none = Files::default();
        let bad = Address::read("redis://u:sec%ret@h", &none).unwrap_err();
        assert!(!format!("{bad} {bad:?}").contains("sec"), "{bad:?}");
        let good = read("redis://u:secret@h?sentinel=m&sentinel_password=secret");
        assert!(!format!("{good:?}").contains("secret"));
    }
}
