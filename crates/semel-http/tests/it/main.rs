//! The layer in front of a real axum server on a loopback port. Effects are counted, not answers.

#![allow(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may fail by panicking, starts tasks, and reads the clock for its deadlines"
)]

mod support;

mod axum_handlers;
mod bodies;
mod bridged;
mod browser;
mod failures;
mod fingerprints;
mod keys;
mod passing;
mod progress;
mod publisher_promises;
mod publishing;
mod races;
mod replays;
mod retention;
mod scopes;
mod sqlite;
mod status;
mod trouble;
