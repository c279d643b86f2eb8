//! The relay on the reference outbox, between a store that fails by rule and a scripted destination.

mod away;
mod closing;
mod leading;
mod lost_answers;
mod pacing;
mod parking;
mod refusing;
mod script;
mod sending;
mod simulation;
mod store;
mod world;
