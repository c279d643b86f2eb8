//! HTTP/1.1 as bytes, for tests of what stands between a client and an upstream: no library between
//! the test and the wire.
//!
//! [`Upstream`] does with each request what a test says, and counts. [`Wire`] is one connection of a
//! client that can say anything, well-formed or not, and hang up at any point.

mod message;
mod upstream;

pub use self::{
    message::{Message, PATIENCE, Wire, answer, request, send},
    upstream::{Deed, Seen, Upstream, Work},
};
