//! Drilling anybody's HTTP API.

pub mod exchange;
pub mod scenario;

mod connection;
mod target;

#[doc(inline)]
pub use self::{
    connection::Connection,
    exchange::{Answer, Exchange, Got, How, Request},
    target::{Target, TargetError},
};
