//! Messages whose effect is in the same database: what every inbox promises, each form, on both drivers.

mod batching;
mod conformance;
mod consuming;
mod desk;
mod functions;
mod isolation;
mod kill;
mod mark;
mod parking;
mod racing;
mod receiving;
mod sweeping;
