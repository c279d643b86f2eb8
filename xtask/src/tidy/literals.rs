//! The rule that a name on the wire is written once: everybody else uses the constant.

use std::collections::BTreeMap;

use super::Finding;
use super::tree::{File, Tree};

/// The rooms that own header, metric and span names, and error codes.
const OWNERS: &[&str] = &["crates/semel/src/wire.rs", "crates/semel/src/telemetry.rs"];

/// No literal of an owner is written again in code that is linked into a release.
pub(super) fn once(tree: &Tree) -> Vec<Finding> {
    let names = owned(tree);
    let mut findings = Vec::new();
    let linked =
        |file: &File| file.path.starts_with("crates/") && !OWNERS.contains(&file.path.as_str());
    for (file, rust) in tree.rust().filter(|(file, _)| linked(file)) {
        for literal in rust.literals.iter().filter(|literal| !file.is_test_line(literal.line)) {
            if let Some(owner) = names.get(&literal.text.to_ascii_lowercase()) {
                let says = format!("\"{}\" is a constant of {owner}: use it", literal.text);
                findings.push(Finding::new(&file.path, literal.line, says));
            }
        }
    }
    findings
}

/// Every name that could not be anything else, in lower case, with the file that owns it.
fn owned(tree: &Tree) -> BTreeMap<String, &'static str> {
    let mut names = BTreeMap::new();
    for owner in OWNERS {
        let Some(file) = tree.file(owner) else {
            continue;
        };
        for literal in file.rust.iter().flat_map(|rust| &rust.literals) {
            // A plain word such as `operation` means many things; a compound name means one.
            let compound =
                literal.text.contains(['-', '_', '.', '/', ':']) && !literal.text.contains(' ');
            if compound && !file.is_test_line(literal.line) {
                names.insert(literal.text.to_ascii_lowercase(), *owner);
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    #[test]
    fn a_repeated_header_name_is_found() {
        let files = [
            (
                "crates/semel/src/wire.rs",
                "const A: &str = \"Idempotency-Key\";\nconst B: &str = \"state\";\n",
            ),
            (
                "crates/semel-http/src/header.rs",
                "let a = \"idempotency-key\";\nlet b = \"state\";\n",
            ),
            ("crates/semel-http/tests/it/main.rs", "let a = \"idempotency-key\";\n"),
        ];
        assert_eq!(places(once, &files), ["crates/semel-http/src/header.rs:1"]);
    }
}
