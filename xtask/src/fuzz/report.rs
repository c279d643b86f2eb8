//! What one run of one target came to, read off the words of libFuzzer.

/// How a run ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    /// The promise was broken, or the run took too long or too much memory.
    Broken,
    /// The promise was kept.
    Kept,
    /// Nothing was tried, or nothing was seen of what was reached: then the run says nothing.
    NotTried,
}

/// What one run came to.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) target: String,
    pub(crate) verdict: Verdict,
    runs: u64,
    /// How many edges the corpus reached, and all inputs in the end.
    reached: (u64, u64),
    inputs: u64,
    memory_mib: u64,
    text: String,
}

/// How much of the output of a run that broke is shown.
const LINES_SHOWN: usize = 40;

impl Report {
    pub(crate) fn of(target: &str, ended_well: bool, text: String) -> Self {
        let mut report = Self {
            target: target.to_owned(),
            verdict: Verdict::Broken,
            runs: stat(&text, "stat::number_of_executed_units:"),
            reached: (0, 0),
            inputs: 0,
            memory_mib: stat(&text, "stat::peak_rss_mb:"),
            text,
        };
        let mut counted = report.text.lines().filter(|line| line.contains(" cov: "));
        let reached: Vec<_> = counted.clone().map(|line| after(line, "cov:")).collect();
        if let (Some(first), Some(last)) = (reached.first(), reached.last()) {
            report.reached = (*first, *last);
        }
        report.inputs = counted.next_back().map_or(0, |line| after(line, "corp:"));
        report.verdict = match (ended_well, report.runs > 0 && report.reached.1 > 0) {
            (false, _) => Verdict::Broken,
            (true, false) => Verdict::NotTried,
            (true, true) => Verdict::Kept,
        };
        report
    }

    /// The heading of the lines.
    pub(crate) fn head() -> String {
        format!(
            "{:<14}{:<10}{:>12}{:>18}{:>8}{:>9}",
            "target", "promise", "runs", "edges", "inputs", "MiB"
        )
    }

    /// One line.
    pub(crate) fn line(&self) -> String {
        let verdict = match self.verdict {
            Verdict::Broken => "BROKEN",
            Verdict::Kept => "kept",
            Verdict::NotTried => "NOT TRIED",
        };
        let edges = format!("{} -> {}", self.reached.0, self.reached.1);
        let Self { target, runs, inputs, memory_mib, .. } = self;
        format!("{target:<14}{verdict:<10}{runs:>12}{edges:>18}{inputs:>8}{memory_mib:>9}")
    }

    /// Shows why, and how to see it again.
    pub(crate) fn explain(&self) {
        println!("\n{}:", self.target);
        for line in self.why() {
            println!("  {line}");
        }
        match self.crash() {
            Some(path) => {
                println!("see it again: cargo xtask fuzz --replay {path} {}", self.target)
            }
            None => println!("no input was saved"),
        }
    }

    /// What was said from the first panic on, or else in the end.
    fn why(&self) -> impl Iterator<Item = &str> {
        let panicked = self.text.lines().position(|line| line.contains("panicked at"));
        let skipped = || self.text.lines().count().saturating_sub(LINES_SHOWN);
        self.text.lines().skip(panicked.unwrap_or_else(skipped)).take(LINES_SHOWN)
    }

    fn crash(&self) -> Option<&str> {
        let line = self.text.lines().rfind(|line| line.contains("Test unit written to "))?;
        line.split_once("Test unit written to ").map(|(_, path)| path.trim())
    }
}

fn stat(text: &str, name: &str) -> u64 {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap_or(0)
}

/// The number that follows a word.
fn after(line: &str, word: &str) -> u64 {
    let rest = line.split_once(word).map_or("", |(_, rest)| rest).trim_start();
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: &str = "#9\tINITED cov: 1780 ft: 2017 corp: 8/340b exec/s: 0 rss: 32Mb\n\
                        #205723\tDONE   cov: 1913 ft: 2478 corp: 128/2854b lim: 1467 exec/s: 34287\n\
                        stat::number_of_executed_units: 205723\n\
                        stat::peak_rss_mb:              53\n";

    #[test]
    fn what_was_reached_is_read() {
        let report = Report::of("key", true, KEPT.to_owned());
        assert_eq!(report.verdict, Verdict::Kept);
        let line = "key           kept            205723      1780 -> 1913     128       53";
        assert_eq!(report.line(), line);
    }

    #[test]
    fn a_run_that_saw_nothing_says_nothing() {
        let blind = KEPT.replace("cov: 1780", "cov: 0").replace("cov: 1913", "cov: 0");
        for text in [blind, String::new()] {
            assert_eq!(Report::of("key", true, text).verdict, Verdict::NotTried);
        }
    }

    #[test]
    fn the_input_that_broke_a_promise_is_named() {
        let text = "panicked at key.rs:7:1:\nartifact_prefix='/x/'; Test unit written to /x/crash-1\nBase64: AA==\n";
        let report = Report::of("key", false, text.to_owned());
        assert_eq!(report.verdict, Verdict::Broken);
        assert_eq!(report.crash(), Some("/x/crash-1"));
        assert_eq!(report.why().next(), Some("panicked at key.rs:7:1:"));
    }
}
