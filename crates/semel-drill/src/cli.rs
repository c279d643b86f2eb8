//! The command line of the `semel-drill` binary.

mod consumer;
mod drilled;
mod exit;
mod http;
mod interruption;
mod plan;
mod progress;
mod rules;
mod stack;

use std::{ffi::OsString, process::ExitCode};

use clap::{Parser, Subcommand};

use self::exit::{Exit, Failure};
use crate::aside::aside;

/// Breaks a running API or consumer on purpose and counts the effects: does a retry act twice?
///
/// Exit codes: 0 every rule that was tried is kept, 1 a rule is broken, 2 the command line or the plan
/// is wrong, 3 it could not be found out.
#[derive(Debug, Parser)]
#[command(name = "semel-drill", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the gateway of this build, so that what is drilled is what was built
    #[command(hide = true, disable_help_flag = true)]
    Gateway {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    Consumer(Box<consumer::ConsumerArgs>),
    Http(Box<http::Http>),
    Plan(plan::PlanArgs),
    Rules(rules::Rules),
    Stack(Box<stack::StackArgs>),
}

/// Reads the command line and does what it says.
#[must_use]
pub fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        aside(format_args!(
            "semel-drill: this is a fault of the program itself, please report it: {panic}"
        ));
    }));
    let command = match Cli::parse().command {
        Command::Gateway { arguments } => {
            return semel_gateway::cli::run([OsString::from("semel")].into_iter().chain(arguments));
        }
        command => command,
    };
    match command.run() {
        Ok(exit) => exit.into(),
        Err(Failure { exit, message }) => {
            aside(format_args!("semel-drill: {message}"));
            exit.into()
        }
    }
}

impl Command {
    fn run(self) -> Result<Exit, Failure> {
        match self {
            // It ends by codes of its own, before.
            Self::Gateway { .. } => Ok(Exit::Fine),
            Self::Consumer(consumer) => on_all_cores(consumer.run()),
            Self::Http(http) => on_all_cores(http.run()),
            Self::Plan(plan) => plan.run(),
            Self::Rules(rules) => rules.run(),
            Self::Stack(stack) => on_all_cores(stack.run()),
        }
    }
}

fn on_all_cores<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}
