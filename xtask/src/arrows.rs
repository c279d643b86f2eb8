//! `cargo xtask arrows`: the crates depend on each other only as the design allows, and the engine stays bare.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

use crate::shell;

/// What a crate of the workspace may name of the others.
#[derive(Debug)]
enum May {
    /// Anything: it is never linked by users.
    Anything,
    /// These.
    Only(&'static [&'static str]),
}

/// Every crate of the workspace has a line here; all arrows end in `semel`.
const EDGES: &[(&str, May)] = &[
    ("semel", May::Only(&[])),
    ("semel-bench", May::Anything),
    // It drills the whole stack: it carries a gateway, and judges by the history checker of the tests.
    ("semel-drill", May::Only(&["semel", "semel-gateway", "semel-http", "semel-testkit"])),
    ("semel-examples", May::Anything),
    ("semel-fuzz", May::Anything),
    (
        "semel-gateway",
        May::Only(&[
            "semel",
            "semel-http",
            "semel-kafka",
            "semel-postgres",
            "semel-redis",
            "semel-sqlite",
        ]),
    ),
    ("semel-http", May::Only(&["semel"])),
    ("semel-kafka", May::Only(&["semel"])),
    ("semel-postgres", May::Only(&["semel"])),
    ("semel-redis", May::Only(&["semel"])),
    ("semel-sqlite", May::Only(&["semel"])),
    ("semel-testkit", May::Only(&["semel"])),
    ("xtask", May::Only(&[])),
];

/// Tools and tests: what serves requests may name them only in `dev-dependencies`.
const ONLY_FOR_TESTS: &[&str] =
    &["semel-bench", "semel-drill", "semel-examples", "semel-fuzz", "semel-testkit", "xtask"];

/// Crates that the base build of `semel` must not pull in, by what they are.
const NOT_IN_THE_ENGINE: &[(&str, &[&str])] = &[
    (
        "a database driver",
        &[
            "libsqlite3-sys",
            "mysql_async",
            "postgres-protocol",
            "redis",
            "rusqlite",
            "sqlx-core",
            "tokio-postgres",
        ],
    ),
    ("a broker's client", &["async-nats", "aws-sdk-sqs", "lapin", "rdkafka", "rskafka"]),
    (
        "an HTTP type",
        &[
            "axum",
            "axum-core",
            "h2",
            "http",
            "http-body",
            "hyper",
            "reqwest",
            "tower",
            "tower-http",
        ],
    ),
    ("a derived format", &["serde", "serde_core", "serde_json"]),
    ("a runtime's network", &["mio", "rustls", "socket2"]),
];

/// Prints each broken arrow and fails if there is one.
pub(crate) fn run() -> Result<()> {
    let metadata = metadata()?;
    let mut findings = edges(&plain(&metadata));
    findings.extend(engine(&base_build("semel")?));
    for finding in &findings {
        println!("{finding}");
    }
    ensure!(findings.is_empty(), "{} arrows point where they may not", findings.len());
    println!(
        "{} crates depend on each other as the design allows",
        metadata.workspace_members.len()
    );
    Ok(())
}

/// A dependency between two crates of the workspace.
#[derive(Debug)]
struct Edge {
    from: String,
    to: String,
    kind: DependencyKind,
}

/// The workspace without everything that does not matter here.
#[derive(Debug)]
struct Plain {
    crates: BTreeSet<String>,
    edges: Vec<Edge>,
}

fn metadata() -> Result<Metadata> {
    let mut command = MetadataCommand::new();
    command.manifest_path(shell::root().join("Cargo.toml"));
    command.other_options(["--locked".to_owned()]);
    command.exec().context("cargo metadata failed")
}

fn plain(metadata: &Metadata) -> Plain {
    let packages = metadata.workspace_packages();
    let crates: BTreeSet<_> = packages.iter().map(|package| package.name.to_string()).collect();
    let mut edges = Vec::new();
    for package in &packages {
        for dependency in &package.dependencies {
            if crates.contains(&dependency.name) {
                let (from, to) = (package.name.to_string(), dependency.name.clone());
                edges.push(Edge { from, to, kind: dependency.kind });
            }
        }
    }
    Plain { crates, edges }
}

fn edges(workspace: &Plain) -> Vec<String> {
    let mut findings = Vec::new();
    for name in &workspace.crates {
        if may(name).is_none() {
            findings.push(format!(
                "{name} has no line in xtask/src/arrows.rs: say what it may depend on"
            ));
        }
    }
    for Edge { from, to, kind } in &workspace.edges {
        let for_tests = *kind == DependencyKind::Development;
        let only_for_tests = |name: &String| ONLY_FOR_TESTS.contains(&name.as_str());
        if only_for_tests(to) && !only_for_tests(from) && !for_tests {
            findings.push(format!(
                "{from} links {to}, which is for tests: move it to dev-dependencies"
            ));
        } else if !for_tests
            && matches!(may(from), Some(May::Only(allowed)) if !allowed.contains(&to.as_str()))
        {
            findings.push(format!("{from} depends on {to}: the arrow points the wrong way"));
        }
    }
    findings
}

fn may(name: &str) -> Option<&'static May> {
    EDGES.iter().find(|(from, _)| *from == name).map(|(_, may)| may)
}

/// Names of all crates in the normal build of `package` alone, with its default features.
fn base_build(package: &str) -> Result<Vec<String>> {
    let tree = [
        "tree",
        "--locked",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p}",
        "--package",
        package,
    ];
    let text = shell::read(shell::cargo(&tree))?;
    let names = text.lines().filter_map(|line| line.split(' ').next());
    Ok(names.map(str::to_owned).collect())
}

fn engine(build: &[String]) -> Vec<String> {
    let mut findings = Vec::new();
    for (what, names) in NOT_IN_THE_ENGINE {
        for name in names.iter().filter(|name| build.iter().any(|linked| linked == *name)) {
            findings.push(format!(
                "the base build of semel links {name}, {what}: the engine stays bare"
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(from: &str, to: &str, kind: DependencyKind) -> Plain {
        let edge = Edge { from: from.to_owned(), to: to.to_owned(), kind };
        Plain { crates: [from.to_owned(), to.to_owned()].into(), edges: vec![edge] }
    }

    #[test]
    fn the_workspace_holds_its_arrows() {
        assert_eq!(edges(&plain(&metadata().unwrap())), Vec::<String>::new());
        assert_eq!(engine(&base_build("semel").unwrap()), Vec::<String>::new());
    }

    #[test]
    fn an_arrow_out_of_the_engine_is_found() {
        assert_eq!(edges(&sample("semel", "semel-sqlite", DependencyKind::Normal)).len(), 1);
        assert_eq!(edges(&sample("semel-sqlite", "semel", DependencyKind::Normal)).len(), 0);
    }

    #[test]
    fn the_testkit_is_for_tests_only() {
        assert_eq!(
            edges(&sample("semel-gateway", "semel-testkit", DependencyKind::Normal)).len(),
            1
        );
        assert_eq!(
            edges(&sample("semel-gateway", "semel-testkit", DependencyKind::Development)).len(),
            0
        );
        assert_eq!(edges(&sample("semel-bench", "semel-testkit", DependencyKind::Normal)).len(), 0);
    }

    #[test]
    fn a_new_crate_must_say_what_it_may_depend_on() {
        assert_eq!(edges(&sample("semel-new", "semel", DependencyKind::Normal)).len(), 1);
    }

    #[test]
    fn a_driver_in_the_engine_is_found() {
        let build = ["semel", "bytes", "rusqlite", "serde"].map(str::to_owned);
        assert_eq!(engine(&build).len(), 2);
    }
}
