//! One effect per message, whatever a broker repeats: the fact that a consumer had a message is committed
//! in the transaction of its effect.
//!
//! ```
//! # use std::sync::Arc;
//! # use rusqlite::Connection;
//! use semel::inbox::{Consumer, Delivery, InboxPolicy, MessageId, Receipt, SourceName};
//! use semel_sqlite::{SqliteStore, inbox::Ran};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("shop.db");
//! let store = SqliteStore::builder(&path).open()?;
//! let mut conn = Connection::open(&path)?;
//! conn.execute_batch("CREATE TABLE invoice (note TEXT)")?;
//!
//! let policy = InboxPolicy::new(Consumer::new("billing.on-order-placed")?);
//! let inbox = store.inbox(Arc::new(policy))?;
//! let message = MessageId::new(SourceName::new("kafka:orders")?, "order-7")?;
//! let delivery = Delivery::new(message, Receipt(1), Some("{}".into()));
//! for copy in 0..3 {
//!     let ran = inbox.run(&mut conn, &delivery, |handling| {
//!         handling.execute("INSERT INTO invoice VALUES ('due')", [])?;
//!         Ok::<_, rusqlite::Error>((None, ()))
//!     })?;
//!     assert_eq!(matches!(ran, Ran::First(..)), copy == 0);
//!     // Only now is the message acknowledged.
//! }
//! let invoices: u32 = conn.query_row("SELECT count(*) FROM invoice", [], |row| row.get(0))?;
//! assert_eq!(invoices, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Three forms
//!
//! - [`Inbox::run`] begins, receives, runs a closure and commits, and begins again while another
//!   connection holds the file.
//! - [`Inbox::receive`] receives inside a transaction that the caller began, and gives back a
//!   [guard](Handling) that owns it. Only [`Handling::done`] gives the transaction back, to be committed.
//!   It asks of the transaction what [`transact`](crate::transact#what-the-transaction-must-be) asks.
//! - [`Inbox::run_all`] and [`Inbox::receive_all`] receive a batch in one transaction, and so with one
//!   flush. After a failure run the messages one by one.
//!
//! # What it promises
//!
//! - (consumer, source, id) is unique for as long as it is remembered; two consumers of one message have
//!   it each.
//! - Two copies at one instant: one waits for the other's lock, and then meets what that one recorded.
//! - A message that comes with other content than before is not run, and said to be a mismatch.
//! - A consumer that knows messages by [positions](semel::inbox::By::Positions) keeps one row per log,
//!   which only moves forward: an owner that was overtaken in a rebalance changes nothing.
//!
//! What is done outside of the transaction may happen again. Send it through the outbox, or by
//! [`Handler::emit`](semel::inbox::Handler::emit), which is asked for every copy.

mod batch;
mod guard;
mod inspect;
mod known;
mod parked;
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
    batch::{Batch, ReceiveAll},
    guard::Handling,
    receive::Receive,
};
pub use crate::transact::RunError;
use crate::{SqliteStore, error::invalid, transact::Transact};

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

impl SqliteStore {
    /// Returns what receives messages of a consumer inside the caller's own transactions on this store's
    /// file.
    ///
    /// # Errors
    ///
    /// Refuses a policy with a setting outside of its bounds.
    pub fn inbox(&self, policy: Arc<InboxPolicy>) -> Result<Inbox, StoreError> {
        let outside = |error| invalid("the inbox's policy cannot be used").with_source(error);
        policy.check().map_err(outside)?;
        Ok(Inbox { transact: self.transact(), policy, fingerprint: Delivery::fingerprint })
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
}
