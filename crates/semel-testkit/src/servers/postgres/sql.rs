//! SQL for setting up, by psql: the test kit names no driver.

use std::{
    io::Write,
    process::{Command, Stdio},
    thread,
};

use super::install::Major;
use crate::servers::user;

/// Tells psql where to connect, to print rows alone and to end at the first error.
pub(super) fn configure(psql: &mut Command, url: &str) {
    user::plain_environment(psql);
    psql.env("PGCONNECT_TIMEOUT", "20").current_dir("/").args(["--dbname", url]);
    psql.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1"]);
}

/// Runs statements, each in a transaction of its own, and returns their rows: a line each, columns
/// set apart by `|`.
pub(super) fn run(major: Major, url: &str, statements: &str) -> Result<String, String> {
    let mut psql = Command::new(major.program("psql"));
    configure(&mut psql, url);
    psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut psql = psql.spawn().expect("psql starts");
    let mut input = psql.stdin.take().expect("psql has an input");
    let statements = statements.to_owned();
    // A psql that gave up reads no more: what it says of itself tells why.
    let write = thread::spawn(move || drop(input.write_all(statements.as_bytes())));
    let output = psql.wait_with_output().expect("psql can be waited for");
    drop(write.join());
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim_end().to_owned()),
    }
}
