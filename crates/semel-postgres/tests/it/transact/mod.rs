//! Claims inside the caller's own transactions.

mod guard;
mod isolation;
mod misuse;
mod run;
mod shop;
