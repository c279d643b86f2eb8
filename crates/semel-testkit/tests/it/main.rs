//! The tests of the test kit itself: the model of the claim protocol.

#![allow(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may fail by panicking; a search says how long it took, and is told how far to go"
)]

mod model;
