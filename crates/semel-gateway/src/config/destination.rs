//! Where the events of the outbox go, and how they are relayed.

use std::{fmt, path::PathBuf, time::Duration};

use http::{HeaderValue, Uri};
use semel::outbox::{Destination, Start, relay::RelayPolicy};
use toml::{Spanned, de::DeValue};

use super::{
    problem::ProblemKind,
    read::{Reading, refuse, text, without_index},
    schema::{Kind, Value, settings, words},
    secret::Secret,
    span::Size,
};
use crate::settings::RelaySource;

/// The topic unless another is said, as Debezium's router names it.
pub(super) const TOPIC: &str = "outbox.event.${aggregatetype}";

settings! {
    /// A destination: somewhere the events of the outbox go. Each has a cursor and a leader of its own in the store.
    pub struct DestinationConfig {
        /// Its name, explicit and stable: the store keeps its cursor under it. A renamed destination begins anew; the old one is forgotten by `semel outbox forget`.
        name: Destination,
        /// `http` sends each event as a POST to `url`; `kafka` produces it to a topic of `brokers`, with a build that has the feature `kafka`.
        kind: DestinationKind = "http",
        /// Where each event is sent, for `http`. A URL with a secret in its path or query stands elsewhere: `{ env = "NAME" }` or `{ file = "PATH" }`.
        url: Option<HookUrl>,
        /// The value of the header `Authorization`, for `http`.
        authorization: Option<Secret>,
        /// The media type of payloads whose event has no header `content-type` of its own, for `http`.
        content_type: HeaderValue = "application/json",
        /// The certificates trusted for `https`, in PEM. Without it, Mozilla's roots.
        ca: Option<PathBuf>,
        /// How many requests may be on their way at once, each of another aggregate, for `http`.
        connections: u32 = 16,
        /// How long finding the address, connecting and the TLS handshake may take together, for `http`.
        connect_wait: Duration = "5s",
        /// The brokers that are asked first, such as `["kafka-1:9092", "kafka-2:9092"]`, for `kafka`.
        brokers: Vec<String> = [],
        /// The topic, for `kafka`: `${aggregatetype}` stands for the type of the aggregate.
        topic: String = "outbox.event.${aggregatetype}",
        /// Settings of librdkafka, for `kafka`, such as `{ "compression.type" = "lz4" }` or `{ "sasl.password" = { env = "NAME" } }`. Those that a promise rests on are refused.
        librdkafka: NativeSettings,
        /// The types of aggregates whose events go there. Without any, all do.
        types: Vec<String> = [],
        /// Where it begins when nobody ever sent to it: with the `earliest` event that is still kept, or with what is committed from `now` on.
        start: Start = "earliest",
        /// How long one send may take until nobody can say what became of it.
        wait: Duration = "10s",
    }
}

settings! {
    /// How the events of the outbox are relayed. What is said holds for each destination by itself.
    pub struct RelayConfig {
        /// What orders the events of one read: the `table`, in which an aggregate's events are in order if producers lock it first; or a replication `slot` of PostgreSQL for each destination, by which all are in the order of commits. A slot needs `wal_level = logical`, and keeps the server's log until it is read.
        source: RelaySource = "table",
        /// Whether `semel serve` relays too. Without it, `semel relay` alone does.
        serve: bool = true,
        /// How long a relay that is gone still leads a destination; at least three times the destination's `wait` holds.
        lease: Duration = "30s",
        /// How often an event must have been refused for its own sake until its aggregate is parked and waits for an operator.
        attempts: u32 = 8,
        /// For how long it must have been refused, besides.
        attempts_for: Duration = "60s",
        /// How long an aggregate may be stuck and hold up what was appended after it, until it is parked aside, from where it is sent on.
        blocked_for: Duration = "1s",
        /// The longest wait before something is sent again, and before a destination that is away is tried again.
        retry_max: Duration = "30s",
        /// The longest wait that a destination may ask for.
        retry_after_max: Duration = "5m",
        /// The longest pause between two reads of the store while nothing comes.
        poll: Duration = "100ms",
        /// How many events of one destination are in hand at most.
        events: u32 = 10000,
        /// About how many bytes of them are in hand at most.
        memory: Size = "32 MiB",
        /// For how long events are kept that every destination has: what `semel outbox replay` can send again.
        keep_for: Duration = "7d",
        /// How old the oldest event that a destination still lacks may be until the relay is not ready any more.
        lag_max: Duration = "30s",
    }
}

impl RelayConfig {
    /// Returns the bounds and waits of a relay.
    #[must_use]
    pub fn policy(&self) -> RelayPolicy {
        let mut policy = RelayPolicy::default();
        policy.lease = self.lease;
        policy.attempts_max = self.attempts;
        policy.failing_for = self.attempts_for;
        policy.blocked_for = self.blocked_for;
        policy.retry_max = self.retry_max;
        policy.retry_after_max = self.retry_after_max;
        policy.poll_idle = self.poll;
        policy.events_max = usize::try_from(self.events).unwrap_or(usize::MAX);
        policy.bytes_max = self.memory.bytes();
        policy.keep_for = self.keep_for;
        policy.oldest_max = self.lag_max;
        policy
    }
}

