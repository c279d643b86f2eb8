//! Rules about goldens: the codec has some, all are read, and none of a release is ever edited.

use anyhow::Result;

use super::Finding;
use super::rust::finds_word;
use super::tree::Tree;
use crate::shell;

/// Code that writes bytes for later versions to read, and where its goldens lie.
const CODECS: &[(&str, &str)] = &[
    ("crates/semel/src/codec.rs", "crates/semel/src/testdata/"),
    ("crates/semel/src/fingerprint/mod.rs", "crates/semel/src/fingerprint/testdata/"),
];

/// Goldens exist, are named by a test, and those of the last release are unchanged.
pub(super) fn golden(tree: &Tree) -> Vec<Finding> {
    let mut findings = missing(tree);
    findings.extend(unread(tree));
    if cfg!(not(test)) {
        findings.extend(
            edited().unwrap_or_else(|error| vec![Finding::new(".git", 1, format!("{error:#}"))]),
        );
    }
    findings
}

fn missing(tree: &Tree) -> Vec<Finding> {
    let written = CODECS.iter().filter(|(codec, _)| tree.contains(codec));
    let bare = written.filter(|(_, folder)| !tree.contains(folder));
    bare.map(|(codec, folder)| {
        Finding::new(codec, 1, format!("stored bytes need goldens in {folder}"))
    })
    .collect()
}

/// A golden is named in its crate: the file, its stem for a test that adds the ending, or its folder for one that walks.
fn unread(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let Some((above, inside)) = file.path.split_once("/testdata/") else {
            continue;
        };
        let home = file.home().unwrap_or(above);
        let name = inside.rsplit('/').next().unwrap_or(inside);
        let stem = name.split('.').next().unwrap_or(name);
        let folder = inside.rsplit_once('/').map_or("testdata", |(folder, _)| folder);
        let names = |text: &str| {
            let walks = text.trim_end_matches('/').ends_with(folder);
            walks || finds_word(text, name) || finds_word(text, stem)
        };
        let mut readers = tree.rust().filter(|(reader, _)| reader.path.starts_with(home));
        if !readers.any(|(_, rust)| rust.literals.iter().any(|literal| names(&literal.text))) {
            findings.push(Finding::new(&file.path, 1, "no test names this golden"));
        }
    }
    findings
}

/// Goldens that changed since the last tag.
fn edited() -> Result<Vec<Finding>> {
    let tags = shell::read(shell::git(&[
        "tag",
        "--list",
        "v*",
        "--merged",
        "HEAD",
        "--sort=-version:refname",
    ]))?;
    let Some(tag) = tags.lines().next() else {
        return Ok(Vec::new());
    };
    let diff = [
        "diff",
        "--name-only",
        "--diff-filter=MDR",
        "--no-renames",
        tag,
        "--",
        ":(glob)**/testdata/**",
    ];
    let changed = shell::read(shell::git(&diff))?;
    let says =
        format!("a golden of {tag} was edited: stored bytes are read for ever, add a new one");
    Ok(changed.lines().map(|path| Finding::new(path, 1, says.as_str())).collect())
}

#[cfg(test)]
mod tests {
    use super::super::places;
    use super::*;

    const CODEC: &str = "crates/semel/src/codec.rs";

    #[test]
    fn a_codec_without_goldens_is_found() {
        assert_eq!(places(golden, &[(CODEC, "")]), [format!("{CODEC}:1")]);
    }

    #[test]
    fn a_golden_that_no_test_names_is_found() {
        let (read, unread) = ("crates/semel/src/testdata/a.hex", "crates/semel/src/testdata/b.hex");
        let files = [
            (CODEC, "const A: &str = include_str!(\"testdata/a.hex\");\n"),
            (read, ""),
            (unread, ""),
        ];
        assert_eq!(places(golden, &files), [format!("{unread}:1")]);
    }
}
