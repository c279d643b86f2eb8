//! What was measured of each service, as a table in Markdown.

use std::{collections::BTreeMap, time::Duration};

use serde_json::json;

use super::service::{Kind, Service, Step};
use crate::{
    load::Served,
    ratio::{Report, median},
};

/// What was measured of one service at one number of connections, one value for each round.
#[derive(Debug, Default)]
struct Row {
    service: &'static str,
    kinds: [Figures; Kind::ALL.len()],
}

/// The rounds of one kind of load.
#[derive(Debug, Default)]
struct Figures {
    rates: Vec<f64>,
    p50_ms: Vec<f64>,
    p99_ms: Vec<f64>,
}

impl Figures {
    fn add(&mut self, served: &Served) {
        self.rates.push(served.rate());
        self.p50_ms.push(ms(served.wait(50)));
        self.p99_ms.push(ms(served.wait(99)));
    }

    /// The median of the ratios, each of two loads of the same round.
    fn ratio(&self, bare: &Self) -> f64 {
        median(self.rates.iter().zip(&bare.rates).map(|(ours, bare)| ours / bare).collect())
    }

    /// The median of the time that each request takes longer, by the rates of two loads of the same round.
    fn added_us(&self, bare: &Self) -> f64 {
        let added = |(ours, bare): (&f64, &f64)| (1.0 / ours - 1.0 / bare) * 1e6;
        median(self.rates.iter().zip(&bare.rates).map(added).collect())
    }

    /// The ratio, and what is added.
    fn beside(&self, bare: &Self) -> String {
        format!("{:.2} · {:+.0} µs", self.ratio(bare), self.added_us(bare))
    }

    fn cell(&self) -> String {
        let (rate, p50, p99) = self.medians();
        format!("{} · {p50:.2} / {p99:.2} ms", thousands(rate))
    }

    fn medians(&self) -> (f64, f64, f64) {
        (median(self.rates.clone()), median(self.p50_ms.clone()), median(self.p99_ms.clone()))
    }

    fn json(&self, bare: &Self) -> serde_json::Value {
        let (rate, p50_ms, p99_ms) = self.medians();
        json!({
            "per_s": rate.round(), "p50_ms": p50_ms, "p99_ms": p99_ms,
            "ratio": self.ratio(bare), "added_us": self.added_us(bare),
        })
    }
}

/// All rows, by connections and by the service's place.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: BTreeMap<(u64, usize), Row>,
}

impl Table {
    pub(super) fn add(&mut self, service: &Service, step: &Step, served: &Served) {
        let row = self.rows.entry((step.connections, service.place)).or_default();
        row.service = service.name();
        let [bare, fresh, replay] = &mut row.kinds;
        match step.kind {
            Kind::Bare => bare.add(served),
            Kind::Fresh => fresh.add(served),
            Kind::Replay => replay.add(served),
        }
    }

    pub(super) fn report(&self, report: &mut Report) {
        let head = "| connections | service | without | fresh | beside without | replay | beside without |\n\
                    |---|---|---|---|---|---|---|";
        let mut lines = vec![head.to_owned()];
        for ((connections, _), Row { service, kinds: [bare, fresh, replay] }) in &self.rows {
            let line = format!(
                "| {connections} | {service} | {} | {} | {} | {} | {} |",
                bare.cell(),
                fresh.cell(),
                fresh.beside(bare),
                replay.cell(),
                replay.beside(bare)
            );
            lines.push(line);
        }
        let rows = self.rows.iter().map(|((connections, _), row)| {
            let Row { service, kinds: [bare, fresh, replay] } = row;
            json!({
                "connections": connections, "service": service,
                "without": bare.json(bare), "fresh": fresh.json(bare), "replay": replay.json(bare),
            })
        });
        report.note(json!({"name": "peers", "rows": rows.collect::<Vec<_>>()}), &lines.join("\n"));
    }
}

fn ms(wait: Duration) -> f64 {
    wait.as_secs_f64() * 1_000.0
}

/// A whole number with a comma before each three digits.
fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_stand_together() {
        let told = [0.4, 999.0, 1_000.0, 81_986.2, 1_234_567.0].map(thousands);
        assert_eq!(told, ["0", "999", "1,000", "81,986", "1,234,567"]);
    }

    #[test]
    fn the_ratio_is_that_of_the_middle_round() {
        let figures = |rates: [f64; 3]| Figures { rates: rates.into(), ..Figures::default() };
        let (ours, bare) = (figures([50.0, 10.0, 100.0]), figures([100.0, 100.0, 125.0]));
        assert_eq!(ours.beside(&bare), "0.50 · +10000 µs");
    }
}
