//! The gateway as its users meet it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test may read clocks and start tasks")]

mod config;
