//! The `semel` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    semel_gateway::cli::main()
}
