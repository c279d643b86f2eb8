//! Messages whose effect happens once, whatever a broker repeats.
//!
//! A **consumer** is whoever handles messages, by a name that survives renames and deploys. It takes a
//! [`Delivery`] from a [`Source`], and the effect is committed in one transaction with the fact that
//! this consumer had this message; only then is the message acknowledged. A copy meets that fact: it
//! is acknowledged, and what the first run recorded is returned to whoever has to send it again.
//!
//! | module | what it holds |
//! |---|---|
//! | [`message`] | names of messages and consumers, and what is delivered |
//! | [`source`] | the seam to brokers: deliveries in, acknowledgements out |
//! | [`policy`] | what holds for a consumer |
//! | [`handler`] | what handles messages |
//! | [`receive`] | what every store decides alike when messages come |
//! | [`store`] | what a store keeps beside the transactions of the effects |
//! | [`runner`] | the loop: deliveries in, each handled once, acknowledged after the commit |
//! | [`memory`] | the reference store |
//! | [`inspect`] | what operators see, and may say |

pub mod handler;
pub mod inspect;
pub mod memory;
pub mod message;
pub mod policy;
pub mod receive;
pub mod runner;
pub mod source;
pub mod store;

#[doc(inline)]
pub use self::{
    handler::{Failed, Handled, Handler},
    inspect::{
        ConsumerState, Had, InboxAudit, InboxAuditKind, InboxInspect, Mark, MessageState,
        ParkedFilter,
    },
    message::{Consumer, Delivery, LogId, MessageId, Position, Redelivered, SourceName},
    policy::{By, InboxError, InboxPolicy},
    source::{Acked, Receipt, Received, Settlement, Source, SourceCapabilities, SourceError},
    store::{
        Attempts, InboxStore, InboxSweep, InboxSwept, Mismatch, Park, ParkAnswer, ParkedMessage,
        ParkedState, Recorded, Standing, Uncount,
    },
};
