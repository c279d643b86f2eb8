//! Breaks a running system on purpose, and counts *effects*, not answers.
//!
//! | module | what it holds |
//! |---|---|
//! | [`plan`] | the file that says what to ask of an API, how its effects are counted, and what it documents |
//! | [`effects`] | counting what really happened: by a URL, or in a database |
//! | [`consumer`] | drilling anybody's consumer of messages, by the machinery of [`http`] |
//! | [`http`] | drilling anybody's HTTP API: the exchanges, the scenarios, the rules that they check |
//! | [`report`] | verdicts as a table, as JSON, as JUnit |
//! | [`stack`] | drilling Semel itself: gateways, stores and upstreams under kills, cuts and skewed clocks |
//! | [`cli`] | the command line |

#![allow(
    clippy::disallowed_methods,
    reason = "a drill reads clocks for deadlines, takes secrets from the environment and starts tasks"
)]
#![cfg_attr(
    test,
    allow(clippy::panic, clippy::unwrap_used, reason = "a test may fail by panicking")
)]

mod aside;
pub mod cli;
pub mod consumer;
pub mod effects;
pub mod http;
pub mod plan;
pub mod report;
pub mod stack;
