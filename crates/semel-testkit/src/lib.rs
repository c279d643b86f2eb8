//! Conformance, faults, clocks and chance for testing Semel and its stores.
//!
//! | module | what it holds |
//! |---|---|
//! | [`conformance`](mod@conformance) | one function per promise that every store keeps, and the macro that stamps them |
//! | [`clock`], [`entropy`] | time that moves by hand, chance that replays from a seed |
//! | [`bridge`] | the open transaction of an application, as a holder sees it |
//! | [`faults`] | a store that loses calls and answers by script |
//! | [`history`] | what was done and what was acknowledged, and the checker over it |
//! | [`deliveries`] | what was committed and what was delivered, and the judge of both |
//! | [`receiver`] | a destination of events that notes what arrives and misbehaves when told |
//! | [`http`] | a tiny upstream that counts effects and misbehaves, and a raw client |
//! | [`sim`](mod@sim) | engines, callers, faults and clocks in an order drawn from a seed |
//! | [`sources`] | queues and logs in memory that repeat, lose and revoke on command |
//! | [`servers`] | private PostgreSQL servers, poolers and standbys, Kafka brokers, a faulty way to them, processes that cannot outlive the test |
//!
//! Nothing here is linked into what serves requests: the drill and the benches use it, and the other crates
//! name it among their dev-dependencies alone.

#![allow(
    clippy::disallowed_methods,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test kit fails by panicking, reads the clock for deadlines and starts tasks"
)]

pub mod bridge;
pub mod clock;
pub mod conformance;
pub mod deliveries;
pub mod entropy;
pub mod faults;
pub mod history;
pub mod http;
pub mod receiver;
pub mod servers;
pub mod sim;
mod sleepers;
pub mod sources;

#[doc(inline)]
pub use self::{
    bridge::HeldBridge,
    clock::ManualClock,
    conformance::{
        Fresh, StoreUnderTest,
        inbox::{FreshInbox, InboxUnderTest, Work, Worker},
        outbox::{FreshOutbox, OutboxUnderTest, Producer, Producing},
    },
    deliveries::Deliveries,
    entropy::SeededEntropy,
    faults::{Fault, FaultyStore, Gate, Verb},
    history::History,
};
