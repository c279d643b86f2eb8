//! What Kafka itself must bear out, on a real broker.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a test may fail by panicking, looks at the real clock and starts tasks"
)]

mod breaking;
mod conformance;
mod effects;
mod fixture;
mod publishing;
mod reading;
mod transacting;
