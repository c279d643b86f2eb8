//! Where the servers and languages lie that `cargo xtask test` installs.

use std::path::{Path, PathBuf};

/// What to do where something is missing.
pub(super) const INSTALL: &str = "run `cargo xtask test`, or `cargo xtask install` alone";

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
    /// Returns the Python that has the driver `psycopg`.
    ///
    /// # Panics
    ///
    /// Panics if it is not installed, and says how it is.
    #[must_use]
    pub fn python(&self) -> PathBuf {
        // Through the driver: a Python of its own may be there without it.
        self.inside_package("psycopg", "Python's driver psycopg");
        self.home.join("python").join("bin").join("python")
    }

    /// Returns the program `node`.
    ///
    /// # Panics
    ///
    /// Panics if it is not installed, and says how it is.
    #[must_use]
    pub fn node(&self) -> PathBuf {
        on_path("node", "Node")
    }

    /// Returns the folder `node_modules` that has the driver `pg`: a value for `NODE_PATH`.
    ///
    /// # Panics
    ///
    /// Panics if it is not installed, and says how it is.
    #[must_use]
    pub fn node_modules(&self) -> PathBuf {
        let modules = self.home.join("node").join("node_modules");
        assert!(modules.join("pg").exists(), "Node's driver pg is not installed: {INSTALL}");
        modules
    }

    /// Returns the program `java`.
    ///
    /// # Panics
    ///
    /// Panics if it is not installed, and says how it is.
    #[must_use]
    pub fn java(&self) -> PathBuf {
        on_path("java", "Java")
    }

    /// Returns the program `javac`.
    ///
    /// # Panics
    ///
    /// Panics if it is not installed, and says how it is.
    #[must_use]
    pub fn javac(&self) -> PathBuf {
        on_path("javac", "Java's compiler")
    }

    /// Returns the JDBC driver for PostgreSQL: a value for Java's class path.
    ///
    /// # Panics
    ///
    /// Panics if it is not installed, and says how it is.
    #[must_use]
    pub fn jdbc_jar(&self) -> PathBuf {
        first_of(&["/usr/share/java/postgresql.jar"], "The JDBC driver").to_owned()
    }

    /// Returns the class path of one of Java's servers, such as `kafka`.
    ///
    /// # Panics
    ///
    /// Panics if it is not installed, and says how it is.
    #[must_use]
    pub fn jars(&self, name: &str) -> String {
        let folder = self.home.join("java").join(name);
        assert!(folder.join("installed.txt").exists(), "{name} is not installed: {INSTALL}");
        format!("{}/*", folder.display())
    }

    /// Returns a folder for what is made once and kept beside the tools.
    pub(super) fn kept(&self, name: &str) -> PathBuf {
        let kept = self.home.join(name);
        std::fs::create_dir_all(&kept)
            .unwrap_or_else(|error| panic!("{} cannot be made: {error}", kept.display()));
        kept
    }

    /// Returns a folder or file inside one of the Python packages.
    pub(super) fn inside_package(&self, path: &str, what: &str) -> PathBuf {
        let found = self.find_in_package(path);
        found.unwrap_or_else(|| panic!("{what} is not installed: {INSTALL}"))
    }

    /// Returns the same, if it is there.
    pub(super) fn find_in_package(&self, path: &str) -> Option<PathBuf> {
        let versions = std::fs::read_dir(self.home.join("python").join("lib"));
        let packages = versions.into_iter().flatten().flatten();
        let mut paths = packages.map(|version| version.path().join("site-packages").join(path));
        paths.find(|path| path.exists())
    }
}

/// Returns a program that the search path knows, or fails with the one sentence that helps.
fn on_path(name: &str, what: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut programs = std::env::split_paths(&path).map(|folder| folder.join(name));
    let found = programs.find(|program| program.is_file());
    found.unwrap_or_else(|| panic!("{what} is not installed: {INSTALL}"))
}

