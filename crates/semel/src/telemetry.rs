//! What is counted, and under which name: every name once.

use std::sync::atomic::{AtomicU64, Ordering};

/// Requests with a key that an HTTP layer let pass, since their path is only almost an operation's.
pub const HTTP_MISSED: &str = "semel_http_missed_total";

/// Problem documents that an HTTP layer sent, with the label `code`.
pub const HTTP_PROBLEMS: &str = "semel_http_problems_total";

/// Requests that an HTTP layer let run without protection, since the store was away.
pub const HTTP_UNPROTECTED: &str = "semel_http_unprotected_total";

macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident => $name:literal,)*) => {
        /// Counters of one engine. They only grow.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $field: AtomicU64,)*
        }

        /// The counters of one engine at one instant.
        #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl Counters {
            pub(crate) fn stats(&self) -> Stats {
                Stats { $($field: self.$field.load(Ordering::Relaxed),)* }
            }
        }

        impl Stats {
            /// Returns every counter with the name it has in metrics.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$(($name, self.$field),)*]
            }
        }
    };
}

counters! {
    /// Claims given up before their effect began, and released by token.
    abandoned => "semel_abandoned_total",
    /// Bridged runs answered as done by an application that did not complete them.
    breaches => "semel_bridge_breaches_total",
    /// Completions that met an ended permit.
    conflicts => "semel_conflicts_total",
    /// Outcomes refused since they were dropped.
    forgotten => "semel_forgotten_total",
    /// Intents granted.
    fresh => "semel_fresh_total",
    /// Callers told that another holder works on it.
    in_progress => "semel_in_progress_total",
    /// Leases lost while their holder worked.
    lost => "semel_leases_lost_total",
    /// Callers refused for other content under the same key.
    mismatches => "semel_mismatch_total",
    /// Ends of runs that could not be stored within their bound.
    not_stored => "semel_not_stored_total",
    /// Intents given back.
    released => "semel_released_total",
    /// Outcomes replayed.
    replays => "semel_replay_total",
    /// Errors of the store.
    store_errors => "semel_store_errors_total",
    /// Records swept.
    swept => "semel_swept_total",
    /// Lost holders replaced.
    takeovers => "semel_takeovers_total",
    /// Callers told that nobody can say.
    unknown => "semel_unknown_total",
    /// Callers that waited for another holder.
    waits => "semel_waits_total",
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
