//! Servers that belong to one test: ports nobody else takes, and processes that end with it.

mod patience;
mod pgbouncer;
mod port;
mod postgres;
mod process;
mod scratch;
mod tcp;
mod tools;
mod user;

pub use self::{
    pgbouncer::{Builder as PgBouncerBuilder, PgBouncer},
    port::free_port,
    postgres::{Builder as PostgresBuilder, Major, Postgres, Session, failover_url},
    process::{Process, ProcessError},
    tcp::{Moment, TcpProxy, Towards, Trap},
    tools::{Tools, tools},
};
