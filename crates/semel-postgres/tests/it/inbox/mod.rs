//! Messages whose effect is in the same database: each form, on both drivers.

mod batching;
mod consuming;
mod desk;
mod functions;
mod isolation;
mod kill;
mod mark;
mod parking;
mod positions;
mod publishing;
mod racing;
mod receiving;
mod sweeping;
