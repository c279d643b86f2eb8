//! The primary dies, is cut off, or comes back: what was acknowledged stays, and nothing is done twice.

mod isolated;
mod pair;
