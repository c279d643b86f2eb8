//! The semel gateway: an idempotency proxy for any HTTP API.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")
)]

mod admin;
mod auth;
mod bounded;
mod circuit;
pub mod cli;
pub mod config;
mod demo;
mod entry;
mod listener;
mod problem;
mod proxy;
pub mod records;
pub mod relay;
mod serve;
pub mod settings;
mod shutdown;
mod stall;
pub mod stores;
pub mod tls;

#[doc(inline)]
pub use self::{
    proxy::{Upstream, UpstreamError},
    serve::{Ended, Gateway, ServeError, run},
    settings::Settings,
    shutdown::Shutdown,
};
