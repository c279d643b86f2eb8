//! What the tests said, added up.

use anyhow::{Result, ensure};

/// What the closing lines of all test binaries add up to.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) passed: u64,
    pub(super) failed: u64,
    not_run: Vec<String>,
    failures: Vec<String>,
    /// What ended badly without a test that failed.
    broken: Vec<String>,
}

impl Tally {
    /// Adds what one binary said.
    pub(super) fn add(&mut self, binary: &str, said: &str, ended_well: bool) {
        let before = self.failed;
        said.lines().for_each(|line| self.read(binary, line));
        if !ended_well && self.failed == before {
            self.broken.push(binary.to_owned());
        }
    }

    /// Adds something that did not hold, and why.
    pub(super) fn fail(&mut self, what: &str, why: &str) {
        self.failed += 1;
        self.failures.push(format!("{what}: {why}"));
    }

    fn read(&mut self, binary: &str, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += count(counts, "passed");
            self.failed += count(counts, "failed");
        } else if let Some(test) = line.strip_prefix("test ") {
            let named = |ending: &str| test.strip_suffix(ending).map(str::to_owned);
            self.failures.extend(named(" ... FAILED").map(|test| format!("{binary} {test}")));
            // With a reason the line reads `ignored, why`.
            let ignored = test.split_once(" ... ignored").map(|(name, _)| name);
            self.not_run.extend(ignored.map(|test| format!("{binary} {test}")));
        }
    }

    /// Says whether every test ran and passed, and names those that did not.
    pub(super) fn judge(&self) -> Result<()> {
        let failures = self.failures.join("\n  ");
        ensure!(self.failed == 0, "{} tests failed:\n  {failures}", self.failed);
        let broken = self.broken.join(", ");
        ensure!(broken.is_empty(), "these ended before or beside their tests: {broken}");
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
        let mut tally = Tally::default();
        tally.add("some it", &lines.join("\n"), true);
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
            assert!(error.ends_with("some it a::b"), "{error}");
        }
    }

    #[test]
    fn a_failed_test_is_told_by_its_binary_and_its_name_at_the_end() {
        let mut tally = tally(&["test result: ok. 3 passed; 0 failed"]);
        let said = "test a::b ... FAILED\ntest result: FAILED. 1 passed; 1 failed";
        tally.add("other it", said, false);
        let error = tally.judge().unwrap_err().to_string();
        assert!(error.ends_with("1 tests failed:\n  other it a::b"), "{error}");
    }

    #[test]
    fn a_run_without_tests_and_a_binary_that_dies_fail() {
        assert!(tally(&["test result: ok. 0 passed; 0 failed"]).judge().is_err());
        let mut broken = tally(&["test result: ok. 3 passed; 0 failed"]);
        broken.add("other it", "running 2 tests\ntest a::b ... ok", false);
        let error = broken.judge().unwrap_err().to_string();
        assert!(error.ends_with("beside their tests: other it"), "{error}");
    }
}
