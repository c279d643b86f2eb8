//! Drilling anybody's HTTP API.

pub mod exchange;
pub mod scenario;

mod asking;
mod chance;
mod compare;
mod connection;
mod drill;
mod judge;
mod memory;
mod process;
mod reform;
mod run;
mod target;
mod trial;
mod words;

#[doc(inline)]
pub use self::{
    chance::Chance,
    connection::Connection,
    drill::Drill,
    exchange::{Answer, Exchange, Got, How, Request},
    run::{Progress, run},
    target::{Target, TargetError},
    trial::{Trial, Tried},
};
