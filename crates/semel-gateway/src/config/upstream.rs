//! The servers behind the gateway.

use std::{path::PathBuf, time::Duration};

use super::{
    schema::{settings, words},
    value::Url,
};

settings! {
    /// A server behind the gateway.
    pub struct UpstreamConfig {
        /// Its name, for operations, metrics and problem documents.
        name: String,
        /// `http` or `https`, a host, perhaps a port, perhaps a path that is put before every path.
        url: Url,
        /// Paths that belong to it when they match no operation, such as `["/billing"]`. The longest match wins.
        prefixes: Vec<String> = [],
        /// The certificates trusted for `https`, in PEM. Without it, Mozilla's roots.
        ca: Option<PathBuf>,
        /// Which `Host` it is sent: the one in `url`, or the client's.
        host: Host = "upstream",
        /// Whether what it says by the headers `semel-effect` and `semel-pointer` is believed.
        trusted: bool = false,
        /// Whether it is sent the permits of bridged operations: it completes them in transactions of the store's own database.
        bridged: bool = false,
        /// How long finding the address, connecting, the TLS handshake and the wait for a free connection may take together.
        connect_wait: Duration = "5s",
        /// How long the head of an answer may take, from the first byte of the request on.
        answer_wait: Duration = "60s",
        /// How long the next piece of a body may take.
        body_wait: Duration = "5m",
        /// How many connections may be open at once.
        connections: u32 = 512,
        /// How many of them are kept while nobody uses them.
        idle: u32 = 64,
        /// How long one is kept while nobody uses it. An operation with `on_lost = "hold"` uses none that was idle for more than a second.
        idle_for: Duration = "4s",
        /// After how many failures in a row nothing is sent any more; 0 never stops.
        circuit_failures: u32 = 5,
        /// How long nothing is sent then, until one request is tried.
        circuit_for: Duration = "5s",
    }
}

/// Which `Host` an upstream is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Host {
    /// The client's.
    Client,
    /// The one in its URL.
    Upstream,
}

words! { Host: Upstream = "upstream", Client = "client" }

impl UpstreamConfig {
    /// Returns the longest of its prefixes that `path` lies below.
    pub(super) fn prefix_of(&self, path: &str) -> Option<&str> {
        let lies_below = |prefix: &&str| {
            path.strip_prefix(*prefix).is_some_and(|rest| {
                rest.is_empty() || rest.starts_with('/') || prefix.ends_with('/')
            })
        };
        self.prefixes.iter().map(String::as_str).filter(lies_below).max_by_key(|p| p.len())
    }
}
