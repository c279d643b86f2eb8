//! Everything a developer or CI runs on this repository: `cargo xtask --help`.
//!
//! One file, one task. A task returns an error that says what is wrong; it never leaves a check out in silence.
#![allow(
    clippy::disallowed_methods,
    reason = "tasks read the environment and the clock; nothing of this is linked into Semel"
)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may fail by panicking"))]

mod arrows;
mod bench;
mod ci;
mod docs;
mod drill_peers;
mod fuzz;
mod install;
mod markdown;
mod shell;
mod test;
mod tidy;
mod try_json_server;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Check that the crates depend on each other only as the design allows
    Arrows,
    /// Run the benches: ratios against the bare operation (release build)
    Bench(bench::Arguments),
    /// Run every check, the same at home and in CI
    Ci(ci::Arguments),
    /// Check licences, banned crates and sources of the dependencies
    Deny,
    /// Run the code blocks of README.md and docs/
    DocsTest,
    /// Drill published packages for idempotency keys, and write the table of docs/internals/peers.md
    DrillPeers(drill_peers::Arguments),
    /// Look for inputs that break what the fuzz targets promise
    Fuzz(fuzz::Arguments),
    /// Install what tests need and this machine lacks, without running them
    Install,
    /// Run every test of the workspace, installing what they need
    Test(test::Arguments),
    /// Check the rules of the house that no compiler knows
    Tidy,
    /// Send 50 requests with one key at once to the gateway before npm's json-server, and to the axum example
    TryJsonServer(try_json_server::Arguments),
    /// Check the spelling
    Typos,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    match Arguments::parse().task {
        Task::Arrows => arrows::run(),
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Ci(arguments) => ci::run(&arguments),
        Task::Deny => ci::deny(),
        Task::DocsTest => docs::run(),
        Task::DrillPeers(arguments) => drill_peers::run(&arguments),
        Task::Fuzz(arguments) => fuzz::run(&arguments),
        Task::Install => install::for_tests(),
        Task::Test(arguments) => test::run(&arguments),
        Task::Tidy => tidy::run(),
        Task::TryJsonServer(arguments) => try_json_server::run(&arguments),
        Task::Typos => ci::typos(),
    }
}
