//! The gateway as its users meet it: real sockets, real processes, effects counted at the upstream.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test may read clocks and start tasks")]

mod authorising;
mod bridging;
mod child;
mod command;
mod commanding;
mod config;
mod config_relay;
mod config_store;
mod demo;
mod ending;
mod failing;
mod gateway;
mod kill;
mod message;
mod moving;
mod passing;
mod postgres;
mod process;
mod records;
mod redis;
mod relaying;
mod secrets;
mod securing;
mod slow;
mod telling;
mod trouble;
mod upstream;
