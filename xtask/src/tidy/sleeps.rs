//! The rule that a test does not guess how long something takes.

use super::Finding;
use super::rust::finds_word;
use super::tree::{File, Tree};

/// Functions that poll a condition with a deadline, by how their names begin.
const POLLING: &[&str] = &["eventually", "poll", "until", "wait_for"];

/// A test sleeps only where it polls, or says in the comment above why no signal can tell it.
pub(super) fn guesses(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.rust().filter(|(file, _)| file.path.starts_with("crates/")) {
        let mut function = "";
        for (number, line) in rust.lines() {
            function = declared(line).unwrap_or(function);
            let polls = POLLING.iter().any(|name| function.starts_with(name));
            let sleeps =
                finds_word(line, "sleep") && line.contains("sleep(") && !line.contains("fn sleep");
            if sleeps && file.is_test_line(number) && !polls && !has_comment_above(file, number) {
                let says = "a sleep guesses: wait for a signal, poll with a deadline, or say above it why neither can";
                findings.push(Finding::new(&file.path, number, says));
            }
        }
    }
    findings
}

/// The name of the function that `line` declares.
pub(super) fn declared(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("fn ")?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    Some(&rest[..end])
}

fn has_comment_above(file: &File, number: usize) -> bool {
    let above = number.checked_sub(2).and_then(|index| file.text.lines().nth(index));
    above.is_some_and(|line| line.trim_start().starts_with("// "))
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    #[test]
    fn a_sleep_that_guesses_is_found() {
        let text = "async fn until_done() {\n    sleep(ms).await;\n}\n#[test]\nfn it_holds() {\n    sleep(ms);\n\
                    \x20   // The upstream counts the seconds.\n    sleep(ms);\n}\n";
        let files = [("crates/a/tests/it/main.rs", text), ("crates/a/src/lib.rs", text)];
        assert_eq!(places(guesses, &files), ["crates/a/tests/it/main.rs:6"]);
    }
}
