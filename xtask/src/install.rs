//! Installs what tasks need and the machine lacks. What is needed, and why, is data: the rows below and tools.txt.

pub(crate) mod peers;
pub(crate) mod servers;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::shell;

/// A program that comes as a Debian package.
#[derive(Debug)]
pub(crate) struct Program {
    /// What is looked for on the search path.
    pub(crate) name: &'static str,
    package: &'static str,
    why: &'static str,
}

/// Sends the requests of the documentation's code blocks.
pub(crate) const CURL: Program = Program {
    name: "curl",
    package: "curl",
    why: "the documentation's code blocks send requests with it",
};
/// Compiles the fuzzer.
pub(crate) const CXX: Program = Program {
    name: "c++",
    package: "g++",
    why: "the fuzzer that is linked to the fuzz targets is C++, and Kafka's client looks for it",
};
/// Builds the client of Kafka that is written in C.
const MAKE: Program =
    Program { name: "make", package: "make", why: "Kafka's client is built by its own makefile" };
/// Carries the jars of [`jars_of`].
const MAVEN: Program = Program {
    name: "mvn",
    package: "maven",
    why: "the broker and Debezium that tests run come as jars",
};
/// Copies a project's dependencies into a folder.
const MAVEN_COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";
/// The plain proxy that the gateway is measured against.
pub(crate) const NGINX: Program = Program {
    name: "nginx",
    package: "nginx-light",
    why: "the gateway is measured against it as a plain proxy",
};
/// Runs the packages of [`node_package`].
pub(crate) const NODE: Program = Program {
    name: "node",
    package: "nodejs",
    why: "the gateway is tried before a server that is written for it",
};
/// Installs the packages of [`node_package`].
pub(crate) const NPM: Program =
    Program { name: "npm", package: "npm", why: "it installs what runs on Node" };
/// Carries the wheels of [`tool`].
pub(crate) const PYTHON: Program = Program {
    name: "python3",
    package: "python3",
    why: "the checkers of spelling and licences come as Python wheels",
};
/// Keeps the keys of the published packages that are drilled, and is one of the servers of tests.
pub(crate) const REDIS: Program = Program {
    name: "redis-server",
    package: "redis-server",
    why: "tests run on Redis 7, 8 and Valkey 9, and Debian brings 7; `drill-peers` uses it too",
};
/// Makes load for the benches.
pub(crate) const WRK: Program = Program {
    name: "wrk",
    package: "wrk",
    why: "it makes the load that the benches measure under",
};

/// Makes sure that everything is there that the workspace is built by.
pub(crate) fn for_building() -> Result<()> {
    programs(&[&CXX, &MAKE])
}

/// Makes sure that everything is there that a test starts.
pub(crate) fn for_tests() -> Result<()> {
    for_building()?;
    programs(&[&CURL])?;
    servers::run()
}

/// Makes sure that every program is there; installs Debian packages when it may.
pub(crate) fn programs(needed: &[&Program]) -> Result<()> {
    let missing: Vec<_> = needed.iter().filter(|program| !shell::on_path(program.name)).collect();
    for program in &missing {
        println!("installing {}: {}", program.package, program.why);
    }
    let packages: Vec<_> = missing.iter().map(|program| program.package).collect();
    apt(&packages)
}

/// Where the tool `name` of tools.txt lies; installs all of them on first use.
pub(crate) fn tool(name: &str) -> Result<PathBuf> {
    let home = shell::target().join("tools").join("python");
    wheels_of("xtask/tools.txt", &home)?;
    Ok(home.join("bin").join(name))
}

/// Makes sure that the wheels of one list, a file of the repository, lie in the environment `home`.
pub(crate) fn wheels_of(list: &str, home: &Path) -> Result<()> {
    let wanted = shell::root().join(list);
    let wanted_text = std::fs::read_to_string(&wanted)
        .with_context(|| format!("cannot read {}", wanted.display()))?;
    let stamp = home.join("installed.txt");
    if std::fs::read_to_string(&stamp).ok().as_ref() != Some(&wanted_text) {
        println!("installing what {list} names into {}", home.display());
        wheels(home, &wanted)?;
        std::fs::write(&stamp, wanted_text).context("cannot note what was installed")?;
    }
    Ok(())
}

