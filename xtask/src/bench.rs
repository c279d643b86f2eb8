//! `cargo xtask bench`: builds the benches for release and runs them.

use anyhow::Result;

use crate::{install, shell};

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
    install::programs(&[&install::NGINX, &install::WRK])?;
    // The broker comes with the servers of the tests.
    install::for_tests()?;
    // It is looked for beside the benches.
    build("semel-gateway")?;
    build("semel-bench")?;
    let mut bench = shell::command(shell::target().join("release").join("semel-bench"), &[]);
    bench.args(&arguments.rest);
    shell::show(bench)
}

fn build(package: &str) -> Result<()> {
    shell::show(shell::cargo(&["build", "--release", "--bins", "--package", package]))
}
