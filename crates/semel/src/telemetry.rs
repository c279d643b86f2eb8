//! What is counted, and under which name: every name once.

use std::sync::atomic::{AtomicU64, Ordering};

/// Requests with a key that an HTTP layer let pass, since their path is only almost an operation's.
pub const HTTP_MISSED: &str = "semel_http_missed_total";

/// Problem documents that an HTTP layer sent, with the label `code`.
pub const HTTP_PROBLEMS: &str = "semel_http_problems_total";

/// Requests that an HTTP layer let run without protection, since the store was away.
pub const HTTP_UNPROTECTED: &str = "semel_http_unprotected_total";

/// How long ago the oldest event was appended that the destination lacks and that waits for no operator,
/// in seconds, with the label `destination`.
pub const RELAY_OLDEST: &str = "semel_relay_oldest_seconds";

/// The circuit of a destination: 0 closed, 1 half-open, 2 open, with the label `destination`.
pub const RELAY_CIRCUIT: &str = "semel_relay_circuit";

/// How many events are in hand, with the label `destination`.
pub const RELAY_IN_HAND: &str = "semel_relay_in_hand";

/// Whether this relay leads, 0 or 1, with the label `destination`.
pub const RELAY_LEADING: &str = "semel_relay_leading";

/// How many lanes are parked as far as the leader knows, with the label `destination`.
pub const RELAY_PARKED_LANES: &str = "semel_relay_parked_lanes";

/// Events, or partitions of them, that retention has dropped.
pub const RELAY_DROPPED: &str = "semel_relay_dropped_total";

macro_rules! counters {
    (
        $counters:ident, $(#[$of:meta])* $stats:ident:
        $($(#[$doc:meta])* $field:ident => $name:literal,)*
    ) => {
        /// Counters that only grow.
        #[derive(Debug, Default)]
        pub(crate) struct $counters {
            $(pub(crate) $field: AtomicU64,)*
        }

        $(#[$of])*
        #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
        #[non_exhaustive]
        pub struct $stats {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl $counters {
            pub(crate) fn stats(&self) -> $stats {
                $stats { $($field: self.$field.load(Ordering::Relaxed),)* }
            }
        }

        impl $stats {
            /// Returns every counter with the name it has in metrics.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$(($name, self.$field),)*]
            }
        }
    };
}

counters! {
    Counters,
    /// The counters of one engine at one instant.
    Stats:
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

counters! {
    RelayCounters,
    /// The counters of one destination of a relay at one instant.
    RelayStats:
    /// How often the circuit opened.
    circuit_opened => "semel_relay_circuit_opened_total",
    /// Events sent whose version is not above the one sent before in their lane.
    disorders => "semel_relay_disorders_total",
    /// Heads of lanes that were put before an operator.
    failed => "semel_relay_failed_total",
    /// Events that a publisher confirmed behind one of their lane that it did not.
    inversions => "semel_relay_inversions_total",
    /// Settlements refused since another leads.
    late => "semel_relay_late_settlements_total",
    /// Leaderships won.
    leads => "semel_relay_leads_total",
    /// Parked events left out as an operator said.
    left_out => "semel_relay_left_out_total",
    /// Leaderships lost.
    lost => "semel_relay_leaderships_lost_total",
    /// Events that are not for this destination, parked ones too.
    not_routed => "semel_relay_not_routed_total",
    /// Events parked.
    parked => "semel_relay_parked_total",
    /// Messages refused for their own sake.
    refused => "semel_relay_refused_total",
    /// Messages sent again.
    resent => "semel_relay_resent_total",
    /// Events confirmed.
    sent => "semel_relay_sent_total",
    /// Lanes parked aside since they were stuck.
    set_aside => "semel_relay_set_aside_total",
    /// Settlements written.
    settlements => "semel_relay_settlements_total",
    /// Errors of the store.
    store_errors => "semel_relay_store_errors_total",
    /// Messages refused for the destination's sake.
    turned_away => "semel_relay_turned_away_total",
    /// Messages of which nobody can say whether they arrived.
    unknown => "semel_relay_unknown_total",
}

counters! {
    InboxCounters,
    /// The counters of one consumer at one instant.
    InboxStats:
    /// Times that something was away which every message needs.
    away => "semel_inbox_away_total",
    /// Deliveries that came.
    deliveries => "semel_inbox_deliveries_total",
    /// Copies of messages that were handled before.
    duplicates => "semel_inbox_duplicates_total",
    /// Runs of messages that failed.
    failures => "semel_inbox_failures_total",
    /// Messages handled.
    handled => "semel_inbox_handled_total",
    /// Settlements of deliveries that were no longer this consumer's.
    lost => "semel_inbox_lost_total",
    /// Messages that came with other content than before.
    mismatches => "semel_inbox_mismatch_total",
    /// Times that what a run recorded could not be sent.
    not_emitted => "semel_inbox_not_emitted_total",
    /// Messages parked.
    parked => "semel_inbox_parked_total",
    /// Errors of the source.
    source_errors => "semel_inbox_source_errors_total",
    /// Errors of the store.
    store_errors => "semel_inbox_store_errors_total",
    /// Messages that are no longer remembered.
    swept => "semel_inbox_swept_total",
}

/// Adds one, and returns what it was before.
pub(crate) fn count(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed)
}

/// Adds a number.
pub(crate) fn count_many(counter: &AtomicU64, number: usize) {
    if number > 0 {
        counter.fetch_add(u64::try_from(number).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}
