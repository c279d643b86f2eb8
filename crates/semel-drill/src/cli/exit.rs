//! How a command ends.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use crate::{effects::EffectsError, http::TargetError, plan::PlanError, report::Outcome};

/// The exit codes, which are part of the command line's contract.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Exit {
    /// All is well.
    Fine,
    /// A rule is broken.
    Broken,
    /// The command line or the plan is wrong.
    Usage,
    /// It could not be found out.
    NotFoundOut,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Fine => 0,
            Exit::Broken => 1,
            Exit::Usage => 2,
            Exit::NotFoundOut => 3,
        })
    }
}

impl From<Outcome> for Exit {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Kept => Self::Fine,
            Outcome::Broken => Self::Broken,
            Outcome::NotFoundOut => Self::NotFoundOut,
        }
    }
}

/// Why a command could not do what it was asked, in one sentence.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) exit: Exit,
    pub(super) message: String,
}

impl Failure {
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into() }
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        let count = match error.problems.len() {
            1 => "1 problem".to_owned(),
            count => format!("{count} problems"),
        };
        Self::usage(format!("the plan has {count}\n{error}"))
    }
}

impl From<TargetError> for Failure {
    fn from(error: TargetError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<EffectsError> for Failure {
    fn from(error: EffectsError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self { exit: Exit::NotFoundOut, message: error.to_string() }
    }
}

/// Writes to the standard output. A reader that went away, as `head` does, is no failure.
pub(super) fn say(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
