//! The `semel` binary.
fn main() {}
