//! The rule that sibling crates have the same rooms: whoever knows one store finds their way in the next.

use super::Finding;
use super::sql::STORES;
use super::tree::Tree;

/// The rooms of a store that speaks SQL, as files or folders of `src/`.
const ROOMS: &[&str] =
    &["error", "inspect", "lib", "migrate", "queries", "store", "sweep", "transact"];

/// Every store has every room.
pub(super) fn rooms(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for store in STORES.iter().filter(|store| tree.contains(store)) {
        let is_there = |room: &str| {
            tree.contains(&format!("{store}/src/{room}.rs"))
                || tree.contains(&format!("{store}/src/{room}/mod.rs"))
        };
        for room in ROOMS.iter().filter(|room| !is_there(room)) {
            let says = format!("this store has no src/{room}.rs, which its siblings have");
            findings.push(Finding::new(&format!("{store}/Cargo.toml"), 1, says));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    #[test]
    fn a_store_without_a_room_of_its_siblings_is_found() {
        let path = |room: &&str| format!("crates/semel-sqlite/src/{room}.rs");
        let paths: Vec<_> = ROOMS.iter().map(path).collect();
        let mut files: Vec<_> = paths.iter().map(|path| (path.as_str(), "")).collect();
        assert_eq!(places(rooms, &files), Vec::<String>::new());
        files.pop();
        assert_eq!(places(rooms, &files), ["crates/semel-sqlite/Cargo.toml:1"]);
    }
}
