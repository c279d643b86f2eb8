//! Rules about SQL: it lies in files of its own, and no file lies there unused.

use super::Finding;
use super::rust::finds_word;
use super::tree::{File, Tree};

/// Crates that speak SQL.
pub(super) const STORES: &[&str] =
    &["crates/semel-mysql", "crates/semel-postgres", "crates/semel-sqlite"];

/// No statement words in a store's Rust: a statement can then be read, run and compared by hand.
pub(super) fn in_rust(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let of_store = |file: &File| file.home().is_some_and(|home| STORES.contains(&home));
    for (file, rust) in tree.rust().filter(|(file, _)| of_store(file)) {
        for literal in rust.literals.iter().filter(|literal| !file.is_test_line(literal.line)) {
            if is_statement(&literal.text) {
                let says = "a statement in Rust: move it to sql/<noun>/<verb>.sql";
                findings.push(Finding::new(&file.path, literal.line, says));
            }
        }
    }
    findings
}

fn is_statement(text: &str) -> bool {
    let verbs =
        ["SELECT", "INSERT", "UPDATE", "DELETE FROM", "CREATE TABLE", "ALTER TABLE", "DROP TABLE"];
    let lower = text.to_ascii_lowercase();
    let phrases = ["insert into ", "delete from ", "create table "];
    verbs.iter().any(|verb| finds_word(text, verb))
        || phrases.iter().any(|phrase| lower.contains(phrase))
        || (lower.contains("select ") && lower.contains(" from "))
        || (lower.contains("update ") && lower.contains(" set "))
}

/// Every file of `sql/` and `migrations/` is compiled in by the crate that holds it.
pub(super) fn unused(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let Some(home) = file.home() else { continue };
        let name = &file.path[home.len() + 1..];
        let is_statement = name.starts_with("sql/") || name.starts_with("migrations/");
        if is_statement && !includes(tree, home, name) {
            findings.push(Finding::new(
                &file.path,
                1,
                "no include_str! of this crate names this file",
            ));
        }
    }
    findings
}

fn includes(tree: &Tree, home: &str, name: &str) -> bool {
    let mut of_crate = tree.rust().filter(|(file, _)| file.home() == Some(home));
    of_crate.any(|(_, rust)| {
        rust.code.contains("include_str!")
            && rust.literals.iter().any(|literal| literal.text.ends_with(name))
    })
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    const STORE: &str = "crates/semel-sqlite/src/store.rs";

    #[test]
    fn a_statement_in_a_store_is_found() {
        let text = "const A: &str = \"\n  SELECT 1\";\n// SELECT is fine here\nlet b = \"delete from x\";\n\
                    let c = \"an update of the lease\";\n#[cfg(test)]\nmod t {\n const D: &str = \"SELECT 2\";\n}\n";
        let files = [(STORE, text), ("crates/semel-http/src/lib.rs", text)];
        assert_eq!(places(in_rust, &files), [format!("{STORE}:1"), format!("{STORE}:4")]);
    }

    #[test]
    fn a_statement_that_nobody_includes_is_found() {
        let queries = "const A: &str = include_str!(\"../sql/record/claim.sql\");\n";
        let files = [
            (STORE, queries),
            ("crates/semel-sqlite/sql/record/claim.sql", "SELECT 1;\n"),
            ("crates/semel-sqlite/sql/record/renew.sql", "SELECT 1;\n"),
            ("crates/semel-sqlite/migrations/0001_a.sql", "SELECT 1;\n"),
        ];
        let found = places(unused, &files);
        assert_eq!(found, [files[3].0, files[2].0].map(|path| format!("{path}:1")));
    }
}
