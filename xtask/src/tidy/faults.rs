//! The rule that the page of published faults and the tests that carry their numbers agree.
//!
//! An entry of the page begins with `- **C19**`. It names its tests in backticks, by crate (`semel…`), file and function, or says
//! `No test:` and why. A test carries the numbers of the faults that it holds in its doc comment: `/// C19, C80: …`.

use super::Finding;
use super::sleeps::declared;
use super::tree::{File, Tree};

const PAGE: &str = "docs/internals/faults.md";

/// Stands in an entry before the reason why nothing here tests the fault.
const NO_TEST: &str = "No test:";

/// The kinds of which every number that a test carries is listed; what is told of clients and brokers comes with them.
const LISTED: &[char] = &['C', 'S'];

/// One fault on the page.
#[derive(Debug)]
struct Entry {
    line: usize,
    id: String,
    /// The tests it names, with their lines.
    tests: Vec<(usize, String)>,
    has_reason: bool,
}

/// A test that carries numbers.
#[derive(Debug)]
struct Test<'a> {
    file: &'a str,
    line: usize,
    name: String,
    ids: Vec<String>,
}

/// Every test that the page names exists and carries the number; every listed kind of number that a test carries
/// is on the page; every
/// entry has a test or a reason.
pub(super) fn held(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file(PAGE) else { return Vec::new() };
    let entries = entries(&page.text);
    let tests: Vec<_> = tree.files.iter().flat_map(tests).collect();
    let mut findings = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        findings.extend(wrong(entry, &tests));
        if entries[..index].iter().any(|before| before.id == entry.id) {
            findings.push(Finding::new(PAGE, entry.line, format!("{} stands twice", entry.id)));
        }
    }
    for test in &tests {
        let must_stand = |id: &&String| id.starts_with(LISTED) && !is_listed(&entries, id);
        for id in test.ids.iter().filter(must_stand) {
            let says = format!("the test carries {id}, which {PAGE} does not list");
            findings.push(Finding::new(test.file, test.line, says));
        }
    }
    findings
}

fn is_listed(entries: &[Entry], id: &str) -> bool {
    entries.iter().any(|entry| entry.id == id)
}

fn wrong(entry: &Entry, tests: &[Test<'_>]) -> Vec<Finding> {
    let id = &entry.id;
    if entry.tests.is_empty() && !entry.has_reason {
        let says = format!("{id} names no test and does not say `{NO_TEST}` and why");
        return vec![Finding::new(PAGE, entry.line, says)];
    }
    let carries = |name: &str| tests.iter().any(|test| test.name == *name && test.ids.contains(id));
    let missing = entry.tests.iter().filter(|(_, name)| !carries(name));
    missing
        .map(|(line, name)| Finding::new(PAGE, *line, format!("no test `{name}` carries {id}")))
        .collect()
}

fn entries(text: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut inside = false;
    for (line, words) in (1..).zip(text.lines()) {
        if let Some((id, _)) = words.strip_prefix("- **").and_then(|rest| rest.split_once("**")) {
            inside = true;
            entries.push(Entry { line, id: id.to_owned(), tests: Vec::new(), has_reason: false });
        } else if !words.starts_with("  ") {
            inside = false;
        }
        if let Some(entry) = entries.last_mut().filter(|_| inside) {
            entry.has_reason |= words.contains(NO_TEST);
            let quoted = words.split('`').skip(1).step_by(2);
            let quoted = quoted.filter(|name| name.starts_with("semel") && name.contains("::"));
            entry.tests.extend(quoted.map(|name| (line, name.to_owned())));
        }
    }
    entries
}

/// The tests of a file that carry numbers.
fn tests(file: &File) -> Vec<Test<'_>> {
    let mut tests = Vec::new();
    let Some((rust, module)) = file.rust.as_ref().zip(module(&file.path)) else { return tests };
    let mut ids = Vec::new();
    for ((line, code), text) in rust.lines().zip(file.text.lines()) {
        if let Some(comment) = text.trim_start().strip_prefix("///") {
            ids.extend(numbers(comment));
        } else if let Some(function) = declared(code) {
            let ids = std::mem::take(&mut ids);
            if !ids.is_empty() && file.is_test_line(line) {
                let name = format!("{module}::{function}");
                tests.push(Test { file: &file.path, line, name, ids });
            }
        } else if !code.trim_start().starts_with("#[") {
            ids.clear();
        }
    }
    tests
}

/// The name of the module that a file of a crate is: `semel_http::races` for its `tests/it/races.rs`.
fn module(path: &str) -> Option<String> {
    let (name, rest) = path.strip_prefix("crates/")?.split_once('/')?;
    let inside = rest.strip_prefix("tests/it/").or_else(|| rest.strip_prefix("src/"))?;
    let inside = inside.strip_suffix(".rs")?;
    let inside = inside.strip_suffix("/mod").unwrap_or(inside);
    Some(format!("{}::{}", name.replace('-', "_"), inside.replace('/', "::")))
}

/// Words such as `C19`, `S01` and `M11a`.
fn numbers(comment: &str) -> impl Iterator<Item = String> {
    let words = comment.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter(|word| is_number(word)).map(str::to_owned)
}

fn is_number(word: &str) -> bool {
    let Some(rest) = word.strip_prefix(['C', 'L', 'M', 'S']) else { return false };
    let digits = rest.trim_end_matches(|c: char| c.is_ascii_lowercase());
    digits.len() >= 2 && digits.bytes().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    const TESTS: &str = "/// C01, S02: one wins.\n#[test]\nfn one_wins() {}\n\n/// Not C09 any more.\n\n\
                         /// Slow, C77\n#[test]\n#[cfg(unix)]\nfn it_lasts() {}\n";

    fn check(page: &str, found: &[&str]) {
        let files = [(PAGE, page), ("crates/semel-http/tests/it/races.rs", TESTS)];
        assert_eq!(places(held, &files), found, "{page}");
    }

    #[test]
    fn a_page_that_agrees_with_the_tests_passes() {
        check(
            "# Faults\n\n- **C01** Both run.\n  `semel_http::races::one_wins`\n- **C77** Gone.\n  \
             `semel_http::races::it_lasts`\n- **S02** Also.\n  `semel_http::races::one_wins`\n- **S23** Order.\n  \
             No test: there is no order.\n\nWords with `a::b`.\n",
            &[],
        );
    }

    #[test]
    fn a_test_that_does_not_exist_or_carries_another_number_is_found() {
        check(
            "- **C01** Both run.\n  `semel_http::races::all_win`\n- **C77** `semel_http::races::one_wins`\n\
             - **S02** `semel_http::races::one_wins`\n",
            &["docs/internals/faults.md:2", "docs/internals/faults.md:3"],
        );
    }

    #[test]
    fn a_number_that_the_page_does_not_list_is_found_at_the_test() {
        let page =
            "- **C01** `semel_http::races::one_wins`\n- **C77** No test: x\n- **C77** No test: y\n";
        check(page, &["crates/semel-http/tests/it/races.rs:3", "docs/internals/faults.md:3"]);
    }

    #[test]
    fn an_entry_without_a_test_or_a_reason_is_found() {
        let page =
            "- **C01** `semel_http::races::one_wins`\n- **C77** Nothing.\n- **S02** No test: x\n";
        check(page, &["docs/internals/faults.md:2"]);
    }
}
