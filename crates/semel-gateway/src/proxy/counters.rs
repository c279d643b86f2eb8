//! What is counted of an upstream.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one upstream. They only grow.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    answered: [AtomicU64; 5],
    broken_bodies: AtomicU64,
    connections: AtomicU64,
    not_sent: AtomicU64,
    opened: AtomicU64,
    unknown: AtomicU64,
}

impl Counters {
    pub(super) fn answered(&self, status: http::StatusCode) {
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        add(&self.answered[class]);
    }

    pub(super) fn broken_body(&self) {
        add(&self.broken_bodies);
    }

    pub(super) fn connected(&self) {
        add(&self.connections);
    }

    pub(super) fn not_sent(&self) {
        add(&self.not_sent);
    }

    pub(super) fn opened(&self) {
        add(&self.opened);
    }

    pub(super) fn unknown(&self) {
        add(&self.unknown);
    }

    /// Returns every counter with its metric's name and its further labels.
    pub(crate) fn named(&self) -> Vec<(&'static str, &'static str, u64)> {
        const CLASSES: [&str; 5] =
            ["class=\"1xx\"", "class=\"2xx\"", "class=\"3xx\"", "class=\"4xx\"", "class=\"5xx\""];
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut named: Vec<_> = CLASSES
            .iter()
            .zip(&self.answered)
            .map(|(class, counter)| ("semel_upstream_answers_total", *class, read(counter)))
            .collect();
        named.extend([
            ("semel_upstream_broken_bodies_total", "", read(&self.broken_bodies)),
            ("semel_upstream_circuit_opened_total", "", read(&self.opened)),
            ("semel_upstream_connections_total", "", read(&self.connections)),
            ("semel_upstream_not_sent_total", "", read(&self.not_sent)),
            ("semel_upstream_unknown_total", "", read(&self.unknown)),
        ]);
        named
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
