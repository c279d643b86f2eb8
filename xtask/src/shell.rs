//! Starts the commands that tasks consist of, and knows where things lie.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// What is left out of a first build, so that it is fast, and is in every check: Kafka, whose client is
/// built from C, and the fuzzer, which is C++. Every build of the whole workspace names both: what the
/// crates depend on is the same for all of them, and is built once.
pub(crate) const WHOLE: [&str; 3] =
    ["--workspace", "--features", "semel-gateway/kafka,semel-fuzz/libfuzzer"];
/// The same for the gateway alone.
pub(crate) const WHOLE_GATEWAY: [&str; 2] = ["--features", "kafka"];

/// The top folder of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies inside the repository")
}

/// Where cargo builds, absolute.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(given) => root().join(given),
        None => root().join("target"),
    }
}

/// A command in the top folder, without standard input.
pub(crate) fn command(program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_this_run(name)) {
        command.env_remove(name);
    }
    command
}

/// Whether cargo set this variable for xtask alone: handed on, some build scripts take it for a change and run again.
fn is_of_this_run(name: &OsStr) -> bool {
    let names = ["CARGO_BIN_NAME", "CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE", "OUT_DIR"];
    let families = ["CARGO_MANIFEST_", "CARGO_PKG_"];
    let name = name.to_string_lossy();
    names.contains(&name.as_ref()) || families.iter().any(|family| name.starts_with(family))
}

/// The cargo that runs this task, with `arguments`.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    command(cargo, arguments)
}

/// Git on this repository, whoever owns its files.
pub(crate) fn git(arguments: &[&str]) -> Command {
    command("git", &[&["-c", "safe.directory=*"], arguments].concat())
}

/// Runs `command` to its end with its output shown.
pub(crate) fn show(mut command: Command) -> Result<()> {
    let line = line(&command);
    println!("$ {line}");
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    ensure!(status.success(), "`{line}` ended with {status}");
    Ok(())
}

/// Runs `command` to its end and returns what it printed on standard output.
pub(crate) fn read(mut command: Command) -> Result<String> {
    let line = line(&command);
    let output = command.output().with_context(|| format!("cannot start `{line}`"))?;
    ensure!(
        output.status.success(),
        "`{line}` ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` did not print UTF-8"))
}

/// Whether `program` lies on the search path.
pub(crate) fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let words = std::iter::once(name).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