/// Where the npm package `name` lies; installs it on first use, without running anything of it.
pub(crate) fn node_package(name: &str, version: &str, quiet: bool) -> Result<PathBuf> {
    programs(&[&NODE, &NPM])?;
    let home = shell::target().join("tools").join("node").join(format!("{name}-{version}"));
    let stamp = home.join("installed.txt");
    if !stamp.exists() {
        let home_text = home.to_str().context("the target folder's name is not UTF-8")?;
        let wanted = format!("{name}@{version}");
        let options = ["--no-audit", "--no-fund", "--ignore-scripts", "--save-exact"];
        let install = ["install", "--prefix", home_text, &wanted];
        std::fs::create_dir_all(&home).context("cannot make the folder of the package")?;
        let install = shell::command("npm", &[&install[..], &options].concat());
        match quiet {
            true => drop(shell::read(install)?),
            false => shell::show(install)?,
        }
        std::fs::write(stamp, wanted).context("cannot note what was installed")?;
    }
    Ok(home.join("node_modules").join(name))
}

/// Installs what the package-lock.json in `folder` of the repository pins, without running anything of it.
pub(crate) fn node_packages(folder: &str, home: &Path) -> Result<()> {
    programs(&[&NODE, &NPM])?;
    let wanted = shell::root().join(folder);
    let lock = std::fs::read_to_string(wanted.join("package-lock.json"))
        .with_context(|| format!("cannot read {folder}/package-lock.json"))?;
    let stamp = home.join("installed.txt");
    if std::fs::read_to_string(&stamp).ok().as_ref() == Some(&lock) {
        return Ok(());
    }
    println!("installing what {folder}/package-lock.json names into {}", home.display());
    std::fs::create_dir_all(home).context("cannot make the folder of the packages")?;
    for file in ["package.json", "package-lock.json"] {
        std::fs::copy(wanted.join(file), home.join(file)).context("cannot copy what is wanted")?;
    }
    let options = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    let mut install = shell::command("npm", &options);
    install.current_dir(home);
    shell::show(install)?;
    std::fs::write(stamp, lock).context("cannot note what was installed")
}

/// Makes sure that the jars which the pom.xml in `folder` of the repository pins, and all they need, lie
/// in `home`.
pub(crate) fn jars_of(folder: &str, home: &Path) -> Result<()> {
    let wanted = shell::root().join(folder).join("pom.xml");
    let wanted_text = std::fs::read_to_string(&wanted)
        .with_context(|| format!("cannot read {}", wanted.display()))?;
    let stamp = home.join("installed.txt");
    if std::fs::read_to_string(&stamp).ok().as_ref() == Some(&wanted_text) {
        return Ok(());
    }
    programs(&[&MAVEN])?;
    println!("installing what {folder}/pom.xml names into {}", home.display());
    // What an older list named must not stay on the class path.
    drop(std::fs::remove_dir_all(home));
    std::fs::create_dir_all(home).context("cannot make the folder of the jars")?;
    let mut maven = shell::command("mvn", &["-q", "-B", "--strict-checksums", "-f"]);
    maven.arg(&wanted).arg(MAVEN_COPY).arg(format!("-DoutputDirectory={}", home.display()));
    shell::show(maven)?;
    std::fs::write(stamp, wanted_text).context("cannot note what was installed")
}

/// Makes sure that this toolchain has the cargo command `name`.
pub(crate) fn component(name: &str) -> Result<()> {
    if shell::read(shell::cargo(&[name, "--version"])).is_ok() {
        return Ok(());
    }
    let component = if name == "fmt" { "rustfmt" } else { name };
    println!("installing {component}: this toolchain came without it");
    shell::show(shell::command("rustup", &["component", "add", component]))
}

fn wheels(home: &Path, wanted: &Path) -> Result<()> {
    programs(&[&PYTHON])?;
    let home_text = home.to_str().context("the target folder's name is not UTF-8")?;
    let wanted_text = wanted.to_str().context("the repository's path is not UTF-8")?;
    let venv = || shell::show(shell::command("python3", &["-m", "venv", "--clear", home_text]));
    if venv().is_err() {
        println!("installing python3-venv: Debian's Python comes without it");
        apt(&["python3-venv"])?;
        venv()?;
    }
    let options = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    let pinned = ["--no-deps", "--only-binary=:all:", "--require-hashes", "-r", wanted_text];
    shell::show(shell::command(home.join("bin/python"), &[&options[..], &pinned[..]].concat()))
}

fn apt(packages: &[&str]) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    let by_hand = format!("apt-get install {}", packages.join(" "));
    if !shell::on_path("apt-get") || shell::read(shell::command("id", &["-u"]))?.trim() != "0" {
        bail!("missing on this machine; as root: {by_hand}");
    }
    shell::show(shell::command("apt-get", &["update", "-qq"]))?;
    let options = ["install", "-y", "-qq", "--no-install-recommends"];
    let mut install = shell::command("apt-get", &[&options[..], packages].concat());
    install.env("DEBIAN_FRONTEND", "noninteractive");
    // In this run level Debian's packages start no service: a proxy for the benches must not take port 80.
    install.env("RUNLEVEL", "1");
    shell::show(install)
}
