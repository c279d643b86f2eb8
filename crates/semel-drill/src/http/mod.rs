//! Drilling anybody's HTTP API.

pub mod exchange;
pub mod scenario;

pub(crate) mod asking;
pub(crate) mod chance;
mod compare;
mod connection;
mod drill;
pub(crate) mod judge;
pub(crate) mod memory;
pub(crate) mod process;
pub(crate) mod program;
mod reform;
mod run;
mod target;
pub(crate) mod trial;
pub(crate) mod words;

#[doc(inline)]
pub use self::{
    chance::Chance,
    connection::Connection,
    drill::Drill,
    exchange::{Answer, Exchange, Got, How, Request},
    program::Program,
    run::{Progress, run, run_each},
    target::{Target, TargetError},
    trial::{Trial, Tried},
};
