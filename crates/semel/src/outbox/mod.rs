//! Events that leave if and only if their transaction committed.
//!
//! An [`Event`] is appended inside the transaction that it tells of, by the `transact` module of a
//! store or by SQL. A **relay** reads what was committed and hands it to [`Publisher`]s, in order per
//! [`Lane`]: every event reaches every destination at least once, under one [`EventId`], and nothing
//! of a transaction that was rolled back ever leaves. What may be repeated carries the same id, which
//! an [inbox](crate::inbox) knows again.
//!
//! | module | what it holds |
//! |---|---|
//! | [`event`] | what leaves, and its bounds |
//! | [`store`] | what a store keeps of events, cursors, leaders and parked lanes |
//! | [`publisher`] | the seam to brokers: a batch out, three outcomes back |
//! | [`audit`] | what operators said |
//! | [`memory`] | the reference store |
//! | [`relay`] | the loop that sends what was committed |
//!
//! Words: a **destination** is somewhere events go, with a cursor of its own. A **lane** is all events
//! of one aggregate on their way to one destination. The **leader** of a destination is the one relay
//! that sends to it, for as long as its lease and **epoch** hold. A lane is **parked** when its head
//! cannot be sent: it then waits, in order, beside the cursor, and holds nobody else up.

pub mod audit;
pub mod event;
pub mod memory;
pub mod publisher;
pub mod relay;
pub mod store;

#[doc(inline)]
pub use self::{
    audit::{OutboxAudit, OutboxAuditKind},
    event::{Cause, Event, EventError, EventId, Lane},
    publisher::{Fault, Message, Publisher, PublisherCapabilities, Sent},
    store::{
        Destination, Epoch, Lead, Leader, Led, OutboxHints, OutboxInspect, OutboxRetain,
        OutboxStore, Park, Parked, ParkedState, Placed, Pos, Settle, Settled, Start, Window,
    },
};
