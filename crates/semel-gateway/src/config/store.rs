//! Where the records are kept.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use toml::{Spanned, de::DeValue};

use super::{
    problem::ProblemKind,
    read::{Reading, refuse, without_index},
    schema::{Kind, Value, settings, words},
    secret::Secret,
};
use crate::settings::{PostgresSettings, RedisSettings, StatedDurability};

settings! {
    /// How a store in PostgreSQL is used.
    pub struct PostgresConfig {
        /// The schema that holds everything of Semel.
        schema: String = "semel",
        /// The password of the user in the URL, which stays out of this file.
        password: Option<Secret>,
        /// The authorities that the server's certificate is checked against, in PEM; as `sslrootcert` in the URL.
        ca: Option<PathBuf>,
        /// How many connections are opened at most.
        connections: u32 = 6,
        /// Whether statements are prepared under names. Only where no pooler in transaction mode stands between, or one that knows prepared statements (PgBouncer 1.21 and later).
        prepared: bool = false,
        /// Whether `semel serve` makes the schema, or migrates an older one. Without it, somebody with the right to does so by `semel migrate` before.
        migrate: bool = true,
        /// Whether events leave only once some standby has flushed their transactions, so that none was told of what a promotion then loses. Without a standby that is connected nothing leaves.
        flushed: bool = false,
        /// Whether commits of events are told between processes by `LISTEN` and `NOTIFY`, outside of applications' transactions, so that a relay need not wait until it polls. Not behind a pooler in transaction mode.
        listen: bool = false,
    }
}

impl PostgresConfig {
    /// Says whether anything in it differs from the defaults.
    pub(super) fn says_something(&self) -> bool {
        let default = PostgresSettings::default();
        self.schema != default.schema
            || self.password.is_some()
            || self.ca.is_some()
            || usize::try_from(self.connections) != Ok(default.connections)
            || self.prepared != default.prepared
            || self.migrate != default.migrate
            || self.flushed != default.flushed
            || self.listen != default.listen
    }
}

settings! {
    /// How a store in Redis or Valkey is used. Its URL is `redis://HOST:PORT/DATABASE`, several hosts with commas for the first that is a primary; `?sentinel=NAME` behind the hosts of sentinels; `?cluster=true` behind some nodes of a cluster.
    pub struct RedisConfig {
        /// What all keys begin with, so that several gateways or applications share a server.
        prefix: String = "semel",
        /// The password of the user in the URL, which stays out of this file.
        password: Option<Secret>,
        /// The authorities that the servers' certificates are checked against, in PEM. Without it, those of the web.
        ca: Option<PathBuf>,
        /// The certificate that servers are shown which ask for one, in PEM.
        client_cert: Option<PathBuf>,
        /// Its key, in PEM.
        client_key: Option<PathBuf>,
        /// Whether a server is accepted that may lose what it acknowledges: without `appendonly yes`, with another `appendfsync` than `always`, with another `maxmemory-policy` than `noeviction`, or that fails over without `wait_replicas`. Operations that must be durable refuse it all the same.
        accept_volatile: bool = false,
        /// What is known of a server that does not let its settings be read, as many that are run by others: `durable` if it keeps what it acknowledges and evicts nothing. Nobody checks it.
        stated: Option<StatedDurability>,
        /// How many replicas must have a write before it is answered (WAIT). With fewer nothing is granted.
        wait_replicas: u32 = 0,
        /// Whether the server's own disk must have a write before it is answered (WAITAOF, Redis 7.2): for servers that flush every second.
        wait_flushed: bool = false,
        /// How many replicas' disks must have a write before it is answered (WAITAOF, Redis 7.2).
        wait_replicas_flushed: u32 = 0,
        /// How long replicas and disks may take before a caller is told that nobody knows.
        wait_for: Duration = "2s",
    }
}

words! { StatedDurability: Durable = "durable", Volatile = "volatile" }

impl RedisConfig {
    /// Says whether anything in it differs from the defaults.
    pub(super) fn says_something(&self) -> bool {
        let default = RedisSettings::default();
        self.prefix != default.prefix
            || self.password.is_some()
            || self.ca.is_some()
            || self.client_cert.is_some()
            || self.client_key.is_some()
            || self.accept_volatile != default.accept_volatile
            || self.stated.is_some()
            || self.wait_replicas != default.wait_replicas
            || self.wait_flushed != default.wait_flushed
            || self.wait_replicas_flushed != default.wait_replicas_flushed
            || self.wait_for != default.wait_for
    }
}

/// Where the records are kept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StoreUrl {
    /// In the memory of this process.
    Memory,
    /// In a schema of a PostgreSQL database.
    Postgres(PostgresUrl),
    /// In Redis or Valkey.
    Redis(RedisUrl),
    /// In one SQLite file.
    Sqlite(PathBuf),
}

