//! The engine and the reference store, seen from outside.

#![allow(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test starts tasks and may fail by panicking"
)]

mod beginning;
mod bridging;
mod ending;
mod hinted;
mod inbox;
mod keeping;
mod lost_answers;
mod memory;
mod memory_inbox;
mod memory_outbox;
mod relaying;
mod retention;
mod shutdown;
mod simulation;
mod typed;
mod waiting;
mod world;
