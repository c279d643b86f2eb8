//! The primary dies, is cut off, or comes back: what was acknowledged stays, and nothing is done twice.

mod callers;
mod clock;
mod cluster;
mod crowd;
mod cut;
mod isolated;
mod killed;
mod pair;
mod promoted;
mod restarted;
mod verdict;
