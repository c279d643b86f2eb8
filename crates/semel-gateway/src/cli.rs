//! The command line of the `semel` binary.

mod check;
mod demo;
mod exit;
mod inbox;
mod log;
mod migrate;
mod outbox;
mod records;
mod reference;
mod relay;
mod serve;
mod show;
mod signed;
mod store;
mod table;
mod why;

use std::{ffi::OsString, fmt, process::ExitCode};

use clap::{Parser, Subcommand};

use self::exit::{Exit, Failure};
pub(crate) use self::serve::ANNOUNCEMENT;

/// Makes a repeated intent harmless: an idempotency gateway for any HTTP API.
///
/// Exit codes: 0 all is well, 1 what was asked was refused or had changed, 2 the command line or the
/// configuration is wrong, 3 the store could not be asked.
#[derive(Debug, Parser)]
#[command(name = "semel", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    log: log::Log,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    Relay(relay::RelayArgs),
    Check(check::Check),
    Demo(demo::Demo),
    Records(Box<records::RecordsArgs>),
    Outbox(Box<outbox::OutboxArgs>),
    Inbox(Box<inbox::InboxArgs>),
    Why(why::Why),
    Migrate(migrate::Migrate),
    Reference(reference::Reference),
}

/// Reads a command line, and returns what it says without doing anything of it.
///
/// # Errors
///
/// Returns what the binary would print in place of doing it.
pub fn read(words: Vec<OsString>) -> Result<impl fmt::Debug, clap::Error> {
    Cli::try_parse_from(words)
}

/// Reads the command line and does what it says.
#[must_use]
pub fn main() -> ExitCode {
    run(std::env::args_os())
}

/// Does what a command line says, whose first word is the program's own name: for a program that is
/// a gateway besides.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("semel: this is a fault of the program itself, please report it: {panic}");
    }));
    let cli = Cli::parse_from(arguments);
    let log =
        if matches!(cli.command, Command::Relay(_) | Command::Serve(_)) { "info" } else { "warn" };
    match cli.log.init(log).and_then(|()| cli.command.run()) {
        Ok(exit) => exit.into(),
        Err(Failure { exit, message }) => {
            eprintln!("semel: {message}");
            exit.into()
        }
    }
}

impl Command {
    fn run(self) -> Result<Exit, Failure> {
        match self {
            Self::Check(check) => check.run(),
            Self::Demo(demo) => on_all_cores(demo.run()),
            Self::Migrate(migrate) => on_one_core(migrate.run()),
            Self::Inbox(inbox) => on_one_core(inbox.run()),
            Self::Why(why) => on_one_core(why.run()),
            Self::Outbox(outbox) => on_one_core(outbox.run()),
            Self::Records(records) => on_one_core(records.run()),
            Self::Relay(relay) => on_all_cores(relay.run()),
            Self::Reference(reference) => reference.run(),
            Self::Serve(serve) => on_all_cores(serve.run()),
        }
    }
}

fn on_all_cores<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}

fn on_one_core<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
