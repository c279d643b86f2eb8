//! The counters as Prometheus reads them.

use std::fmt::Write as _;

use axum::body::Body;
use http::{HeaderValue, Response, header};

use super::Shared;

/// Writes every counter of the engine and of each upstream.
pub(super) fn answer(shared: &Shared) -> Response<Body> {
    let mut page = Page::default();
    for (name, value) in shared.engine.stats().named() {
        page.line("counter", name, "", value);
    }
    page.line("gauge", "semel_holding", "", count(shared.engine.holding()));
    page.line("gauge", "semel_waiting", "", count(shared.engine.waiting()));
    page.line("gauge", "semel_client_connections", "", count(shared.connections.len()));
    let mut lines = Vec::new();
    for upstream in &shared.upstreams {
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
    let mut response = Response::new(Body::from(page.text));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

#[derive(Debug, Default)]
struct Page {
    text: String,
    last: &'static str,
}

impl Page {
    fn line(&mut self, kind: &str, name: &'static str, labels: &str, value: u64) {
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
