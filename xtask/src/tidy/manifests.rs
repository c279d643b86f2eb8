//! Rules about manifests: every crate has the workspace's lints, and versions stand once, at the top.

use toml::{Table, Value};

use super::Finding;
use super::tree::{File, Tree};

/// Every crate inherits the lints, and every dependency its version.
pub(super) fn manifests(tree: &Tree) -> Vec<Finding> {
    let of_crate = |file: &&File| file.path.ends_with("/Cargo.toml");
    tree.files.iter().filter(of_crate).flat_map(manifest).collect()
}

fn manifest(file: &File) -> Vec<Finding> {
    let table = match file.text.parse::<Table>() {
        Ok(table) => table,
        Err(error) => {
            return vec![Finding::new(&file.path, 1, format!("not TOML: {}", error.message()))];
        }
    };
    let mut findings = Vec::new();
    if !inherits(table.get("lints")) {
        findings.push(Finding::new(
            &file.path,
            1,
            "the crate must inherit the lints: `[lints] workspace = true`",
        ));
    }
    for name in dependencies(&table).filter(|(_, how)| !inherits(Some(how))).map(|(name, _)| name) {
        let line = file.text.lines().position(|line| line.trim_start().starts_with(name.as_str()));
        let says = format!("the version of {name} stands at the top: `{name}.workspace = true`");
        findings.push(Finding::new(&file.path, line.map_or(1, |index| index + 1), says));
    }
    findings
}

fn inherits(value: Option<&Value>) -> bool {
    value.and_then(|value| value.get("workspace")).and_then(Value::as_bool) == Some(true)
}

fn dependencies(table: &Table) -> impl Iterator<Item = (&String, &Value)> {
    let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
    kinds.into_iter().filter_map(|kind| table.get(kind)?.as_table()).flatten()
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    #[test]
    fn a_version_and_missing_lints_in_a_crate_are_found() {
        let good = "[lints]\nworkspace = true\n[dependencies]\na.workspace = true\n\
                    b = { workspace = true, features = [\"c\"] }\n";
        let bad = "[dependencies]\na = \"1\"\n[dev-dependencies]\nb = { path = \"../b\" }\n";
        let files =
            [("Cargo.toml", ""), ("crates/a/Cargo.toml", good), ("crates/b/Cargo.toml", bad)];
        let found = places(manifests, &files);
        assert_eq!(found, [1, 2, 4].map(|line| format!("crates/b/Cargo.toml:{line}")));
    }
}
