//! Claims inside the caller's own transactions.

mod by_sqlx;
mod guard;
mod isolation;
mod misuse;
mod reference;
pub(crate) mod pool;
mod run;
pub(crate) mod shop;
mod waiting;
