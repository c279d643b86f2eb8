//! Semel on PostgreSQL: key, mutation and outcome in one transaction.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")
)]
#![allow(dead_code, reason = "the store comes next")]

mod error;
mod lock;
mod migrate;
mod queries;
mod row;
mod schema;
mod value;
