//! The simulation: engines, callers, an operator, faults and clocks, in an order drawn from a seed.
//!
//! A world is one store and a few processes on it, with an engine each. Every task of every process,
//! the network and the callers goes on only when it is drawn ([`Turns`](semel::engine::Turns)), time
//! goes on only when nobody else can or a little at a time, and whatever else happens is drawn from the
//! same series: so one seed is one world, and plays again to the last step. Every answer is judged by
//! the [`History`](crate::History) when it is heard.
//!
//! | module | what it holds |
//! |---|---|
//! | `plan` | what a world is like |
//! | `schedule`, `time`, `chance` | who goes on, when, and every draw |
//! | `server`, `wire` | the store, its lies, and the way to it |
//! | `world`, `trouble` | processes that freeze and die, a store that goes away and whose clock jumps |
//! | `caller`, `handler`, `bridged`, `guard`, `operator` | who asks, runs, and resolves |
//! | `trace` | what happened: a digest, counts, and lines to read |

mod bridged;
mod caller;
mod chance;
mod guard;
mod handler;
mod operator;
mod plan;
mod run;
mod schedule;
mod server;
mod time;
mod trace;
mod trouble;
mod wire;
mod world;

pub use self::{
    run::{Simulated, simulate, written},
    server::Lie,
    trace::Tally,
};
