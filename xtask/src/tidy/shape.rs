//! Rules about size and outline: the top folder, the length of files and functions, white space.

use super::Finding;
use super::rust::{Rust, group_end};
use super::tree::{File, Tree};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;

/// Nothing else lies at the top: no plans, no notes.
const ROOT: &[&str] = &[
    ".cargo",
    ".ci",
    ".gitattributes",
    ".gitignore",
    "ARCHITECTURE.md",
    "bench",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "clippy.toml",
    "CONTRIBUTING.md",
    "crates",
    "deny.toml",
    "docs",
    "examples",
    "fuzz",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "rust-toolchain.toml",
    "rustfmt.toml",
    "SECURITY.md",
    "typos.toml",
    "xtask",
];

/// Only listed names lie at the top.
pub(super) fn root(tree: &Tree) -> Vec<Finding> {
    let stray = |file: &&File| !ROOT.contains(&file.path.split('/').next().unwrap_or_default());
    let says = "nothing but the list in xtask/src/tidy/shape.rs lies at the top";
    tree.files.iter().filter(stray).map(|file| Finding::new(&file.path, 1, says)).collect()
}

/// A file holds one idea; past this many lines it holds two.
pub(super) fn length(tree: &Tree) -> Vec<Finding> {
    let written = ["rs", "sql", "js", "mjs", "css", "html", "sh", "py"];
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| written.iter().any(|extension| file.is(extension)))
    {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            let says =
                format!("{lines} lines: split the file by its ideas, {FILE_LINES_MAX} is the end");
            findings.push(Finding::new(&file.path, lines, says));
        }
    }
    findings
}

/// A function fits on a screen.
pub(super) fn function(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.rust() {
        for (line, lines) in functions(rust) {
            if lines > FUNCTION_LINES_MAX {
                let says =
                    format!("a function of {lines} lines of code: {FUNCTION_LINES_MAX} is the end");
                findings.push(Finding::new(&file.path, line, says));
            }
        }
    }
    findings
}

/// Where each function with a body starts, and how many lines of code it has.
fn functions(rust: &Rust) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (at, _) in rust.code.match_indices("fn ") {
        let before = rust.code[..at].chars().next_back();
        let named = rust.code[at + 3..].starts_with(|c: char| c.is_alphabetic() || c == '_');
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') || !named {
            continue;
        }
        if let Some(body) = body(&rust.code, at) {
            let lines = rust.code[body].lines().filter(|line| !line.trim().is_empty()).count();
            found.push((rust.line_at(at), lines));
        }
    }
    found
}

/// The bytes from `fn` to the end of the body; nothing for a function without one.
fn body(code: &str, start: usize) -> Option<std::ops::Range<usize>> {
    let mut at = start;
    loop {
        let next = at + code[at..].find(['{', ';', '(', '['])?;
        match code.as_bytes()[next] {
            b';' => return None,
            b'{' => return Some(start..group_end(code, next)? + 1),
            _ => at = group_end(code, next)? + 1,
        }
    }
}

/// A file says first what it is.
pub(super) fn module_doc(tree: &Tree) -> Vec<Finding> {
    let says = "a file begins by saying what it is: `//! …`";
    // Long prose is a page of its own that is compiled in.
    let begins = ["//! ", "#![doc = include_str!("];
    let silent =
        tree.rust().filter(|(file, _)| !begins.iter().any(|begin| file.text.starts_with(begin)));
    silent.map(|(file, _)| Finding::new(&file.path, 1, says)).collect()
}

/// No white space at the end of a line, a line feed at the end of the file, no carriage returns.
pub(super) fn whitespace(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let exempt = |file: &&File| {
        ["/testdata/", "fuzz/corpus/", "LICENSE-"].iter().any(|part| file.path.contains(part))
    };
    for file in tree.files.iter().filter(|file| !exempt(file)) {
        for (index, line) in file.text.split('\n').enumerate() {
            if line.ends_with([' ', '\t', '\r']) {
                findings.push(Finding::new(
                    &file.path,
                    index + 1,
                    "white space at the end of the line",
                ));
            }
        }
        if !file.text.is_empty() && (!file.text.ends_with('\n') || file.text.ends_with("\n\n")) {
            let last = file.text.lines().count();
            findings.push(Finding::new(&file.path, last, "a file ends with one line feed"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    #[test]
    fn a_stray_file_at_the_top_is_found() {
        assert_eq!(
            places(root, &[("NOTES.md", ""), ("README.md", ""), ("docs/x.md", "")]),
            ["NOTES.md:1"]
        );
    }

    #[test]
    fn a_file_of_601_lines_is_found() {
        let (fits, long) = ("\n".repeat(600), "\n".repeat(601));
        assert_eq!(places(length, &[("a.rs", &fits), ("b.rs", &long)]), ["b.rs:601"]);
    }

    #[test]
    fn a_function_of_71_lines_is_found() {
        let text =
            |lines: usize| format!("fn a(x: [u8; 3]) {{\n{}}}\n", "    x();\n".repeat(lines - 2));
        let nested = format!("trait T {{\n    fn b();\n}}\n{}", text(71));
        assert_eq!(places(function, &[("a.rs", &text(70)), ("b.rs", &nested)]), ["b.rs:4"]);
    }

    #[test]
    fn a_file_that_does_not_say_what_it_is_is_found() {
        let page = "#![doc = include_str!(\"../docs/c.md\")]\n";
        let files = [("a.rs", "//! A.\n"), ("b.rs", "use a;\n"), ("c.rs", page)];
        assert_eq!(places(module_doc, &files), ["b.rs:1"]);
    }

    #[test]
    fn trailing_space_and_a_missing_line_feed_are_found() {
        let files = [("a.rs", "x \ny\n"), ("b.md", "x"), ("c.md", "x\n"), ("d.sql", "x\r\n")];
        assert_eq!(places(whitespace, &files), ["a.rs:1", "b.md:1", "d.sql:1"]);
    }
}
