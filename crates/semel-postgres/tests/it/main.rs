//! What only this store promises, on every major of the server, and what it does in trouble.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a test may fail by panicking, looks at the real clock and starts tasks"
)]

mod arbitrary;
mod bounding;
mod bridging;
mod caller;
mod closing;
mod conformance;
mod connecting;
mod crossing;
mod deciding;
mod failover;
mod fixture;
mod functions;
mod golden;
mod inbox;
mod keeping;
mod languages;
mod looking;
mod lost;
mod misuse;
mod outbox;
mod prepared;
mod racing;
mod referring;
mod relaying;
mod roles;
mod schema;
mod securing;
mod sweeping;
mod transact;
mod trouble;
mod words;
