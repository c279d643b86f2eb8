//! The `semel` binary as a test runs it.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

/// What a command said and how it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Returns the standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Checks that it ended with a code and one sentence that holds some words.
    #[track_caller]
    pub(crate) fn ends(&self, code: i32, words: &str) {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.err.contains(words), "{self:?}");
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Returns the binary, to be run in a folder, with nothing of the test's own environment.
pub(crate) fn semel(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_semel"));
    command.current_dir(folder).args(arguments).stdin(Stdio::null());
    command.env_remove("RUST_LOG").env("USER", "ada");
    command
}

/// Runs the binary to its end.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Ran {
    semel(folder, arguments).output().unwrap().into()
}
