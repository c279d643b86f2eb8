//! Where the log goes: to the standard error, as lines or as JSON.

use std::io::{self, IsTerminal};

use clap::Args;
use tracing_subscriber::EnvFilter;

use super::exit::Failure;

#[derive(Args, Debug)]
pub(super) struct Log {
    /// What is logged: a level, or targets with levels, such as `info,semel=debug`; `info` for serve
    /// and relay, `warn` for everything else
    #[arg(long, global = true, env = "RUST_LOG", value_name = "FILTER")]
    log: Option<String>,
    /// Logs one JSON object a line
    #[arg(long, global = true)]
    log_json: bool,
}

impl Log {
    pub(super) fn init(&self, unless_said: &str) -> Result<(), Failure> {
        let log = self.log.as_deref().unwrap_or(unless_said);
        let filter = EnvFilter::try_new(log)
            .map_err(|error| Failure::usage(format!("--log {log}: {error}")))?;
        let lines = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(io::stderr)
            .with_ansi(io::stderr().is_terminal());
        let set = if self.log_json { lines.json().try_init() } else { lines.try_init() };
        set.map_err(|error| Failure::usage(format!("the log cannot be set up: {error}")))
    }
}
