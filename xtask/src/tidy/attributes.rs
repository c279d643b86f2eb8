//! The rule that a silenced lint says why.

use super::Finding;
use super::rust::{finds_word, group_end};
use super::tree::Tree;

/// Every `allow` and `expect` of a lint carries a reason.
pub(super) fn reason(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.rust() {
        for (at, group) in silenced(&rust.code) {
            if !finds_word(group, "reason") {
                let says = "a silenced lint says why: add `reason = \"…\"`";
                findings.push(Finding::new(&file.path, rust.line_at(at), says));
            }
        }
    }
    findings
}

/// Each `allow(…)` and `expect(…)` inside an attribute: where it starts, and what is in its brackets.
pub(super) fn silenced(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let starts = code.match_indices("#[").chain(code.match_indices("#!["));
    for (start, opening) in starts {
        let Some(end) = group_end(code, start + opening.len() - 1) else {
            continue;
        };
        let attribute = &code[start..end];
        for word in ["allow(", "expect("] {
            for (at, _) in attribute.match_indices(word) {
                let before = attribute[..at].chars().next_back();
                let open = start + at + word.len() - 1;
                if before.is_some_and(|c| matches!(c, '[' | '(' | ' ' | ',')) {
                    let close = group_end(code, open).unwrap_or(end);
                    found.push((start + at, &code[open + 1..close]));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    #[test]
    fn a_lint_silenced_without_reason_is_found() {
        let text = "#![allow(a)]\n#[expect(b, reason = \"c\")]\nfn f() { x.expect(\"y\"); }\n\
                    #[cfg_attr(test, allow(\n    d,\n))]\nfn g() {}\n";
        assert_eq!(places(reason, &[("a.rs", text)]), ["a.rs:1", "a.rs:4"]);
    }
}
