//! What the drill promises.

#![allow(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may fail by panicking, and reads the clock for deadlines"
)]

mod api;
mod cli;
mod consumer;
mod crash;
mod effects;
mod exchange;
mod faults;
mod ours;
mod pages;
mod peers;
mod report;
mod rough;
mod stack;
