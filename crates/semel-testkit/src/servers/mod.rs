//! Servers that belong to one test: ports nobody else takes, and processes that end with it.

mod port;
mod process;

pub use self::{
    port::free_port,
    process::{Process, ProcessError},
};
