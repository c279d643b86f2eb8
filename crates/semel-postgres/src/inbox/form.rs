//! What one message and a batch have in common: a first statement, and what its answer means.

use std::future::Future;

use semel::StoreError;

use super::Inbox;
use crate::{
    error::Fault,
    transact::{Tx, source::First},
};

/// What the first statement met.
#[derive(Debug)]
pub(super) enum Met<T, G, D> {
    /// Another transaction won.
    Retry(StoreError),
    /// There is something to do.
    Run(G),
    /// There is nothing to do.
    Told(T, D),
}

/// What is received: one message, or a batch.
pub(super) trait Form<T: Tx>: First + Sized {
    /// What is held while there is something to do.
    type Guard;
    /// What is said if there is nothing to do.
    type Told;

    /// Does what the answer to the first statement says.
    fn met(
        self,
        inbox: &Inbox,
        tx: T,
        answer: Result<Option<T::Row>, Fault>,
    ) -> impl Future<Output = Result<Met<T, Self::Guard, Self::Told>, Fault>> + Send;
}
