//! An upstream that does what a test says, and counts what it was asked.

pub(crate) use semel_testkit::http::{Deed, Upstream};
