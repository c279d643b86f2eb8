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
    if config.operation.is_empty() {
        return format!("{file} can be used, but protects nothing: it has no [[operation]]");
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
    format!("{file} can be used\n{}", table.trim_fmt())
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
