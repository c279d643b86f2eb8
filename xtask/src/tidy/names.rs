//! The rule that names say something: nouns of the domain and plain verbs.

use super::Finding;
use super::tree::Tree;

/// Files that would hold anything.
const EMPTY_FILES: &[&str] =
    &["common.rs", "helper.rs", "helpers.rs", "misc.rs", "util.rs", "utils.rs"];

/// Verbs that say nothing before the one that does.
const EMPTY_VERBS: &[&str] = &["fn do_", "fn get_", "fn handle_", "fn process_"];

/// Nouns that say nothing behind the one that does.
const EMPTY_NOUNS: &[&str] = &["Helper", "Manager", "Util", "Utils"];

/// No file, function or type has a name that would fit any other.
pub(super) fn names(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.rust() {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        if EMPTY_FILES.contains(&name) {
            let says = "a file that could hold anything: name it by the noun it is about";
            findings.push(Finding::new(&file.path, 1, says));
        }
        for (number, line) in rust.lines() {
            if let Some(word) = empty_name(line) {
                let says = format!("`{word}` says nothing: use the plain verb or noun");
                findings.push(Finding::new(&file.path, number, says));
            }
        }
    }
    findings
}

/// The name that `line` declares, if it says nothing.
fn empty_name(line: &str) -> Option<&str> {
    let verb = EMPTY_VERBS.iter().find_map(|verb| line.find(verb));
    let start = verb.map(|at| at + "fn ".len());
    let type_start =
        ["struct ", "enum ", "trait "].iter().find_map(|word| Some(line.find(word)? + word.len()));
    let name = |start: usize| {
        let rest = &line[start..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    };
    let of_type =
        type_start.map(name).filter(|name| EMPTY_NOUNS.iter().any(|noun| name.ends_with(noun)));
    start.map(name).or(of_type)
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    #[test]
    fn an_empty_name_is_found() {
        let text = "fn get_it() {}\nfn widget_it() { x.get_it() }\npub struct LeaseManager;\nstruct Lease;\n";
        let found = places(names, &[("a.rs", text), ("b/utils.rs", "")]);
        assert_eq!(found, ["a.rs:1", "a.rs:3", "b/utils.rs:1"]);
    }
}
