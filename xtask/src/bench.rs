//! `cargo xtask bench`: builds the benches for release and runs them.

use anyhow::Result;

use crate::install::peers::Packages;
use crate::{install, shell};

/// The bench that runs published packages, and nothing of what the others need.
const PEERS: &str = "peers";

/// What is handed to the benches as it is.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// Name of the bench and its options; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Runs the binary `semel-bench`.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // All values of options are numbers.
    let is_name = |word: &&String| word.starts_with(char::is_alphabetic);
    let names: Vec<_> = arguments.rest.iter().filter(is_name).collect();
    let beside_peers = names.iter().any(|name| *name == PEERS);
    let others = names.is_empty() || names.iter().any(|name| *name != PEERS);

    install::for_building()?;
    if others {
        install::programs(&[&install::NGINX, &install::WRK])?;
        // The broker comes with the servers of the tests.
        install::for_tests()?;
        // It is looked for beside the benches.
        build("semel-gateway")?;
    }
    build("semel-bench")?;
    let mut bench = shell::command(shell::target().join("release").join("semel-bench"), &[]);
    if beside_peers {
        Packages::install()?.lend(&mut bench)?;
    }
    bench.args(&arguments.rest);
    shell::show(bench)
}

fn build(package: &str) -> Result<()> {
    shell::show(shell::cargo(&["build", "--release", "--bins", "--package", package]))
}