/// How events are sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DestinationKind {
    /// As requests.
    Http,
    /// To Kafka.
    Kafka,
}

words! { DestinationKind: Http = "http", Kafka = "kafka" }
words! { RelaySource: Table = "table", Slot = "slot" }
words! { Start: Earliest = "earliest", Now = "now" }

/// A URL that events are sent to. `Debug` and `Display` show neither its path nor its query, in which
/// a secret may stand.
#[derive(Clone, Eq, PartialEq)]
pub struct HookUrl(Uri);

impl HookUrl {
    /// Returns the whole URL.
    #[must_use]
    pub const fn expose(&self) -> &Uri {
        &self.0
    }

    fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.trim().parse().ok()?;
        let known = matches!(uri.scheme_str(), Some("http" | "https"));
        let user = uri.authority().is_none_or(|authority| authority.as_str().contains('@'));
        let host = uri.host().is_some_and(|host| !host.is_empty());
        (known && host && !user && !text.contains('#')).then_some(Self(uri))
    }
}

impl fmt::Display for HookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.0.authority().map_or("", |authority| authority.as_str());
        write!(f, "{}://{authority}/…", self.0.scheme_str().unwrap_or_default())
    }
}

impl fmt::Debug for HookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HookUrl({self})")
    }
}

impl Value for HookUrl {
    fn kind() -> Kind {
        Kind::Plain("URL, or where it stands")
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        let said = match value.get_ref() {
            DeValue::Table(_) => {
                let kept = Secret::read(value, path, reading)?;
                std::str::from_utf8(kept.expose()).ok().and_then(Self::parse)
            }
            other => other.as_str().and_then(Self::parse),
        };
        if said.is_none() {
            // What stands there is not repeated: it may hold a secret.
            let shown = without_index(path);
            let message = format!(
                "`{shown}` is no URL that events can be sent to; it must be http or https with a host \
                 and without a user, such as \"https://example.com/events\""
            );
            reading.at(ProblemKind::Value, path, value.span(), message);
        }
        said
    }
}

/// Settings of librdkafka by their names. `Debug` shows the names alone.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct NativeSettings(pub Vec<(String, String)>);

impl fmt::Debug for NativeSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl Value for NativeSettings {
    fn kind() -> Kind {
        Kind::Plain("table of texts or secrets")
    }

    fn absent() -> Option<Self> {
        Some(Self::default())
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        let Some(table) = value.get_ref().as_table() else {
            let must_be =
                "a table of texts, or of secrets by { env = \"NAME\" } or { file = \"PATH\" }";
            refuse(value, path, reading, must_be);
            return None;
        };
        let mut settings = Vec::with_capacity(table.len());
        for (name, value) in table {
            let path = format!("{path}.{}", name.get_ref());
            let text = match value.get_ref() {
                DeValue::Table(_) => {
                    let secret = Secret::read(value, &path, reading)?;
                    String::from_utf8_lossy(secret.expose()).into_owned()
                }
                _ => String::read(value, &path, reading)?,
            };
            settings.push((name.get_ref().to_string(), text));
        }
        Some(Self(settings))
    }
}

impl Value for HeaderValue {
    fn kind() -> Kind {
        Kind::Plain("text")
    }

    fn read(value: &Spanned<DeValue<'_>>, path: &str, reading: &mut Reading<'_>) -> Option<Self> {
        let must_be = "the value of a header, in visible ASCII";
        text(value, path, reading, must_be, |text| Self::from_str(text).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{read::Table, schema::Section as _};

    #[test]
    fn what_is_not_said_of_a_relay_is_as_its_own_defaults() {
        let mut reading = Reading::new(std::path::Path::new(""));
        let table = toml::de::DeTable::parse("").unwrap();
        let table = &mut Table { table: table.get_ref(), path: "relay", reading: &mut reading };
        assert_eq!(RelayConfig::from_table(table).unwrap().policy(), RelayPolicy::default());
    }

    #[test]
    fn no_path_and_no_query_of_a_url_is_shown() {
        let url = HookUrl::parse("https://hooks.example:8443/T0/hunter2?token=hunter2").unwrap();
        assert_eq!(url.to_string(), "https://hooks.example:8443/…");
        assert_eq!(format!("{url:?}"), "HookUrl(https://hooks.example:8443/…)");
        for bad in ["", "/x", "ftp://h/", "http://u:p@h/", "http://h/#a", "http://"] {
            assert!(HookUrl::parse(bad).is_none(), "{bad}");
        }
    }
}
