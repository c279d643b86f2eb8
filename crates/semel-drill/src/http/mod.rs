//! Drilling anybody's HTTP API.

pub mod exchange;
pub mod scenario;

#[doc(inline)]
pub use self::exchange::{Answer, Exchange, Got, Request};
