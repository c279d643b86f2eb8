//! What only this store promises, and what it does in trouble.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a test may fail by panicking, and looks at the real clock"
)]

mod bench;
mod clock;
mod conformance;
mod golden;
mod inbox;
mod outbox;
mod process;
mod transact;
mod trouble;
mod verbs;
