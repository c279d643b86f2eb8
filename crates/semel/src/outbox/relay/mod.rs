//! The relay: what was committed to an outbox leaves it, in order per lane.
//!
//! For each destination one relay leads at a time: the others wait for its lease to end. The leader
//! reads the current pass in windows ahead of what is settled, sorts it into lanes, sends the heads of
//! many lanes at once, and settles up to where everything is confirmed or parked.
//!
//! - **Confirmed**: the next event of the lane goes. **Unknown**: the lane stays shut, and the same
//!   event is sent again until it is confirmed. **Refused** for its own sake: it is sent again, each
//!   time after a longer wait; once it was refused [`RelayPolicy::attempts_max`] times and for
//!   [`RelayPolicy::failing_for`], it waits for an operator. **Refused** for the destination's sake:
//!   that spends no attempt, and the destination's circuit opens.
//! - A lane that is stuck for [`RelayPolicy::blocked_for`] and keeps the rest from being read is parked
//!   **aside**: the cursor passes it, and it is sent on from its parked rows, in order, without
//!   anybody's word. Later events of a parked lane join it. A parked lane is sent in runs of up to
//!   [`Due::ROWS_MAX`](super::store::Due::ROWS_MAX) rows; once all its rows are in hand, what is read
//!   of it goes right behind them, and so it is back with the others however much of it keeps coming.
//! - Nothing is sent later than [`publish_wait`](crate::outbox::PublisherCapabilities::publish_wait)
//!   before the lease ends, as counted from before it was asked for; a relay that froze settles
//!   nothing any more, since its epoch is over. Copies carry the same id.
//! - While there is nothing to do, nothing is written; the store is asked ever more rarely, down to
//!   once in [`RelayPolicy::poll_idle`]. A hint cuts that short.
//! - What is in hand is bounded in events and bytes, and so are waits, copies in memory, and lanes
//!   known to be parked.
//!
//! How often something was refused is known to the leader alone until its lane is parked, which is after
//! [`RelayPolicy::blocked_for`]; the parked row tells it to whoever leads next. What is refused after
//! that each leader counts for itself, so leaders that keep dying may never count to the bound: a row
//! that had been refused when it was parked is given up, too, when it is refused once more after it was
//! parked for `attempts_max` times `failing_for`.

mod aside;
mod builder;
mod calls;
mod circuit;
mod driver;
mod health;
mod heeding;
mod hints;
mod lanes;
mod leading;
mod ledger;
mod paced;
mod parked;
mod policy;
mod reading;
mod retention;
mod routes;
mod sending;
mod settling;
mod shutdown;
mod term;
mod troubles;
mod versions;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::sync::Notify;

pub use self::{
    builder::{RelayBuilder, RelayDestination, RelayError},
    circuit::CircuitState,
    health::{DestinationHealth, Unready},
    policy::RelayPolicy,
    routes::Routes,
};
use self::{health::Board, retention::Retention, shutdown::Closing};
use super::store::OutboxStore;
use crate::{clock::Clock, engine::Tasks, telemetry::RelayCounters};

/// Sends what was committed to an outbox to its destinations. Cheap to clone; it goes on until
/// [`Relay::close`], or until its runtime ends.
///
/// ```
/// # use std::{sync::Arc, time::Duration};
/// # use async_trait::async_trait;
/// use semel::outbox::{
///     Destination, Event, EventId, Lane, Message, Publisher, PublisherCapabilities, Sent,
///     memory::MemoryOutbox, relay::{Relay, RelayDestination},
/// };
///
/// #[derive(Debug)]
/// struct Printer;
///
/// #[async_trait]
/// impl Publisher for Printer {
///     fn capabilities(&self) -> PublisherCapabilities {
///         PublisherCapabilities::new("printer")
///     }
///     async fn publish(&self, batch: Vec<Message>) -> Vec<Sent> {
///         batch.iter().for_each(|message| println!("{:?}", message.event));
///         vec![Sent::Confirmed; batch.len()]
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let outbox = MemoryOutbox::new();
/// let mut transaction = outbox.begin();
/// let id = EventId::from_bytes([7; 16]);
/// transaction.append(Event::new(id, Lane::new("order", "7")?, "Placed", None)?)?;
/// transaction.commit()?;
///
/// let printer = RelayDestination::new(Destination::new("printer")?, Arc::new(Printer));
/// let relay = Relay::builder(Arc::new(outbox.clone())).destination(printer).start()?;
/// while relay.destinations()[0].stats.sent == 0 {
///     tokio::time::sleep(Duration::from_millis(1)).await;
/// }
/// assert!(relay.close(Duration::from_secs(10)).await);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Relay {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    lines: Vec<Line>,
    retention: Arc<Retention>,
    policy: Arc<RelayPolicy>,
    clock: Arc<dyn Clock>,
    tasks: Tasks,
    closing: Closing,
}

/// What is known here of the loop of one destination.
#[derive(Debug)]
struct Line {
    board: Arc<Board>,
    counters: Arc<RelayCounters>,
    hint: Arc<Notify>,
}

impl Relay {
    /// Begins a relay on `store`.
    pub fn builder(store: Arc<dyn OutboxStore>) -> RelayBuilder {
        RelayBuilder::new(store)
    }

    /// Tells that something may have been committed, so that it is read at once: to be called after a
    /// commit, as often as one likes.
    pub fn hint(&self) {
        self.inner.lines.iter().for_each(|line| line.hint.notify_one());
    }

    /// Returns how each destination is doing, in the order in which they were named.
    #[must_use]
    pub fn destinations(&self) -> Vec<DestinationHealth> {
        let now = self.inner.clock.monotonic();
        let look = |line: &Line| line.board.look(line.counters.stats(), now);
        self.inner.lines.iter().map(look).collect()
    }

    /// Returns what keeps the relay from being ready; nothing if it is.
    #[must_use]
    pub fn unready(&self) -> Vec<Unready> {
        let policy = &self.inner.policy;
        self.destinations().iter().flat_map(|health| health.unready(policy)).collect()
    }

    /// Returns how many events, or partitions of them, were dropped by retention.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.inner.retention.dropped.load(Ordering::Relaxed)
    }

    /// Returns what keeps old events from being dropped, if anything does.
    #[must_use]
    pub fn retention_held_up(&self) -> Option<Box<str>> {
        self.inner.retention.held_up()
    }

    /// Stops reading and sending, waits for what is on its way, settles and resigns; at most `wait`.
    /// Returns whether all of it was done in time: what was not is sent again by whoever leads next.
    pub async fn close(&self, wait: Duration) -> bool {
        let until = self.inner.clock.monotonic().after(wait);
        self.inner.closing.begin(until);
        tokio::select! {
            biased;
            () = self.inner.tasks.ended() => true,
            () = self.inner.clock.sleep_until(until) => false,
        }
    }
}
