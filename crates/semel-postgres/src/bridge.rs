//! Telling that an application ended a run by itself, in a transaction of its own.
//!
//! Whoever completes holds the lock of the name until its transaction ends, and a commit is visible
//! before it lets go of its locks. So what is read by a statement that began under the lock is all that
//! any transaction has written, but for those that have not asked for the lock yet; and they meet
//! whatever follows the look: a release that ends their permit, or a completion by the same permit.

use async_trait::async_trait;
use semel::{
    IntentId, StoreError,
    store::capability::{Bridge, Looked},
};

use crate::{PostgresStore, verb::Look};

#[async_trait]
impl Bridge for PostgresStore {
    async fn look(&self, id: IntentId) -> Result<Looked, StoreError> {
        self.lanes.looks.ask(Look::new(id, &self.links.secret)).await
    }
}
