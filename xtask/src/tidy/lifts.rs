//! The rule that only known rooms read clocks, draw chance and read the environment, and none starts a task
//! that nobody owns; and that one file alone holds unsafe code.
//!
//! `clippy.toml` bans the calls everywhere; this table says where the ban may be lifted.

use super::Finding;
use super::attributes::silenced;
use super::tree::{File, Tree};

/// Paths whose code may lift the ban, and for what.
const ROOMS: &[(&str, &str)] = &[
    ("crates/semel/src/clock.rs", "reads the clock"),
    ("crates/semel/src/entropy.rs", "draws chance"),
    ("crates/semel-drill/src/lib.rs", "breaks things on purpose, with deadlines"),
    ("crates/semel-gateway/src/config/", "reads the environment"),
];

/// The files that may hold unsafe code, and for what.
const UNSAFE_ROOMS: &[(&str, &str)] =
    &[("crates/semel-kafka/src/native.rs", "asks librdkafka what its Rust crate cannot be asked")];

/// A ban is lifted only in the rooms that own what is banned.
pub(super) fn lift(tree: &Tree) -> Vec<Finding> {
    let mut findings = unsafe_code(tree);
    let outside = |file: &File| !ROOMS.iter().any(|(room, _)| file.path.starts_with(room));
    for (file, rust) in tree.rust().filter(|(file, _)| outside(file)) {
        let for_tests = cfg_test_lifts(&rust.code);
        for (at, lints) in silenced(&rust.code) {
            let line = rust.line_at(at);
            let lifts = lints.contains("clippy::disallowed_methods");
            if lifts && !file.is_test_line(line) && !for_tests.contains(&line) {
                let says = "this room may not read clocks, chance or the environment, nor start tasks \
                            (xtask/src/tidy/lifts.rs)";
                findings.push(Finding::new(&file.path, line, says));
            }
        }
    }
    findings
}

/// Unsafe code is in no other file, in tests neither.
fn unsafe_code(tree: &Tree) -> Vec<Finding> {
    let outside = |file: &File| !UNSAFE_ROOMS.iter().any(|(room, _)| file.path == *room);
    let mut findings = Vec::new();
    for (file, rust) in tree.rust().filter(|(file, _)| outside(file)) {
        for (at, _) in
            silenced(&rust.code).into_iter().filter(|(_, lints)| lints.contains("unsafe_code"))
        {
            let says = "this file may not hold unsafe code (xtask/src/tidy/lifts.rs)";
            findings.push(Finding::new(&file.path, rust.line_at(at), says));
        }
    }
    findings
}

/// Lines inside `cfg_attr(test, …)`: what is lifted there is lifted for tests alone.
fn cfg_test_lifts(code: &str) -> Vec<usize> {
    let mut lines = Vec::new();
    for (at, _) in code.match_indices("cfg_attr(") {
        let open = at + "cfg_attr".len();
        let end = super::rust::group_end(code, open).unwrap_or(code.len());
        if code[open + 1..end].trim_start().starts_with("test,") {
            let line = |offset: usize| code[..offset].matches('\n').count() + 1;
            lines.extend(line(at)..=line(end));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    #[test]
    fn a_ban_lifted_in_a_foreign_room_is_found() {
        let text = "#[expect(clippy::disallowed_methods, reason = \"x\")]\nfn f() {}\n";
        let tests =
            "#![cfg_attr(\n    test,\n    allow(clippy::disallowed_methods, reason = \"x\")\n)]\n";
        let files = [
            ("crates/semel/src/clock.rs", text),
            ("crates/semel/src/decide.rs", text),
            ("crates/semel/src/lib.rs", tests),
            ("crates/semel/tests/it/main.rs", text),
        ];
        assert_eq!(places(lift, &files), ["crates/semel/src/decide.rs:1"]);
    }

    #[test]
    fn unsafe_code_in_any_other_file_is_found() {
        let text = "#![expect(unsafe_code, reason = \"x\")]\nfn f() {}\n";
        let files = [
            ("crates/semel-kafka/src/native.rs", text),
            ("crates/semel-kafka/src/log.rs", text),
            ("crates/semel/tests/it/main.rs", text),
        ];
        let found = ["crates/semel-kafka/src/log.rs:1", "crates/semel/tests/it/main.rs:1"];
        assert_eq!(places(lift, &files), found);
    }
}
