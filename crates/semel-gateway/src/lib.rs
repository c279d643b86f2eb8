//! The semel gateway: an idempotency proxy for any HTTP API.

pub mod cli;
pub mod config;
