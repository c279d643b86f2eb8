//! The `semel-drill` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    semel_drill::cli::main()
}
