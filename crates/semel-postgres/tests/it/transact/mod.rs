//! Claims inside the caller's own transactions.

mod by_sqlx;
mod guard;
mod isolation;
mod kill;
mod misuse;
pub(crate) mod pool;
mod reference;
mod run;
pub(crate) mod shop;
mod trouble;
mod waiting;
