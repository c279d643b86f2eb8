//! `semel check`: reads a configuration and tells everything that is wrong with it.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::exit::{Exit, Failure, say};
use crate::config::{Config, OperationConfig, Problems, Word, written};

/// Checks a configuration: every problem at once, with its place
#[derive(Args, Debug)]
pub(super) struct Check {
    /// The configuration
    #[arg(long, short, default_value = "semel.toml", value_name = "FILE")]
    config: PathBuf,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(super) fn run(self) -> Result<Exit, Failure> {
        match (Config::load(&self.config), self.json) {
            (Ok(_), true) => say(&json!({ "ok": true, "problems": [] }).to_string())?,
            (Ok(config), false) => say(&summary(&self.config.display().to_string(), &config))?,
            (Err(problems), true) => {
                say(&report(&problems).to_string())?;
                return Ok(Exit::Usage);
            }
            (Err(problems), false) => return Err(problems.into()),
        }
        Ok(Exit::Fine)
    }
}

fn report(problems: &Problems) -> serde_json::Value {
    let all: Vec<_> = problems
        .problems
        .iter()
        .map(|problem| {
            json!({
                "file": problems.file,
                "line": problem.line,
                "column": problem.column,
                "kind": problem.kind.as_str(),
                "setting": problem.key,
                "message": problem.message,
            })
        })
        .collect();
    json!({ "ok": false, "problems": all })
}

fn summary(file: &str, config: &Config) -> String {
    let destinations = destinations(config);
    if config.operation.is_empty() {
        let what = if destinations.is_empty() {
            ", but protects nothing: it has no [[operation]]"
        } else if config.is_for_a_relay_alone() {
            " by `semel relay`"
        } else {
            " to relay events, but protects nothing: it has no [[operation]]"
        };
        return format!("{file} can be used{what}{destinations}");
    }
    let mut table = super::table::plain([
        "operation",
        "methods and path",
        "upstream",
        "key",
        "on lost",
        "replayed for",
        "remembered for",
    ]);
    for operation in &config.operation {
        table.add_row(row(config, operation));
    }
    format!("{file} can be used\n{}{destinations}", table.trim_fmt())
}

/// Lays out the destinations below what is said before; nothing if there are none.
fn destinations(config: &Config) -> String {
    if config.destination.is_empty() {
        return String::new();
    }
    let mut table = super::table::plain(["destination", "kind", "to", "types", "starts"]);
    for destination in &config.destination {
        let to = match &destination.url {
            Some(url) => url.to_string(),
            None => format!("{} {}", destination.brokers.join(","), destination.topic),
        };
        let types = destination.types.join(", ");
        table.add_row([
            destination.name.to_string(),
            destination.kind.word().to_owned(),
            to,
            if types.is_empty() { "all".to_owned() } else { types },
            destination.start.word().to_owned(),
        ]);
    }
    format!("\n\n{}", table.trim_fmt())
}

fn row(config: &Config, operation: &OperationConfig) -> Vec<String> {
    let methods: Vec<_> = operation.method.0.iter().map(ToString::to_string).collect();
    vec![
        operation.name.to_string(),
        format!("{} {}", methods.join(", "), operation.path),
        config.upstream_of(operation).map_or_else(String::new, |upstream| upstream.name.clone()),
        operation.key.word().to_owned(),
        operation.on_lost.word().to_owned(),
        written(operation.replay_for),
        written(operation.remember_for),
    ]
}
