//! The rules about stable codes: no two kinds share one, and each has a page under docs/errors/.
//!
//! A stable code is a literal in the body of a `fn code`, the first one of a row of `codes!`, or one that stands as
//! `code: "…"`. What the engine refuses keeps its code at the boundary, so only those of `fn code` must differ.

use std::collections::BTreeMap;

use super::Finding;
use super::rust::{Rust, group_end};
use super::tree::Tree;

const PAGES: &str = "docs/errors/";

/// Pages of the folder that are about no single code.
const OTHER_PAGES: &[&str] = &["README", "index"];

/// Codes are unique, and codes and pages match.
pub(super) fn pages(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let codes = codes(tree, &mut findings);
    let page = |path: &str| Some(path.strip_prefix(PAGES)?.strip_suffix(".md")?.to_owned());
    let pages: Vec<_> = tree.files.iter().filter_map(|file| page(&file.path)).collect();
    if pages.is_empty() {
        return findings;
    }
    for (code, (path, line)) in &codes {
        if !pages.contains(code) {
            findings.push(Finding::new(
                path,
                *line,
                format!("the code has no page {PAGES}{code}.md"),
            ));
        }
    }
    for name in pages.iter().filter(|name| !OTHER_PAGES.contains(&name.as_str())) {
        if !codes.contains_key(name) {
            let says = format!("no `fn code` returns \"{name}\": the page is about nothing");
            findings.push(Finding::new(&format!("{PAGES}{name}.md"), 1, says));
        }
    }
    findings
}

/// Every code with the place that declares it.
fn codes(tree: &Tree, findings: &mut Vec<Finding>) -> BTreeMap<String, (String, usize)> {
    let mut codes = BTreeMap::new();
    let linked =
        tree.rust().filter(|(file, _)| file.path.starts_with("crates/") && !file.is_for_tests());
    for (file, rust) in linked {
        for (line, code) in declared(rust).into_iter().filter(|(line, _)| !file.is_test_line(*line))
        {
            let place = (file.path.clone(), line);
            if let Some((path, first)) = codes.insert(code.clone(), place) {
                let says = format!("\"{code}\" is a code of {path}:{first} already");
                findings.push(Finding::new(&file.path, line, says));
            }
        }
    }
    for (file, rust) in
        tree.rust().filter(|(file, _)| file.path.starts_with("crates/") && !file.is_for_tests())
    {
        for (line, code) in shown(rust).into_iter().filter(|(line, _)| !file.is_test_line(*line)) {
            codes.entry(code).or_insert_with(|| (file.path.clone(), line));
        }
    }
    codes
}

/// The literals in the bodies of all `fn code`.
fn declared(rust: &Rust) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in rust.code.match_indices("fn code(") {
        let Some(open) = rust.code[at..].find('{').map(|length| at + length) else { continue };
        let close = group_end(&rust.code, open).unwrap_or(rust.code.len());
        let lines = rust.line_at(open)..=rust.line_at(close);
        let inside = rust.literals.iter().filter(|literal| lines.contains(&literal.line));
        found.extend(inside.map(|literal| (literal.line, literal.text.clone())));
    }
    found
}

/// The codes of problem documents: first literals of the rows of `codes!`, and literals behind `code:`.
fn shown(rust: &Rust) -> Vec<(usize, String)> {
    let tables: Vec<_> = rust
        .code
        .match_indices("codes! {")
        .map(|(at, start)| {
            let end = group_end(&rust.code, at + start.len() - 1).unwrap_or(rust.code.len());
            rust.line_at(at)..=rust.line_at(end)
        })
        .collect();
    let mut found: Vec<(usize, String)> = Vec::new();
    for (number, line) in rust.lines() {
        let is_row = tables.iter().any(|table| table.contains(&number));
        let is_field = line.trim_start().starts_with("code: \"");
        if is_row || is_field {
            let first = rust.literals.iter().find(|literal| literal.line == number);
            found.extend(first.map(|literal| (number, literal.text.clone())));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    const ERROR: &str = "crates/semel/src/error.rs";
    const CODES: &str = "fn code(&self) -> &'static str {\n    match self {\n        Self::Busy => \"busy\",\n        \
                         Self::Full => \"full\",\n    }\n}\nfn name() -> &'static str { \"name\" }\n";

    #[test]
    fn a_code_without_page_and_a_page_without_code_are_found() {
        let files = [
            (ERROR, CODES),
            ("docs/errors/busy.md", ""),
            ("docs/errors/gone.md", ""),
            ("docs/errors/README.md", ""),
        ];
        assert_eq!(
            places(pages, &files),
            [format!("{ERROR}:4"), "docs/errors/gone.md:1".to_owned()]
        );
    }

    #[test]
    fn a_code_declared_twice_is_found() {
        let other = "crates/semel-http/src/problem.rs";
        let files = [(ERROR, CODES), (other, "fn code() -> &'static str { \"busy\" }\n")];
        assert_eq!(places(pages, &files), [format!("{other}:1")]);
    }

    #[test]
    fn a_problem_without_page_is_found() {
        let text = "codes! {\n    Late \"late\" GONE \"Too late\",\n}\nconst A: Problem = Problem {\n    \
                    code: \"away\",\n    title: \"Away\",\n};\n";
        let path = "crates/semel-http/src/problem.rs";
        let files = [(path, text), ("docs/errors/README.md", "")];
        assert_eq!(places(pages, &files), [format!("{path}:2"), format!("{path}:5")]);
    }
}
