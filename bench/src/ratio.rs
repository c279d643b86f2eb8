//! Rounds of a pair, their medians, and the report.

use std::future::Future;

use anyhow::Result;
use serde_json::{Value, json};

/// What was measured so far.
#[derive(Debug)]
pub(crate) struct Report {
    json: bool,
    rows: Vec<Value>,
}

impl Report {
    pub(crate) const fn new(json: bool) -> Self {
        Self { json, rows: Vec::new() }
    }

    /// Measures `ours` and `bare` in turn and reports the median of each and of the ratios.
    pub(crate) async fn pair<A, B>(
        &mut self,
        name: &str,
        goal: f64,
        rounds: u32,
        mut ours: impl FnMut(u32) -> A,
        mut bare: impl FnMut(u32) -> B,
    ) -> Result<()>
    where
        A: Future<Output = Result<f64>>,
        B: Future<Output = Result<f64>>,
    {
        // One round of each warms caches and connections and is not counted.
        ours(0).await?;
        bare(0).await?;
        let (mut mine, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 1..=rounds {
            let (a, b) = if round % 2 == 0 {
                let a = ours(round).await?;
                (a, bare(round).await?)
            } else {
                let b = bare(round).await?;
                (ours(round).await?, b)
            };
            eprintln!("{name}: round {round} of {rounds}: {:.3}", a / b);
            mine.push(a);
            theirs.push(b);
            ratios.push(a / b);
        }
        let (ours, bare, ratio) = (median(mine), median(theirs), median(ratios));
        self.rows.push(json!({
            "name": name, "ours_per_s": ours.round(), "bare_per_s": bare.round(),
            "ratio": (ratio * 1000.0).round() / 1000.0, "goal": goal, "reached": ratio >= goal,
        }));
        if !self.json {
            let mark = if ratio >= goal { "reached" } else { "below" };
            println!("{name:<44} {ours:>9.0}/s {bare:>9.0}/s  {ratio:.3}  goal {goal}  {mark}");
        }
        Ok(())
    }

    /// Reports a figure that is no pair.
    pub(crate) fn figure(&mut self, name: &str, value: f64, unit: &str, goal: f64, reached: bool) {
        self.rows.push(
            json!({"name": name, "value": value, "unit": unit, "goal": goal, "reached": reached}),
        );
        if !self.json {
            let mark = if reached { "reached" } else { "missed" };
            println!("{name:<44} {value:>9.2} {unit}  goal {goal}  {mark}");
        }
    }

    /// Reports what has no goal.
    pub(crate) fn note(&mut self, row: Value, line: &str) {
        self.rows.push(row);
        if !self.json {
            println!("{line}");
        }
    }

    pub(crate) fn finish(self) -> Result<()> {
        if self.json {
            println!("{}", serde_json::to_string_pretty(&self.rows)?);
        }
        Ok(())
    }
}

/// The value in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