/// Returns the first of `paths` that exists, or fails with the one sentence that helps.
pub(super) fn first_of(paths: &[&'static str], what: &str) -> &'static Path {
    let found = paths.iter().copied().map(Path::new).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{what} is not installed: {INSTALL}"))
}

/// The folder that cargo builds in: the test itself lies there, unless rustdoc made it.
fn target() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it lies");
    let marks = ["CACHEDIR.TAG", ".rustc_info.json", "tools/servers"];
    let is_target = |folder: &&Path| marks.iter().any(|mark| folder.join(mark).exists());
    let around = test.ancestors().skip(1).find(is_target).map(Path::to_owned);
    around.unwrap_or_else(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        match std::env::var_os("HOME") {
            // A program that was installed, and the sources are gone.
            Some(home) if !root.is_dir() => Path::new(&home).join(".cache").join("semel-testkit"),
            _ => root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into())),
        }
    })
}

#[cfg(test)]
mod tests {
    use tokio::process::Command;

    use super::*;
    use crate::servers::{Major, Postgres};

    #[test]
    fn what_is_missing_is_said_with_the_command_that_installs_it() {
        let missing = std::panic::catch_unwind(|| first_of(&["/nowhere/at/all"], "The server"));
        let says = missing.unwrap_err().downcast::<String>().unwrap();
        assert!(says.starts_with("The server is not installed: run `cargo xtask test`"), "{says}");
        let missing = std::panic::catch_unwind(|| tools().inside_package("nowhere", "The package"));
        assert!(missing.is_err());
        assert!(std::panic::catch_unwind(|| on_path("no-such-program", "It")).is_err());
    }

    /// Runs a program to its end and returns what it printed.
    async fn printed(program: PathBuf, arguments: &[&str]) -> String {
        let mut command = Command::new(program);
        command.args(arguments).env("NODE_PATH", tools().node_modules()).kill_on_drop(true);
        let output = command.output().await.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    #[tokio::test]
    async fn python_reaches_a_server_by_its_driver() {
        let url = Postgres::shared(Major::V18).await.url();
        let ask = "import psycopg, sys; print(psycopg.connect(sys.argv[1]).execute('SELECT 41 + 1').fetchone()[0])";
        assert_eq!(printed(tools().python(), &["-c", ask, &url]).await, "42");
    }

    #[tokio::test]
    async fn node_reaches_a_server_by_its_driver() {
        let url = Postgres::shared(Major::V17).await.url();
        let ask = "const { Client } = require('pg'); const c = new Client(process.argv[1]); \
                   c.connect().then(() => c.query('SELECT 41 + 1 AS n')) \
                   .then(r => { console.log(r.rows[0].n); return c.end(); });";
        assert_eq!(printed(tools().node(), &["-e", ask, &url]).await, "42");
    }

    #[tokio::test]
    async fn java_compiles_and_reaches_a_server_by_its_driver() {
        const SOURCE: &str = "class Ask { public static void main(String[] a) throws Exception {
            try (var c = java.sql.DriverManager.getConnection(a[0]);
                 var rows = c.createStatement().executeQuery(\"SELECT 41 + 1\")) {
                rows.next(); System.out.println(rows.getInt(1)); } } }";
        let (server, folder) = (Postgres::shared(Major::V15).await, tools().kept("java"));
        let source = folder.join(format!("Ask{}.java", std::process::id()));
        std::fs::write(&source, SOURCE).unwrap();
        let url = format!("jdbc:postgresql://{}/postgres?user=postgres", server.address());
        let (jar, file) = (tools().jdbc_jar(), source.to_str().unwrap());
        // Java compiles a single file by itself, if it has the compiler.
        let said = printed(tools().java(), &["-cp", jar.to_str().unwrap(), file, &url]).await;
        std::fs::remove_file(&source).unwrap();
        assert_eq!(said, "42");
        assert!(printed(tools().javac(), &["--version"]).await.starts_with("javac "));
    }
}
