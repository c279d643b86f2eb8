//! The outbox: what every one promises, and what only this one does.

mod conformance;
mod hints;
mod importing;
mod importing_rows;
mod importing_slots;
mod lasting;
mod moved;
mod plans;
mod publish;
mod slot;
mod steps;
mod trouble;
mod visible;
