//! Makes a repeated intent harmless.
//!
//! An **intent** is one business operation that somebody wants to happen once, named by tenant,
//! operation and key. This crate is the engine: it decides what a repeat meets ([`decide`]), keeps
//! what is needed for that in a [`Store`], and runs the work once ([`Engine`]). It knows no driver
//! and no HTTP: stores live in crates of their own, the boundary in `semel-http`.
//!
//! | module | what it holds |
//! |---|---|
//! | [`key`] | names: tenant, operation, key, intent |
//! | [`fingerprint`] | the canonical digest of what was asked |
//! | [`record`], [`outcome`] | what is kept |
//! | [`decide`] | the pure decision and every transition |
//! | [`policy`], [`horizon`] | what holds for an operation, and for how long |
//! | [`permit`] | the proof of a claim as text |
//! | [`store`] | where records live; the reference store |
//! | [`engine`] | the loop around a store |
//! | [`outbox`] | events that leave if and only if their transaction committed |
//! | [`inbox`] | messages whose effect happens once |
//! | [`codec`] | the bytes at rest |
//! | [`clock`], [`entropy`] | the only doors to time and chance |
//! | [`wire`], [`telemetry`], [`error`] | names that travel, names that are counted, what can go wrong |

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail by panicking")
)]

mod backoff;
mod caught;
pub mod clock;
pub mod codec;
pub mod decide;
pub mod engine;
pub mod entropy;
pub mod error;
pub mod fingerprint;
pub mod horizon;
pub mod inbox;
pub mod key;
pub mod outbox;
pub mod outcome;
pub mod permit;
pub mod policy;
pub mod record;
pub mod store;
pub mod telemetry;
pub mod wire;

#[doc(inline)]
pub use self::{
    clock::{Clock, Monotonic, SystemClock, Timestamp},
    decide::Refusal,
    engine::{Begun, Call, Engine, EngineBuilder, Fail, Held, Holder, Kept, Ran, RunError},
    error::{Error, StoreError, StoreErrorKind},
    fingerprint::Fingerprint,
    key::{IntentId, Key, NameError, Operation, Reference, Scope, Tenant},
    outcome::Outcome,
    policy::{Policy, PolicyError},
    record::{Fence, Lease, Permit, Phase, Record, State, Token},
    store::Store,
};
