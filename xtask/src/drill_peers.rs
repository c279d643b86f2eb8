//! `cargo xtask drill-peers`: drills published packages for idempotency keys, each in a small program below
//! crates/semel-drill/peers, and writes what came of it as the table of docs/internals/peers.md.
//!
//! It is no step of CI: the packages come from npm and PyPI, and their verdicts change with them alone.

mod page;
mod peer;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::builder::PossibleValuesParser;

use self::page::Column;
use self::peer::{PEERS, Peer};
use crate::install::peers::Packages;
use crate::shell;

/// The page with the table.
const PAGE: &str = "docs/internals/peers.md";

/// Which packages to drill.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Drill only these, and print the table instead of writing the page
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(PEERS.iter().map(|peer| peer.name)))]
    names: Vec<String>,
    /// Keep what the drill says of each package, as JSON, in this folder
    #[arg(long, value_name = "FOLDER")]
    reports: Option<PathBuf>,
}

/// Installs the packages, drills them, and writes or prints the table.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let tools = Tools::install()?;
    let asked = |peer: &&Peer| {
        arguments.names.is_empty() || arguments.names.iter().any(|name| name == peer.name)
    };
    let mut columns = Vec::new();
    for peer in PEERS.iter().filter(asked) {
        println!("\n==> {} {}", peer.package, peer.version()?);
        let report = peer.drill(&tools)?;
        if let Some(folder) = &arguments.reports {
            std::fs::create_dir_all(folder).context("cannot make the folder of the reports")?;
            std::fs::write(folder.join(format!("{}.json", peer.name)), &report)?;
        }
        columns.push(Column::read(peer.name, peer.version()?, &report)?);
    }
    let table = page::table(&columns);
    if !arguments.names.is_empty() {
        println!("\n{table}");
        return Ok(());
    }
    write(&table)
}

/// Puts the table between its marks, and asks for a sentence on every broken rule.
fn write(table: &str) -> Result<()> {
    let path = shell::root().join(PAGE);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {PAGE}"))?;
    let text = page::with_table(&text, table).with_context(|| format!("{PAGE} has no marks"))?;
    std::fs::write(&path, &text).with_context(|| format!("cannot write {PAGE}"))?;
    let missing = page::unexplained(&text);
    ensure!(missing.is_empty(), "{PAGE} has no sentence on {missing:?}");
    println!("\n{PAGE} is up to date");
    Ok(())
}

/// What the drill of a peer needs, installed.
#[derive(Debug)]
struct Tools {
    drill: PathBuf,
    packages: Packages,
}

impl Tools {
    fn install() -> Result<Self> {
        let packages = Packages::install()?;
        let binary = ["build", "--locked", "-p", "semel-drill", "--bin", "semel-drill"];
        shell::show(shell::cargo(&binary))?;
        Ok(Self { drill: shell::target().join("debug").join("semel-drill"), packages })
    }
}
