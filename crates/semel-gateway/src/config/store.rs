//! Where the records are kept.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use toml::{Spanned, de::DeValue};

use super::{
    problem::ProblemKind,
    read::{Reading, refuse, without_index},
    schema::{Kind, Value, settings},
    secret::Secret,
};
use crate::settings::PostgresSettings;

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

/// Where the records are kept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StoreUrl {
    /// In the memory of this process.
    Memory,
    /// In a schema of a PostgreSQL database.
    Postgres(PostgresUrl),
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
        let must_be = "\"sqlite:PATH\", \"postgres://USER@HOST/DATABASE\" or \"memory:\"; a \
                       relative path starts at the folder of this file";
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
                let message = format!(
                    "`{}` holds a password, which stays out of this file: set `password` in \
                     [postgres], or write {{ env = \"NAME\" }} or {{ file = \"PATH\" }} for the \
                     whole URL",
                    without_index(path)
                );
                reading.at(ProblemKind::Value, path, value.span(), message);
                None
            }
            Some(url) => Some(url),
            // Who mistypes the beginning of a URL may have written a password further on.
            None if value.get_ref().as_str().is_some_and(|text| text.contains('@')) => {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> String {
        let url = StoreUrl::parse(url, Path::new("")).unwrap();
        assert_eq!(format!("{url:?}"), format!("Postgres(PostgresUrl({url}))"));
        url.to_string()
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
