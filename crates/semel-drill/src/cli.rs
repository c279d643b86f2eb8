//! The command line of the `semel-drill` binary.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand};

/// Breaks a running API on purpose and counts the effects: does a retry act twice?
///
/// Exit codes: 0 every verdict is good, 1 a rule is broken, 2 the command line or the plan is wrong,
/// 3 the target or its effects could not be asked.
#[derive(Debug, Parser)]
#[command(name = "semel-drill", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Http(Http),
}

/// Drills an HTTP API by a plan
#[derive(Args, Debug)]
struct Http {
    /// The plan: a file, or the name of a built-in one
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Where the API listens; otherwise the plan says
    #[arg(long, value_name = "URL")]
    target: Option<String>,
}

/// Reads the command line and does what it says.
#[must_use]
pub fn main() -> ExitCode {
    let Command::Http(http) = Cli::parse().command;
    drop(http);
    ExitCode::SUCCESS
}
