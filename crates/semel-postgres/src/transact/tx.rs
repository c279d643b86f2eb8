//! What a claim needs of the caller's transaction, of whichever driver.

use std::future::Future;

use semel::StoreError;

use crate::{
    error::Fault,
    value::{Cells, Value},
};

/// A transaction that can carry a claim: one of `tokio_postgres`, one of `sqlx`, or one that
/// [`Transact::run`](super::Transact::run) began. No other can implement it.
#[expect(private_bounds, reason = "sealed: what a transaction is asked is this crate's own affair")]
pub trait Tx: Carry {}

impl<T: Carry> Tx for T {}

/// The statements of the atomic form, sent by a driver.
pub(crate) trait Carry: Send + Sized {
    /// What comes back.
    type Row: Cells + Send;

    /// Refuses a transaction that cannot carry a claim.
    fn admit(&self) -> Result<(), StoreError>;

    /// Runs a statement, and returns its first row.
    fn ask(
        &mut self,
        what: Text<'_>,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<Option<Self::Row>, Fault>> + Send;

    /// Runs a statement, and returns all its rows.
    fn ask_all(
        &mut self,
        what: Text<'_>,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<Vec<Self::Row>, Fault>> + Send;
}

/// A statement, and the same as prepared on this connection, if it was.
#[derive(Clone, Copy)]
pub(crate) struct Text<'a> {
    pub(crate) text: &'a str,
    pub(crate) prepared: Option<&'a tokio_postgres::Statement>,
    /// Whether a driver that prepares by itself keeps it prepared.
    #[cfg_attr(not(feature = "sqlx"), expect(dead_code, reason = "only sqlx prepares by itself"))]
    pub(crate) keep: bool,
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self { text, prepared: None, keep: false }
    }
}

/// A statement and its values, whose answer nobody needs.
pub(crate) struct Statement<'a> {
    pub(crate) text: Text<'a>,
    pub(crate) values: Vec<Value<'a>>,
}
