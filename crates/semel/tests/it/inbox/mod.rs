//! The runner of consumers, on the reference inbox and sources that break on command.

mod desk;
mod ending;
mod failing;
mod flowing;
mod logs;
mod parked;
