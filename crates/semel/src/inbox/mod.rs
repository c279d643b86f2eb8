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

pub mod message;
pub mod source;

#[doc(inline)]
pub use self::{
    message::{Consumer, Delivery, LogId, MessageId, Position, Redelivered, SourceName},
    source::{Acked, Receipt, Received, Settlement, Source, SourceCapabilities, SourceError},
};
