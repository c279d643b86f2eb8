//! The outbox: what every one promises, and what only this one does.

mod conformance;
mod importing;
mod slot;
