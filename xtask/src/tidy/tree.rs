//! The files that rules look at: all that git tracks or would track, read once.

use std::path::Path;

use anyhow::{Context, Result};

use super::rust::Rust;
use crate::shell;

/// One text file.
#[derive(Debug)]
pub(super) struct File {
    /// From the top folder, with `/`.
    pub(super) path: String,
    /// Empty for a file that is not text.
    pub(super) text: String,
    /// The same as Rust, for `.rs` files.
    pub(super) rust: Option<Rust>,
}

impl File {
    fn new(path: &str, text: String) -> Self {
        let rust = path.ends_with(".rs").then(|| Rust::parse(&text));
        Self { path: path.to_owned(), text, rust }
    }

    /// Whether the name ends in `.extension`.
    pub(super) fn is(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }

    /// Whether the whole file is never linked into a release.
    pub(super) fn is_for_tests(&self) -> bool {
        let folders = ["tests/", "benches/", "examples/", "fuzz/", "bench/", "xtask/"];
        let in_folder =
            |folder| self.path.starts_with(folder) || self.path.contains(&format!("/{folder}"));
        folders.into_iter().any(in_folder)
            || self.path.starts_with("crates/semel-testkit/")
            || self.path.ends_with("/tests.rs")
    }

    /// Whether line `number` is never linked into a release.
    pub(super) fn is_test_line(&self, number: usize) -> bool {
        self.is_for_tests() || self.rust.as_ref().is_some_and(|rust| rust.is_test_line(number))
    }

    /// The folder that holds this file's `Cargo.toml`, for files of a crate.
    pub(super) fn home(&self) -> Option<&str> {
        let inside = self.path.strip_prefix("crates/")?;
        let name = inside.split('/').next()?;
        Some(&self.path[.."crates/".len() + name.len()])
    }
}

/// All files of the repository.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) files: Vec<File>,
}

impl Tree {
    /// Reads what git tracks and what it would track; what it ignores is nobody's business.
    pub(super) fn read() -> Result<Self> {
        let list =
            ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"];
        let names = shell::read(shell::git(&list))?;
        let mut files = Vec::new();
        for name in names.split('\0').filter(|name| !name.is_empty()) {
            let path = shell::root().join(name);
            if path.is_file() {
                let bytes = std::fs::read(&path).with_context(|| format!("cannot read {name}"))?;
                files.push(File::new(name, String::from_utf8(bytes).unwrap_or_default()));
            }
        }
        Ok(Self { files })
    }

    /// Made-up files.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File::new(path, (*text).to_owned());
        Self { files: files.iter().map(file).collect() }
    }

    /// All Rust files with their parsed form.
    pub(super) fn rust(&self) -> impl Iterator<Item = (&File, &Rust)> {
        self.files.iter().filter_map(|file| Some((file, file.rust.as_ref()?)))
    }

    /// The file at `path`.
    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether `path` is a file or a folder with files.
    pub(super) fn contains(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        path.is_empty()
            || self.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    }
}
