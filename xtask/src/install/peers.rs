//! The published packages for idempotency keys, pinned below crates/semel-drill/peers: they are drilled, and some of
//! them are measured.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::REDIS;
use crate::shell;

/// Where the pins lie, and the programs that are drilled.
const HOME: &str = "crates/semel-drill/peers";

/// The packages, installed.
#[derive(Debug)]
pub(crate) struct Packages {
    node_modules: PathBuf,
    python: PathBuf,
}

impl Packages {
    /// Installs what is missing of them, and of what they run on.
    pub(crate) fn install() -> Result<Self> {
        super::programs(&[&REDIS])?;
        let home = shell::target().join("tools").join("peers");
        let (node, python) = (home.join("node"), home.join("python"));
        super::node_packages(HOME, &node)?;
        super::wheels_of(&format!("{HOME}/requirements.txt"), &python)?;
        Ok(Self { node_modules: node.join("node_modules"), python: python.join("bin") })
    }

    /// Lets whatever the command starts find them: `node` by its path of modules, and `python3` as the one that has
    /// them.
    pub(crate) fn lend(&self, command: &mut Command) -> Result<()> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.python.clone()).chain(std::env::split_paths(&path));
        let path = std::env::join_paths(folders).context("the search path cannot be extended")?;
        command.env("PATH", path).env("NODE_PATH", &self.node_modules);
        // The repository is no place for compiled Python.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        Ok(())
    }
}

/// The folder of the pins and the programs.
pub(crate) fn home() -> PathBuf {
    Path::new(shell::root()).join(HOME)
}
