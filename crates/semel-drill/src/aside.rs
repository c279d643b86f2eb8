//! What is said besides the report.

use std::{
    fmt,
    io::{self, Write},
};

/// Writes a line to the standard error. Nobody may be listening there, or its file may be full: a drill
/// goes on all the same, and its report is not lost.
pub(crate) fn aside(line: impl fmt::Display) {
    drop(writeln!(io::stderr().lock(), "{line}"));
}
