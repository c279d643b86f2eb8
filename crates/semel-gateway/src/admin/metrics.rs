//! The counters as Prometheus reads them.

use std::{
    fmt::{self, Write as _},
    time::Duration,
};

use axum::body::Body;
use http::{HeaderValue, Response, header};
use semel::{Monotonic, outbox::relay::Relay, store::capability::Counts, telemetry};
use tokio::{sync::Mutex, time::timeout};

use super::{Serving, Shared};

/// For how long the records are not counted again.
const COUNTED_FOR: Duration = Duration::from_secs(10);

/// The last count of the records, and when it was made.
pub(super) type Counted = Mutex<Option<(Monotonic, Counts)>>;

/// Writes every counter of the engine, of the layer, of each upstream and of the relay, and what the
/// store holds.
pub(super) async fn answer(shared: &Shared) -> Response<Body> {
    let mut page = Page::default();
    if let Some(serving) = &shared.gateway {
        gateway(&mut page, shared, serving).await;
    }
    if let Some(running) = &shared.relay {
        relay(&mut page, running);
    }
    let mut response = Response::new(Body::from(page.text));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

async fn gateway(page: &mut Page, shared: &Shared, serving: &Serving) {
    for (name, value) in serving.engine.stats().named() {
        page.line("counter", name, "", value);
    }
    let http = serving.layer.stats();
    for (code, value) in &http.problems {
        let label = format!("code=\"{}\"", code.as_str());
        page.line("counter", telemetry::HTTP_PROBLEMS, &label, *value);
    }
    page.line("counter", telemetry::HTTP_MISSED, "", http.missed);
    page.line("counter", telemetry::HTTP_UNPROTECTED, "", http.unprotected);
    if let Some(counts) = counts(shared, serving).await {
        page.records(&counts);
    }
    page.line("gauge", "semel_holding", "", count(serving.engine.holding()));
    page.line("gauge", "semel_waiting", "", count(serving.engine.waiting()));
    page.line("gauge", "semel_client_connections", "", count(serving.connections.len()));
    let mut lines = Vec::new();
    for upstream in &serving.upstreams {
        let label = format!("upstream=\"{}\"", escaped(&upstream.settings.name));
        for (name, more, value) in upstream.named_counters() {
            let comma = if more.is_empty() { "" } else { "," };
            lines.push(("counter", name, format!("{label}{comma}{more}"), value));
        }
        let open = u64::from(upstream.is_left_alone());
        lines.push(("gauge", "semel_upstream_circuit_open", label, open));
    }
    // Lines of one metric stand together, whatever number of upstreams there is.
    lines.sort_by_key(|(_, name, _, _)| *name);
    for (kind, name, labels, value) in lines {
        page.line(kind, name, &labels, value);
    }
}

fn relay(page: &mut Page, relay: &Relay) {
    let mut lines = Vec::new();
    for health in relay.destinations() {
        let label = format!("destination=\"{}\"", health.destination);
        for (name, value) in health.stats.named() {
            lines.push(("counter", name, label.clone(), Number::Whole(value)));
        }
        for (name, value) in health.gauges() {
            lines.push(("gauge", name, label.clone(), Number::Real(value)));
        }
    }
    lines.sort_by_key(|(_, name, _, _)| *name);
    for (kind, name, labels, value) in lines {
        page.line(kind, name, &labels, value);
    }
    page.line("counter", telemetry::RELAY_DROPPED, "", relay.dropped());
    let held_up = u64::from(relay.retention_held_up().is_some());
    page.line("gauge", "semel_relay_retention_held_up", "", held_up);
}

enum Number {
    Real(f64),
    Whole(u64),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Real(value) => value.fmt(f),
            Self::Whole(value) => value.fmt(f),
        }
    }
}

/// Counts the records, if the store does so in time.
async fn counts(shared: &Shared, serving: &Serving) -> Option<Counts> {
    // Whoever comes while they are counted waits for that count.
    let mut counted = timeout(shared.ready_wait, serving.counted.lock()).await.ok()?;
    let now = shared.clock.monotonic();
    if let Some((at, counts)) = &*counted
        && now.since(*at) < COUNTED_FOR
    {
        return Some(counts.clone());
    }
    match timeout(shared.ready_wait, serving.inspect.counts()).await.ok()? {
        Ok(counts) => {
            *counted = Some((now, counts.clone()));
            Some(counts)
        }
        Err(error) => {
            tracing::warn!(%error, "the records could not be counted");
            None
        }
    }
}

#[derive(Debug, Default)]
struct Page {
    text: String,
    last: &'static str,
}

impl Page {
    fn records(&mut self, counts: &Counts) {
        for (state, records) in [
            ("done", counts.done),
            ("forgotten", counts.forgotten),
            ("open", counts.open),
            ("running", counts.running),
            ("unknown", counts.unknown),
        ] {
            self.line("gauge", "semel_records", &format!("state=\"{state}\""), records);
        }
        self.line("gauge", "semel_records_stuck", "", counts.stuck);
        if let Some(oldest) = counts.oldest_running {
            let seconds = oldest.as_micros() / 1_000_000;
            self.line("gauge", "semel_oldest_running_timestamp_seconds", "", seconds);
        }
    }

    fn line(&mut self, kind: &str, name: &'static str, labels: &str, value: impl fmt::Display) {
        if self.last != name {
            self.write(format_args!("# TYPE {name} {kind}\n"));
            self.last = name;
        }
        match labels {
            "" => self.write(format_args!("{name} {value}\n")),
            labels => self.write(format_args!("{name}{{{labels}}} {value}\n")),
        }
    }

    fn write(&mut self, line: std::fmt::Arguments<'_>) {
        self.text.write_fmt(line).expect("a string takes everything");
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
