//! How a command ends.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use semel::{Error, StoreError, StoreErrorKind};

use crate::config::Problems;

/// The exit codes, which are part of the command line's contract.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Exit {
    /// All is well.
    Fine,
    /// What was asked was refused, or had changed.
    Refused,
    /// The command line or the configuration is wrong.
    Usage,
    /// The store could not be asked.
    Store,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Fine => 0,
            Exit::Refused => 1,
            Exit::Usage => 2,
            Exit::Store => 3,
        })
    }
}

/// Why a command could not do what it was asked, in one sentence.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) exit: Exit,
    pub(super) message: String,
}

impl Failure {
    pub(super) fn refused(message: impl Into<String>) -> Self {
        Self { exit: Exit::Refused, message: message.into() }
    }

    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into() }
    }

    /// Refuses a name that nobody knows, and tells those that are known, or why there is none.
    pub(super) fn unknown(what: &str, known: &[&str], none: &str) -> Self {
        let known = match known {
            [] => none.to_owned(),
            known => format!("there is {}", known.join(", ")),
        };
        Self::refused(format!("{what}: {known}"))
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        let count = match problems.problems.len() {
            1 => "1 problem".to_owned(),
            count => format!("{count} problems"),
        };
        Self::usage(format!("the configuration has {count}\n{problems}"))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let exit = match error.kind() {
            StoreErrorKind::Invalid => Exit::Usage,
            _ => Exit::Store,
        };
        Self { exit, message: with_causes(&error) }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Store(error) => error.into(),
            other => Self { exit: Exit::Store, message: with_causes(&other) },
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::refused(error.to_string())
    }
}

/// Shows an error with everything that caused it.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut shown = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Some drivers' errors show their causes themselves.
        let text = error.to_string();
        if !shown.ends_with(&text) {
            shown = format!("{shown}: {text}");
        }
        cause = error.source();
    }
    shown
}

/// Writes to the standard output. A reader that went away, as `head` does, is no failure.
pub(super) fn say(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