impl StoreUrl {
    /// Reads a store's URL; a relative path starts at `folder`.
    #[must_use]
    pub fn parse(text: &str, folder: &Path) -> Option<Self> {
        match text.split_once(':')? {
            ("memory", "") => Some(Self::Memory),
            ("postgres" | "postgresql", rest) if rest.starts_with("//") => {
                Some(Self::Postgres(PostgresUrl(text.into())))
            }
            ("redis" | "rediss" | "valkey" | "valkeys", rest) if rest.starts_with("//") => {
                Some(Self::Redis(RedisUrl(text.into())))
            }
            ("sqlite", path) if !path.is_empty() && !path.starts_with("//") => {
                Some(Self::Sqlite(folder.join(path)))
            }
            _ => None,
        }
    }
}

/// Never with a password.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Postgres(url) => url.fmt(f),
            Self::Redis(url) => url.fmt(f),
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
        }
    }
}

/// The URL of a PostgreSQL database, as libpq knows it. `Debug` and `Display` show neither its
/// password nor its options.
#[derive(Clone, Eq, PartialEq)]
pub struct PostgresUrl(Box<str>);

impl PostgresUrl {
    /// Returns the whole URL.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Says whether a password stands in it.
    pub(super) fn has_password(&self) -> bool {
        let (_, user, rest) = self.parts();
        let options = self.0.split_once('?').map_or("", |(_, options)| options);
        // Names of options may be written by escapes, and rather one too many is refused.
        user.is_some_and(|user| user.contains(':'))
            || [options, rest].iter().any(|text| unescaped(text).contains("password"))
    }

    /// Parts the scheme, the user with its password, and the rest, as the driver does: at the first `@`.
    fn parts(&self) -> (&str, Option<&str>, &str) {
        let (scheme, rest) = self.0.split_once("//").unwrap_or(("", &self.0));
        match rest.split_once('@') {
            Some((user, rest)) => (scheme, Some(user), rest),
            None => (scheme, None, rest),
        }
    }
}

/// The URL of a Redis store. `Debug` and `Display` show its hosts alone.
#[derive(Clone, Eq, PartialEq)]
pub struct RedisUrl(Box<str>);

impl RedisUrl {
    /// Returns the whole URL.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Says whether a password stands in it.
    pub(super) fn has_password(&self) -> bool {
        let (_, rest) = self.0.split_once("//").unwrap_or(("", &self.0));
        let user = rest.rsplit_once('@').map_or("", |(user, _)| user);
        user.contains(':') || unescaped(&self.0).contains("password")
    }

    /// Says whether the password of its user stands in it, beside which no other is said.
    pub(super) fn has_users_password(&self) -> bool {
        let (_, rest) = self.0.split_once("//").unwrap_or(("", &self.0));
        let place = rest.split('?').next().unwrap_or_default();
        place.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
    }
}

/// Where a password may stand nothing is shown: a character that was not encoded may make that more.
impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.0.split_once("//").unwrap_or(("", &self.0));
        write!(f, "{scheme}//")?;
        if rest.split_once('?').is_some_and(|(_, options)| options.contains('@')) {
            return f.write_str("…");
        }
        let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        f.write_str(place.split(['/', '?', '&', '=']).next().unwrap_or_default())
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({self})")
    }
}

/// Says whether a text that names no store may hold a password: who mistypes the beginning of a URL may
/// have written one further on, and `host=… password=…` is another way to say where a server is.
pub(crate) fn may_hold_password(text: &str) -> bool {
    text.contains(['@', '='])
}

/// Undoes escapes of ASCII; what is none stays.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let byte = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte.filter(u8::is_ascii) {
            Some(byte) => {
                out.push(char::from(byte));
                out.push_str(&part[2..]);
            }
            None => {
                out.push('%');
                out.push_str(part);
            }
        }
    }
    out
}

/// Where a password may stand nothing is shown, also where a character that was not encoded makes that
/// more than where one does: an `@` in a password, and one in the value of an option.
impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, user, rest) = self.parts();
        write!(f, "{scheme}//")?;
        if let Some(user) = user {
            write!(f, "{}@", user.split([':', '/', '?']).next().unwrap_or_default())?;
        }
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let is_doubtful = options.contains('@') || user.is_some_and(holds_option);
        if is_doubtful {
            return f.write_str("…");
        }
        let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
        f.write_str(place.split(['&', '=']).next().unwrap_or_default())
    }
}

/// Says whether what stands before an `@` may be the value of an option rather than a user.
fn holds_option(user: &str) -> bool {
    user.split_once('?').is_some_and(|(_, options)| options.contains('='))
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresUrl({self})")
    }
}

