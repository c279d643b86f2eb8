//! What only this store promises, on every kind of server, and what it does in trouble.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a test may fail by panicking, looks at the real clock and starts tasks"
)]

mod checking;
mod conformance;
mod deciding;
mod failover;
mod fixture;
mod hinting;
mod keeping;
mod loading;
mod lost;
mod mixing;
mod moving;
mod refusing;
mod repeating;
mod securing;
mod trouble;
mod words;
