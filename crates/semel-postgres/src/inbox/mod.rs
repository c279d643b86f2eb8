#![doc = include_str!("../../docs/inbox.md")]

mod batch;
mod form;
mod guard;
mod inspect;
mod known;
mod receive;
mod run;
mod store;
mod sweep;

use std::sync::Arc;

use semel::{
    Fingerprint, StoreError,
    inbox::{Delivery, InboxPolicy},
};

#[doc(inline)]
pub use semel::inbox::receive::{Ran, Verdict};

pub use self::{
    batch::{Batch, FinishedAll, ReceiveAll},
    guard::{Finished, Handling},
    receive::Receive,
};
pub use crate::transact::RunError;
use crate::{PostgresStore, error::invalid, row, transact::Transact, value::Value};

/// Receives messages of one consumer inside the caller's own transactions. Cheap to clone.
#[derive(Clone)]
pub struct Inbox {
    transact: Transact,
    policy: Arc<InboxPolicy>,
    fingerprint: fn(&Delivery) -> Fingerprint,
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Returns what receives messages of a consumer inside the caller's own transactions, on connections
    /// of any pool to this store's database.
    ///
    /// # Errors
    ///
    /// Refuses a policy with a setting outside of its bounds.
    pub fn inbox(&self, policy: Arc<InboxPolicy>) -> Result<Inbox, StoreError> {
        self.transact().inbox(policy)
    }
}

impl Transact {
    /// Returns what receives messages of a consumer inside the caller's own transactions. Isolation, the
    /// number of transactions of a run and whether statements stay prepared are those of this value.
    ///
    /// # Errors
    ///
    /// Refuses a policy with a setting outside of its bounds.
    pub fn inbox(&self, policy: Arc<InboxPolicy>) -> Result<Inbox, StoreError> {
        let outside = |error| invalid("the inbox's policy cannot be used").with_source(error);
        policy.check().map_err(outside)?;
        Ok(Inbox { transact: self.clone(), policy, fingerprint: Delivery::fingerprint })
    }
}

impl Inbox {
    /// Sets how the digest of a message is made, by which other content under one id is found out; the
    /// default is that of its payload. For payloads that differ from copy to copy, such as by a time of
    /// sending, make it of what stays.
    #[must_use]
    pub const fn fingerprint(mut self, fingerprint: fn(&Delivery) -> Fingerprint) -> Self {
        self.fingerprint = fingerprint;
        self
    }

    /// Returns what holds for the consumer.
    #[must_use]
    pub fn policy(&self) -> &InboxPolicy {
        &self.policy
    }

    fn consumer(&self) -> &str {
        self.policy.consumer.as_str()
    }

    /// For how long a transaction that has a message may be idle, in milliseconds.
    fn idle_ms(&self) -> Value<'static> {
        let idle = self.transact.inner.idle_timeout.as_millis();
        Value::Bigint(Some(i64::try_from(idle).unwrap_or(i64::MAX)))
    }

    fn remember_us(&self) -> i64 {
        row::span(self.policy.remember_for)
    }
}
