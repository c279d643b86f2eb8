//! `cargo xtask ci`: every check in one sensible order, cheap ones first, nothing built twice.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::builder::PossibleValuesParser;

use crate::{arrows, fuzz, install, shell, test, tidy};

/// How much of CI to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Run the remaining steps after a failure too
    #[arg(long)]
    keep_going: bool,
    /// Leave these steps out
    #[arg(long, value_name = "STEP", value_parser = PossibleValuesParser::new(STEPS.iter().map(|(name, _)| *name)))]
    skip: Vec<String>,
    /// Run only these steps
    #[arg(value_parser = PossibleValuesParser::new(STEPS.iter().map(|(name, _)| *name)))]
    steps: Vec<String>,
}

type Step = (&'static str, fn() -> Result<()>);

const STEPS: &[Step] = &[
    ("format", format),
    ("typos", typos),
    ("tidy", tidy::run),
    ("arrows", arrows::run),
    ("deny", deny),
    ("shear", shear),
    ("clippy", clippy),
    ("doc", doc),
    ("fuzz", || fuzz::run(&fuzz::Arguments::default())),
    ("test", || test::run(&test::Arguments::default())),
];

#[derive(Debug)]
enum Verdict {
    Failed(Duration, String),
    NotRun,
    Passed(Duration),
}

/// Runs the steps, stopping at the first failure, and prints what each took.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let asked = |name: &str| {
        let named = |steps: &[String]| steps.iter().any(|step| step == name);
        (arguments.steps.is_empty() || named(&arguments.steps)) && !named(&arguments.skip)
    };
    let mut verdicts = Vec::new();
    let mut stopped = false;
    for (name, step) in STEPS.iter().filter(|(name, _)| asked(name)) {
        let verdict = if stopped { Verdict::NotRun } else { one(name, *step) };
        stopped |= !arguments.keep_going && matches!(verdict, Verdict::Failed(..));
        verdicts.push((*name, verdict));
    }
    close(&verdicts)
}

fn one(name: &str, step: fn() -> Result<()>) -> Verdict {
    println!("\n==> {name}");
    let start = Instant::now();
    let result = step();
    let took = start.elapsed();
    match result {
        Err(error) => {
            println!("==> {name} FAILED after {:.1} s: {error:#}", took.as_secs_f64());
            Verdict::Failed(took, format!("{error:#}"))
        }
        Ok(()) => {
            println!("==> {name} passed in {:.1} s", took.as_secs_f64());
            Verdict::Passed(took)
        }
    }
}

fn close(verdicts: &[(&str, Verdict)]) -> Result<()> {
    let mut first = None;
    println!("\n{:<12}{:<10}{:>8}", "step", "verdict", "seconds");
    for (name, verdict) in verdicts {
        let (word, took) = match verdict {
            Verdict::Failed(took, _) => ("FAILED", Some(took)),
            Verdict::NotRun => ("not run", None),
            Verdict::Passed(took) => ("passed", Some(took)),
        };
        let seconds = took.map_or_else(String::new, |took| format!("{:.1}", took.as_secs_f64()));
        println!("{name:<12}{word:<10}{seconds:>8}");
        if let (Verdict::Failed(_, why), None) = (verdict, first) {
            first = Some((name, why));
        }
    }
    match first {
        None => Ok(()),
        Some((name, why)) => bail!("{name}: {why}\nrun it alone: cargo xtask ci {name}"),
    }
}

fn format() -> Result<()> {
    install::component("fmt")?;
    shell::show(shell::cargo(&["fmt", "--all", "--check"]))
}

/// Checks the spelling by typos.toml.
pub(crate) fn typos() -> Result<()> {
    shell::show(shell::command(install::tool("typos")?, &[]))
}

/// Checks the dependencies by deny.toml.
pub(crate) fn deny() -> Result<()> {
    let checks = ["--log-level", "error", "--locked", "check", "licenses", "bans", "sources"];
    shell::show(shell::command(install::tool("cargo-deny")?, &checks))
}

/// Checks that every dependency that is named is used.
fn shear() -> Result<()> {
    shell::show(shell::command(install::tool("cargo-shear")?, &["--locked"]))
}

fn clippy() -> Result<()> {
    install::component("clippy")?;
    install::for_building()?;
    let mut clippy = shell::cargo(&["clippy", "--locked", "--all-targets"]);
    clippy.args(shell::WHOLE).args(["--", "-D", "warnings"]);
    shell::show(clippy)
}

fn doc() -> Result<()> {
    install::for_building()?;
    let mut doc = shell::cargo(&["doc", "--locked", "--no-deps"]);
    doc.args(shell::WHOLE);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    shell::show(doc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_named_and_fails_the_run() {
        let took = Duration::from_secs(1);
        let verdicts = [
            ("a", Verdict::Passed(took)),
            ("b", Verdict::Failed(took, "it broke".to_owned())),
            ("c", Verdict::NotRun),
        ];
        let error = close(&verdicts).unwrap_err().to_string();
        assert!(error.starts_with("b: it broke"), "{error}");
        assert!(close(&verdicts[..1]).is_ok());
    }
}