impl Value for StoreUrl {
    fn kind() -> Kind {
        Kind::Plain("store URL, or where it stands")
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        let folder = reading.folder.to_path_buf();
        let must_be = "\"sqlite:PATH\", \"postgres://USER@HOST/DATABASE\", \"redis://HOST\", \
                       \"rediss://HOST\" or \"memory:\"; a relative path starts at the folder of this file";
        if let DeValue::Table(_) = value.get_ref() {
            let kept = Secret::read(value, path, reading)?;
            let url = std::str::from_utf8(kept.expose()).ok().map(str::trim);
            let url = url.and_then(|text| Self::parse(text, &folder));
            if url.is_none() {
                // What stands there is not repeated: it may hold a password.
                let shown = without_index(path);
                let message = format!("what `{shown}` names is no store; it must be {must_be}");
                reading.at(ProblemKind::Value, path, value.span(), message);
            }
            return url;
        }
        let said = value.get_ref().as_str().and_then(|text| Self::parse(text, &folder));
        match said {
            Some(Self::Postgres(url)) if url.has_password() => {
                told_of_password("postgres", value, path, reading);
                None
            }
            Some(Self::Redis(url)) if url.has_password() => {
                told_of_password("redis", value, path, reading);
                None
            }
            Some(url) => Some(url),
            None if value.get_ref().as_str().is_some_and(may_hold_password) => {
                let shown = without_index(path);
                let message = format!("`{shown}` is no store; it must be {must_be}");
                reading.at(ProblemKind::Value, path, value.span(), message);
                None
            }
            None => {
                refuse(value, path, reading, must_be);
                None
            }
        }
    }
}

fn told_of_password(
    table: &str,
    value: &Spanned<DeValue<'_>>,
    path: &str,
    reading: &mut Reading<'_>,
) {
    let message = format!(
        "`{}` holds a password, which stays out of this file: set `password` in [{table}], or write \
         {{ env = \"NAME\" }} or {{ file = \"PATH\" }} for the whole URL",
        without_index(path)
    );
    reading.at(ProblemKind::Value, path, value.span(), message);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> String {
        let url = StoreUrl::parse(url, Path::new("")).unwrap();
        assert_eq!(format!("{url:?}"), format!("Postgres(PostgresUrl({url}))"));
        url.to_string()
    }

    #[test]
    fn a_redis_url_shows_its_hosts_alone() {
        for (url, shown) in [
            ("redis://cache", "redis://cache"),
            ("rediss://a:1,b:2/3?cluster=true", "rediss://a:1,b:2"),
            ("redis://app@cache/0", "redis://cache"),
            ("redis://:hunter2@cache", "redis://cache"),
            ("redis://app:hun@ter2@cache", "redis://cache"),
            ("redis://app:hun?ter2@cache", "redis://…"),
            ("redis://app:hun/ter2@cache", "redis://cache"),
            ("redis://a?sentinel=m&sentinel_password=hunter2", "redis://a"),
            ("redis://a?sentinel=m&sentinel_password=hun@ter2", "redis://…"),
            ("redis://a&sentinel_password=hunter2", "redis://a"),
        ] {
            let StoreUrl::Redis(parsed) = StoreUrl::parse(url, Path::new("")).unwrap() else {
                panic!("{url} is Redis");
            };
            assert_eq!(parsed.to_string(), shown, "{url}");
            assert_eq!(parsed.has_password(), url.contains("hun"), "{url}");
        }
    }

    #[test]
    fn no_password_and_no_option_of_a_url_is_shown() {
        for (url, told) in [
            ("postgres://db/shop", "postgres://db/shop"),
            ("postgresql://app@a:1,b:2/shop", "postgresql://app@a:1,b:2/shop"),
            ("postgres://app:hunter2@db/shop", "postgres://app@db/shop"),
            ("postgres://app:hun@ter2@db/shop", "postgres://app@db/shop"),
            ("postgres://app:hunter2/@db/shop", "postgres://app@db/shop"),
            ("postgres://app:hunter2?@db/shop", "postgres://app@db/shop"),
            ("postgres://:hunter2@db/shop", "postgres://@db/shop"),
            ("postgres://app@db/shop?password=hunter2", "postgres://app@db/shop"),
            ("postgres://app@db/shop?x=1&sslpassword=hunter2", "postgres://app@db/shop"),
            ("postgres://app@db/shop?password=hun@ter2", "postgres://app@…"),
            ("postgres://app@db/shop?sslcert=a@b&password=hunter2", "postgres://app@…"),
            ("postgres://db/shop?password=hun@ter2", "postgres://db@…"),
            ("postgres://app@db/shop?pass%77ord=hunter2", "postgres://app@db/shop"),
            ("postgres://app@db/shop&password=hunter2", "postgres://app@db/shop"),
        ] {
            assert_eq!(shown(url), told);
            let StoreUrl::Postgres(parsed) = StoreUrl::parse(url, Path::new("")).unwrap() else {
                panic!("{url}");
            };
            assert_eq!(parsed.has_password(), url.contains("hun"), "{url}");
            assert_eq!(parsed.expose(), url);
        }
    }

    #[test]
    fn what_is_no_url_of_a_store_is_refused() {
        for bad in
            ["", "postgres:", "postgres:db", "mysql://db", "sqlite:", "sqlite://x", "memory:x"]
        {
            assert_eq!(StoreUrl::parse(bad, Path::new("")), None, "{bad}");
        }
    }
}
