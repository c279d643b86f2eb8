//! Sources of messages in memory, for tests of what consumes them: what a broker does to a consumer,
//! on command.

mod log;
mod queue;

pub use self::{log::MemoryLog, queue::MemoryQueue};
