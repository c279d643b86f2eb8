//! `cargo xtask tidy`: the rules of the house that no compiler knows, each with a reason and a sample that breaks it.
//!
//! A rule is a pure function of the [`tree::Tree`], so every rule is tested on a few lines of made-up source.

mod attributes;
mod errors;
mod faults;
mod fences;
mod goldens;
mod lifts;
mod links;
mod literals;
mod manifests;
mod names;
mod rooms;
mod rust;
mod shape;
mod siblings;
mod sleeps;
mod sql;
mod tree;
mod words;

use anyhow::{Result, ensure};

use tree::Tree;

/// One place that breaks a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    says: String,
}

impl Finding {
    fn new(path: &str, line: usize, says: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, says: says.into() }
    }
}

type Rule = (&'static str, fn(&Tree) -> Vec<Finding>);

const RULES: &[Rule] = &[
    ("root", shape::root),
    ("length", shape::length),
    ("function", shape::function),
    ("module-doc", shape::module_doc),
    ("whitespace", shape::whitespace),
    ("name", names::names),
    ("manifest", manifests::manifests),
    ("unfinished", words::unfinished),
    ("machine-path", words::machine_path),
    ("reason", attributes::reason),
    ("lift", lifts::lift),
    ("sql-in-rust", sql::in_rust),
    ("sql-unused", sql::unused),
    ("room", rooms::room),
    ("sibling", siblings::rooms),
    ("literal", literals::once),
    ("sleep", sleeps::guesses),
    ("golden", goldens::golden),
    ("error-page", errors::pages),
    ("fault", faults::held),
    ("link", links::links),
    ("fence", fences::fences),
];

/// Prints every finding as `path:line: sentence` and fails if there is one.
pub(crate) fn run() -> Result<()> {
    let tree = Tree::read()?;
    let mut count = 0;
    for (name, rule) in RULES {
        for finding in sorted(rule(&tree)) {
            println!("{}:{}: {} [{name}]", finding.path, finding.line, finding.says);
            count += 1;
        }
    }
    ensure!(count == 0, "{count} places break a rule of the house");
    println!("{} files keep {} rules", tree.files.len(), RULES.len());
    Ok(())
}

fn sorted(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort();
    findings
}

/// Runs `rule` over made-up files and returns where it found something, for the rules' own tests.
#[cfg(test)]
fn places(rule: fn(&Tree) -> Vec<Finding>, files: &[(&str, &str)]) -> Vec<String> {
    let findings = sorted(rule(&Tree::of(files)));
    let place = |finding: &Finding| format!("{}:{}", finding.path, finding.line);
    findings.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        run().unwrap();
    }
}
