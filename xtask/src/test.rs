//! `cargo xtask test`: every test of the workspace by plain `cargo test`, and no silence about one that did not run.

use std::io::{BufRead, BufReader};
use std::num::NonZero;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::{install, shell};

/// Which tests to run.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Arguments {
    /// Run only tests whose path contains this
    filter: Option<String>,
    /// Test only this package
    #[arg(long, short)]
    package: Option<String>,
    /// Leave out the tests whose path contains this, by name; any other test that does not run fails the run
    #[arg(long, value_name = "NAME")]
    excuse: Vec<String>,
}

/// Installs what tests need and runs them.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    install::for_tests()?;
    let tally = watch(command(arguments))?;
    for name in &arguments.excuse {
        println!("excused on the command line: {name}");
    }
    println!("\n{} passed, {} failed", tally.passed, tally.failed);
    tally.judge()
}

fn command(arguments: &Arguments) -> Command {
    let mut test = shell::cargo(&["test", "--locked", "--no-fail-fast"]);
    match arguments.package.as_deref() {
        None => test.args(shell::WHOLE),
        Some("semel-gateway") => {
            test.args(["--package", "semel-gateway"]).args(shell::WHOLE_GATEWAY)
        }
        Some(package) => test.args(["--package", package]),
    };
    // Most tests wait for servers: twice as many at once as there are cores keep the cores busy.
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        test.env("RUST_TEST_THREADS", (2 * cores).to_string());
    }
    test.args(&arguments.filter).arg("--");
    for name in &arguments.excuse {
        test.args(["--skip", name]);
    }
    test
}

/// Runs the tests with their output shown, and counts.
fn watch(mut test: Command) -> Result<Tally> {
    let mut child = test.stdout(Stdio::piped()).spawn().context("cannot start cargo test")?;
    let output = child.stdout.take().context("cargo test has no output")?;
    let mut tally = Tally::default();
    for line in BufReader::new(output).lines() {
        let line = line.context("cannot read what cargo test prints")?;
        println!("{line}");
        tally.read(&line);
    }
    tally.ended_well = child.wait().context("cannot wait for cargo test")?.success();
    Ok(tally)
}

/// What the closing lines of all test binaries add up to.
#[derive(Debug, Default)]
struct Tally {
    passed: u64,
    failed: u64,
    not_run: Vec<String>,
    failures: Vec<String>,
    ended_well: bool,
}

impl Tally {
    fn read(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += count(counts, "passed");
            self.failed += count(counts, "failed");
        } else if let Some(test) = line.strip_prefix("test ") {
            let named = |ending: &str| test.strip_suffix(ending).map(str::to_owned);
            self.failures.extend(named(" ... FAILED"));
            // With a reason the line reads `ignored, why`.
            let ignored = test.split_once(" ... ignored").map(|(name, _)| name.to_owned());
            self.not_run.extend(ignored);
        }
    }

    fn judge(&self) -> Result<()> {
        let failures = self.failures.join(", ");
        ensure!(self.failed == 0, "{} tests failed: {failures}", self.failed);
        ensure!(self.ended_well, "cargo test failed before or beside its tests");
        let not_run = self.not_run.join(", ");
        ensure!(not_run.is_empty(), "a test that did not run is a failed test: {not_run}");
        ensure!(self.passed > 0, "no test ran");
        Ok(())
    }
}

/// The number before `word` in `ok. 3 passed; 0 failed; …`.
fn count(counts: &str, word: &str) -> u64 {
    let parts = counts.split(['.', ';']);
    let numbers =
        parts.filter_map(|part| part.trim().strip_suffix(word)?.trim().parse::<u64>().ok());
    numbers.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(lines: &[&str]) -> Tally {
        let mut tally = Tally { ended_well: true, ..Tally::default() };
        lines.iter().for_each(|line| tally.read(line));
        tally
    }

    #[test]
    fn closing_lines_add_up() {
        let closing = "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out";
        let tally = tally(&["test a::b ... ok", closing, closing]);
        assert_eq!((tally.passed, tally.failed), (24, 0));
        assert!(tally.judge().is_ok());
    }

    #[test]
    fn an_ignored_test_fails_the_run_by_its_name() {
        for line in ["test a::b ... ignored", "test a::b ... ignored, too slow"] {
            let tally = tally(&[line, "test result: ok. 1 passed; 0 failed; 1 ignored"]);
            let error = tally.judge().unwrap_err().to_string();
            assert!(error.ends_with("a::b"), "{error}");
        }
    }

    #[test]
    fn a_run_without_tests_and_a_failed_build_fail() {
        assert!(tally(&["test result: ok. 0 passed; 0 failed"]).judge().is_err());
        let mut broken = tally(&["test result: ok. 3 passed; 0 failed"]);
        broken.ended_well = false;
        assert!(broken.judge().is_err());
    }
}
