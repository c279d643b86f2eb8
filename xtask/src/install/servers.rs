//! Installs the servers that tests start for themselves, into one folder that the test kit looks into.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::{NODE, NPM, Program, REDIS, jars_of, node_packages, programs, wheels_of};
use crate::shell;

/// The user that runs PostgreSQL where tests run as root, which PostgreSQL refuses to be run by.
const USER: &str = "postgres";

const POSTGRES: Program = Program {
    name: "/usr/lib/postgresql/15/bin/postgres",
    package: "postgresql-15",
    why: "tests run on PostgreSQL 15, 17 and 18, and Debian brings 15",
};
const PGBOUNCER: Program = Program {
    name: "/usr/sbin/pgbouncer",
    package: "pgbouncer",
    why: "tests reach PostgreSQL through a pooler too",
};

/// Who has the compiler has Java.
const JAVAC: Program = Program {
    name: "javac",
    package: "default-jdk-headless",
    why: "the example for Java is compiled and run, and the broker runs on it",
};
const JDBC: Program = Program {
    name: "/usr/share/java/postgresql.jar",
    package: "libpostgresql-jdbc-java",
    why: "the example for Java reaches PostgreSQL by it",
};

/// Makes sure that all servers are there, and the languages that reach them. What is there already
/// takes no time.
pub(crate) fn run() -> Result<()> {
    programs(&[&POSTGRES, &PGBOUNCER, &REDIS, &JAVAC, &JDBC, &NODE, &NPM])?;
    let home = home()?;
    wheels_of("xtask/servers.txt", &home.join("python"))?;
    node_packages("xtask/node", &home.join("node"))?;
    jars_of("xtask/java/kafka", &home.join("java/kafka"))?;
    jars_of("xtask/java/debezium", &home.join("java/debezium"))
}

/// Where the servers lie, as the test kit finds it: below the target folder, in so many words or by a link.
fn home() -> Result<PathBuf> {
    let tools = shell::target().join("tools");
    let home = tools.join("servers");
    std::fs::create_dir_all(&tools).context("cannot make the folder of the tools")?;
    if !home.exists() && !may_enter(&tools)? {
        let elsewhere = elsewhere(&home);
        println!(
            "{USER} may not enter {}: the servers go to {}",
            tools.display(),
            elsewhere.display()
        );
        std::fs::create_dir_all(&elsewhere).context("cannot make the folder of the servers")?;
        // A link that leads nowhere any more does not exist, and is in the way.
        drop(std::fs::remove_file(&home));
        std::os::unix::fs::symlink(&elsewhere, &home).context("cannot link to the servers")?;
    }
    std::fs::create_dir_all(&home).context("cannot make the folder of the servers")?;
    // By its real path, as the test kit starts what lies there: a link below a closed folder is closed.
    let home = home.canonicalize().context("cannot follow the link to the servers")?;
    ensure!(may_enter(&home)?, "user {USER} may not enter {}", home.display());
    Ok(home)
}

/// A folder that everybody may enter, one for each target folder.
fn elsewhere(home: &Path) -> PathBuf {
    let mut name = DefaultHasher::new();
    home.hash(&mut name);
    Path::new("/var/tmp").join(format!("semel-servers-{:016x}", name.finish()))
}

/// Whether the servers will be able to read what lies in `folder`.
fn may_enter(folder: &Path) -> Result<bool> {
    if shell::read(shell::command("id", &["-u"]))?.trim() != "0" {
        return Ok(true);
    }
    let user = [format!("--reuid={USER}"), format!("--regid={USER}")];
    let mut test = Command::new("setpriv");
    test.args(user).args(["--init-groups", "test", "-x"]).arg(folder).current_dir("/");
    Ok(test.status().context("cannot start setpriv")?.success())
}
