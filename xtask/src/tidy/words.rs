//! Rules about words that have no place in a finished tree.

use super::Finding;
use super::tree::Tree;

/// What code must not contain.
const UNFINISHED_CODE: &[&str] = &["todo!", "unimplemented!", "dbg!", "#[ignore"];

/// What no text may contain; split, so that this file may name them.
const UNFINISHED_TEXT: &[&str] = &[concat!("FIX", "ME"), concat!("TO", "DO"), concat!("XX", "X")];

/// Folders that exist on one machine only; split for the same reason.
const MACHINE_PATHS: &[&str] =
    &[concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/Us", "ers/")];

/// What is not finished is not on main, and a test that does not run is no test.
pub(super) fn unfinished(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.rust() {
        for (number, line) in rust.lines() {
            for word in UNFINISHED_CODE.iter().filter(|word| line.contains(**word)) {
                let says = format!("`{word}` does not belong on main: finish it or leave it out");
                findings.push(Finding::new(&file.path, number, says));
            }
        }
    }
    findings.extend(text_with(
        tree,
        UNFINISHED_TEXT,
        "is a note to oneself: do it or file an issue",
    ));
    findings
}

/// Nobody else has the folders of this machine.
pub(super) fn machine_path(tree: &Tree) -> Vec<Finding> {
    text_with(tree, MACHINE_PATHS, "is a path of somebody's machine")
}

fn text_with(tree: &Tree, words: &[&str], says: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let read =
        tree.files.iter().filter(|file| !file.path.contains("/testdata/") && !file.is("lock"));
    for file in read {
        for (index, line) in file.text.lines().enumerate() {
            for word in words.iter().filter(|word| stands_alone(line, word)) {
                findings.push(Finding::new(&file.path, index + 1, format!("`{word}` {says}")));
            }
        }
    }
    findings
}

/// Whether `word` stands in `line` and is not the tail or, for a plain word, the head of a longer one.
fn stands_alone(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let joins = |side: Option<char>| {
            side.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-'))
        };
        !joins(before) && (word.ends_with('/') || !joins(after))
    })
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    #[test]
    fn unfinished_code_is_found_and_comments_about_it_are_not() {
        let files = [
            ("a.rs", "// todo!() is banned\nfn a() {\n    todo!()\n}\n"),
            ("b.rs", "#[ignore = \"\"]\n"),
        ];
        assert_eq!(places(unfinished, &files), ["a.rs:3", "b.rs:1"]);
    }

    #[test]
    fn a_note_to_oneself_is_found_in_any_text() {
        let note = format!("x\n-- {}: later\n", UNFINISHED_TEXT[0]);
        assert_eq!(places(unfinished, &[("a.sql", &note)]), ["a.sql:2"]);
    }

    #[test]
    fn a_path_of_one_machine_is_found_and_a_url_is_not() {
        let bad = format!("see {}me/x\n", MACHINE_PATHS[0]);
        let fine = format!("https://example.com{}page\n", MACHINE_PATHS[0]);
        assert_eq!(places(machine_path, &[("a.md", &bad), ("b.md", &fine)]), ["a.md:1"]);
    }
}
