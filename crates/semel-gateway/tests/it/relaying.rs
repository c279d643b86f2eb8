//! Events of a real outbox, relayed by the binary to receivers that count what they are sent.

mod inside;
mod killed;
mod on_postgres;
mod parking;
mod place;
mod telling;
#[cfg(feature = "kafka")]
mod to_kafka;
mod watching;
