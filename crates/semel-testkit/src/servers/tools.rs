//! Where the servers and languages lie that `cargo xtask test` installs.

use std::path::{Path, PathBuf};

/// What to do where something is missing.
const INSTALL: &str = "run `cargo xtask test`, or `cargo xtask install` alone";

/// The servers and languages that tests start, as `cargo xtask test` installs them.
#[derive(Debug)]
pub struct Tools {
    home: PathBuf,
}

/// Says where the servers and languages lie.
#[must_use]
pub fn tools() -> Tools {
    let home = target().join("tools").join("servers");
    // Where another user must read them, the folder is a link to one that lets them in.
    Tools { home: home.canonicalize().unwrap_or(home) }
}

impl Tools {
    /// Returns a folder for what is made once and kept beside the tools.
    pub(super) fn kept(&self, name: &str) -> PathBuf {
        let kept = self.home.join(name);
        std::fs::create_dir_all(&kept)
            .unwrap_or_else(|error| panic!("{} cannot be made: {error}", kept.display()));
        kept
    }

    /// Returns a folder or file inside one of the Python packages.
    pub(super) fn inside_package(&self, path: &str, what: &str) -> PathBuf {
        let versions = std::fs::read_dir(self.home.join("python").join("lib"));
        let packages = versions.into_iter().flatten().flatten();
        let mut paths = packages.map(|version| version.path().join("site-packages").join(path));
        let found = paths.find(|path| path.exists());
        found.unwrap_or_else(|| panic!("{what} is not installed: {INSTALL}"))
    }
}

/// Returns the first of `paths` that exists, or fails with the one sentence that helps.
pub(super) fn first_of(paths: &[&'static str], what: &str) -> &'static Path {
    let found = paths.iter().copied().map(Path::new).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{what} is not installed: {INSTALL}"))
}

/// The folder that cargo builds in: the test itself lies there.
fn target() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it lies");
    let marks = ["CACHEDIR.TAG", ".rustc_info.json", "tools/servers"];
    let is_target = |folder: &&Path| marks.iter().any(|mark| folder.join(mark).exists());
    let target = test.ancestors().skip(1).find(is_target);
    target.unwrap_or_else(|| panic!("{} lies in no target folder", test.display())).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_with_the_command_that_installs_it() {
        let missing = std::panic::catch_unwind(|| first_of(&["/nowhere/at/all"], "The server"));
        let says = missing.unwrap_err().downcast::<String>().unwrap();
        assert!(says.starts_with("The server is not installed: run `cargo xtask test`"), "{says}");
        let missing = std::panic::catch_unwind(|| tools().inside_package("nowhere", "The package"));
        assert!(missing.is_err());
    }
}
