//! What a store keeps for a relay: events, one cursor and one leader per destination, parked lanes.
//!
//! Reading goes in **passes**. A pass is a set of committed events that none of the passes before it
//! had; the store records which set it is *before* it lets anything of it be read, so that a crash
//! reads the same set again. Within a pass events are read in the order of their [`Pos`], and the
//! cursor moves behind what is settled; a pass whose end was settled is closed, and the next read opens
//! the next one. Nothing is skipped when a transaction commits late: it is in a later pass. Nobody
//! waits for a transaction that is still open. A store whose positions are in the order of commits
//! need not record anything for that: after a crash it reads the same events in the same order, and
//! behind them what was committed since. Where a lane's events are appended by transactions that
//! lock or write the aggregate first, the order of passes and positions is their order of cause.
//!
//! Rules that hold for every store:
//!
//! - One leader per destination: a lease on the store's clock. Whoever takes a lapsed one over gets a
//!   larger [`Epoch`], by a number of writes that does not depend on how much waits.
//! - [`OutboxStore::settle`] writes everything or nothing, and only if epoch and pass are the current
//!   ones. A stale leader changes nothing and is told.
//! - [`OutboxStore::settle`] repeated after a lost answer changes nothing more and says
//!   [`Settled::Stale`] or [`Settled::Stored`], truly.
//! - Nothing is written while there is nothing to read.
//! - What was appended is not taken out of reach while some destination has neither confirmed nor
//!   parked it.
//! - Everything asked for at once is bounded by [`READ_MAX`] and the limits given.

mod inspect;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;

#[doc(inline)]
pub use self::inspect::{EventFilter, LeftOut, OutboxInspect, ParkedFilter, Replayed};
use super::event::{Event, Lane};
use crate::{clock::Timestamp, error::StoreError, key::name};

/// The largest number of events, lanes or parked rows in one answer, and of rows in one settlement.
pub const READ_MAX: usize = 10_000;

name! {
    /// Somewhere events go: 1 to 64 ASCII letters, digits, `.`, `_` and `-`.
    Destination, "destination", 64,
    |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// Which leadership of a destination: larger for each take-over.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Epoch(pub u64);

/// Where an event lies in the table. It orders the events of one pass, and is no name: an event's name
/// is its [`EventId`](super::EventId).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Pos(pub u64);

/// Which pass of a destination.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Pass(pub u64);

/// Where a destination that is new begins.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Start {
    /// With everything that is still kept.
    #[default]
    Earliest,
    /// With what is committed from now on.
    Now,
}

/// Asks to lead a destination.
#[derive(Clone, Debug)]
pub struct Lead {
    /// Which.
    pub destination: Destination,
    /// Who asks, for people to read: at most [`Lead::OWNER_MAX`] bytes, such as host and process.
    pub owner: Box<str>,
    /// How long the leadership lasts unless it is renewed.
    pub lease: Duration,
    /// Where the destination begins if nobody ever led it.
    pub start: Start,
}

impl Lead {
    /// The largest name of whoever asks, in bytes; a longer one is refused with kind `Invalid`.
    pub const OWNER_MAX: usize = 255;
}

/// The answer to whoever asks to lead.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Led {
    /// Another leads.
    Follower {
        /// Who.
        owner: Box<str>,
        /// How long its lease lasts from now on.
        ends_in: Duration,
    },
    /// The caller leads.
    Leader(Leader),
}

/// A leadership.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Leader {
    /// Of which destination.
    pub destination: Destination,
    /// Which one.
    pub epoch: Epoch,
    /// The generation of the table: larger after each restore from a dump.
    pub generation: u32,
}

/// What a leader reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Of which pass; `None` if there is none: nothing is to be read now.
    pub pass: Option<Pass>,
    /// Events behind the position asked for, in order.
    pub events: Vec<Placed>,
    /// The last position that was looked at: what may be settled once all events up to it are, even
    /// if the window holds none.
    pub upto: Pos,
    /// Whether the pass has nothing behind `upto`.
    pub ends: bool,
    /// The store's time.
    pub now: Timestamp,
}

/// An event and where it lies.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// Where.
    pub pos: Pos,
    /// When it was appended, in the store's time.
    pub at: Timestamp,
    /// The event.
    pub event: Arc<Event>,
    /// Why the row cannot be read as an event, as one lower-case sentence: it was written past the
    /// checks of the store, or is damaged. `event` is then a stand-in that tells what can be read. A
    /// relay never sends it: it parks it as [`ParkedState::Failed`], and again if it is told to retry
    /// before somebody has repaired the row.
    pub unreadable: Option<Box<str>>,
}

impl Placed {
    /// The type of aggregate in a stand-in whose row has none that an event can have. Nobody can say
    /// which destinations it is for: it goes to all.
    pub const UNREADABLE: &'static str = "unreadable";

    /// Says whether the type of its aggregate, by which destinations are chosen, cannot be told.
    #[must_use]
    pub fn is_of_no_kind(&self) -> bool {
        self.unreadable.is_some() && self.event.lane.kind() == Self::UNREADABLE
    }
}

/// A row to be parked.
#[derive(Clone, Debug, PartialEq)]
pub struct Park {
    /// The event, of which a copy is kept.
    pub placed: Placed,
    /// [`ParkedState::Behind`] or [`ParkedState::Failed`].
    pub state: ParkedState,
    /// How often it was refused.
    pub attempts: u32,
    /// Why, at most [`Park::WHY_MAX`] bytes; empty for what waits behind another.
    pub why: Box<str>,
}

impl Park {
    /// The largest reason, in bytes.
    pub const WHY_MAX: usize = 1_000;
}

/// What a parked row waits for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ParkedState {
    /// For the rows before it in its lane; it is sent when it is the first, or right behind the first.
    Behind,
    /// For an operator's word.
    Failed,
    /// To be sent again, as an operator said; with it the lane goes on.
    Retry,
    /// To be left out, as an operator said; the lane goes on behind it.
    Skip,
    /// To be left out with all that is parked behind it by then, as an operator said.
    Drop,
}

impl ParkedState {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Behind, Self::Failed, Self::Retry, Self::Skip, Self::Drop];

    /// Returns the word for this state.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Behind => "behind",
            Self::Failed => "failed",
            Self::Retry => "retry",
            Self::Skip => "skip",
            Self::Drop => "drop",
        }
    }

    /// Returns the state that a word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// A parked row.
#[derive(Clone, Debug, PartialEq)]
pub struct Parked {
    /// Its place in the order of its lane: rows are parked in the order in which they would leave.
    pub seq: u64,
    /// Of which destination.
    pub destination: Destination,
    /// The event and where it lay.
    pub placed: Placed,
    /// What it waits for.
    pub state: ParkedState,
    /// How often it was refused.
    pub attempts: u32,
    /// Why it was parked, or last refused.
    pub why: Box<str>,
    /// When it was parked, in the store's time.
    pub parked_at: Timestamp,
}

/// What a parked lane sends next: its head, and what may leave right behind it, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Due {
    /// The rows; the first is the head of the lane.
    pub rows: Vec<Parked>,
    /// Whether nothing is parked behind them in their lane.
    pub whole: bool,
}

impl Due {
    /// The largest number of rows of one lane in one answer.
    pub const ROWS_MAX: usize = 256;

    /// Returns how many rows each of so many lanes has at most, of `limit` in all.
    #[must_use]
    pub fn share(limit: usize, lanes: usize) -> usize {
        (limit / lanes.max(1)).clamp(1, Self::ROWS_MAX)
    }

    /// Puts a row behind the others if it may leave right behind them; says whether it may.
    pub fn push(&mut self, row: Parked) -> bool {
        let goes = |head: &Parked| {
            let sent = matches!(head.state, ParkedState::Behind | ParkedState::Retry);
            sent && row.state == ParkedState::Behind
        };
        let goes = self.rows.first().is_none_or(goes);
        if goes {
            self.rows.push(row);
        }
        goes
    }
}

/// What became of a parked row.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Unpark {
    /// It was refused again: it waits for an operator once more.
    Failed {
        /// Which row.
        seq: u64,
        /// How often it was refused by now.
        attempts: u32,
        /// Why, at most [`Park::WHY_MAX`] bytes.
        why: Box<str>,
    },
    /// It was left out: the row goes, and so do all parked rows of its lane if it was to be dropped. That
    /// their events were left out is kept for as long as they are.
    LeftOut {
        /// Which row.
        seq: u64,
    },
    /// It was confirmed, or is none that the destination gets, which counts as much: the row goes.
    Sent {
        /// Which row.
        seq: u64,
    },
}

/// What a leader has done since it last settled: written in one transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Settle {
    /// By whom.
    pub destination: Destination,
    /// By which leadership.
    pub epoch: Epoch,
    /// The pass and the position up to which every event is confirmed or parked; `None` if only
    /// parked rows changed.
    pub upto: Option<(Pass, Pos)>,
    /// Whether this ends the pass: everything of it is confirmed or parked.
    pub ends: bool,
    /// Rows to park, in the order in which they would leave.
    pub park: Vec<Park>,
    /// What became of parked rows.
    pub unpark: Vec<Unpark>,
}

/// The answer to a settlement, and to a renewal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Settled {
    /// Another leads by now, or the pass is another: nothing was written.
    Stale,
    /// It is written.
    Stored,
}

/// What a relay needs of a store.
///
/// # Errors
///
/// Every verb fails with a [`StoreError`] whose kind says what the caller does next. A store that can
/// only be read, such as a standby, is refused with kind `ReadOnly` and never read from: what it shows
/// as committed may be incomplete.
///
/// # Cancel safety
///
/// A verb whose future is dropped may or may not have happened. The caller leads anew, or asks again.
#[async_trait]
pub trait OutboxStore: fmt::Debug + Send + Sync + 'static {
    /// Takes the leadership of a destination if nobody holds it, or its lease is over.
    async fn lead(&self, ask: Lead) -> Result<Led, StoreError>;

    /// Renews a leadership, if it is still the current one, even if its lease is over.
    async fn renew(&self, leader: Leader, lease: Duration) -> Result<Settled, StoreError>;

    /// Gives a leadership up, so that another need not wait for its lease.
    async fn resign(&self, leader: Leader) -> Result<Settled, StoreError>;

    /// Reads the current pass of a destination behind `after` (`None`: behind what is settled), and
    /// opens the next pass if none is open. Returns at most `limit` events and about `bytes_max`
    /// bytes of them, at least one if there is one. A stale leader may read; it is told
    /// [`Settled::Stale`] by [`OutboxStore::settle`].
    async fn read(
        &self,
        leader: Leader,
        after: Option<(Pass, Pos)>,
        limit: usize,
        bytes_max: usize,
    ) -> Result<Window, StoreError>;

    /// Writes what a leader has done.
    async fn settle(&self, settle: Settle) -> Result<Settled, StoreError>;

    /// Lists the lanes of a destination that have parked rows, behind `after` in the order of lanes,
    /// at most [`READ_MAX`].
    async fn parked_lanes(
        &self,
        destination: Destination,
        after: Option<Lane>,
    ) -> Result<Vec<Lane>, StoreError>;

    /// Lists what parked lanes send next, the lane with the oldest head first. Of a lane whose head is
    /// not `Failed` that is the head; and if that is to be sent, being `Behind` or `Retry`, the rows
    /// right behind it that are `Behind`. At most `limit` rows, of which each lane has an equal
    /// [`Due::share`], and about `bytes_max` bytes of them, at least one row if there is one.
    async fn due(
        &self,
        destination: Destination,
        limit: usize,
        bytes_max: usize,
    ) -> Result<Vec<Due>, StoreError>;
}

/// Tells that something may have been appended; polling finds what a hint does not tell.
#[async_trait]
pub trait OutboxHints: Send + Sync + 'static {
    /// Waits for the next hint, at most `wait`; says whether one came.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] when hints cannot be had for now.
    ///
    /// # Cancel safety
    ///
    /// A hint may be lost.
    async fn hinted(&self, wait: Duration) -> Result<bool, StoreError>;
}

/// What one round of retention did.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Retained {
    /// How many events, or how many partitions of them, were dropped.
    pub dropped: u64,
    /// Whether more may be dropped now.
    pub more: bool,
    /// What keeps old events from being dropped, as one lower-case sentence for people: a destination
    /// that lags, a transaction that holds the lock.
    pub held_up: Option<Box<str>>,
}

/// Drops events that every destination has, and makes room for new ones.
#[async_trait]
pub trait OutboxRetain: Send + Sync + 'static {
    /// Does one bounded step: drops what was appended more than `keep_for` ago and which every
    /// destination has confirmed or parked. It waits for nobody longer than 100 ms.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    async fn retain(&self, keep_for: Duration) -> Result<Retained, StoreError>;
}

/// A destination as an operator sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DestinationState {
    /// Its name.
    pub destination: Destination,
    /// The leader and the end of its lease, if anybody leads.
    pub leader: Option<(Box<str>, Timestamp)>,
    /// The current epoch.
    pub epoch: Epoch,
    /// The generation of the table.
    pub generation: u32,
    /// When the oldest event was appended that is committed and neither confirmed nor parked here.
    pub oldest: Option<Timestamp>,
    /// How many such events there are; counted up to [`DestinationState::WAITING_MAX`].
    pub waiting: u64,
    /// How many rows are parked.
    pub parked: u64,
    /// How many lanes have parked rows.
    pub parked_lanes: u64,
    /// When the oldest parked row was parked.
    pub oldest_parked: Option<Timestamp>,
    /// When the oldest event was appended that is parked and waits only to be sent: neither it nor
    /// what is before it in its lane waits for an operator.
    pub oldest_aside: Option<Timestamp>,
    /// How many lanes wait for an operator.
    pub failed_lanes: u64,
    /// When the oldest event was appended that waits for an operator itself.
    pub oldest_failed: Option<Timestamp>,
    /// The store's time.
    pub now: Timestamp,
}

impl DestinationState {
    /// Up to how many waiting events are counted.
    pub const WAITING_MAX: u32 = 10_000;

    /// Returns when the oldest event was appended that the destination lacks and that waits for no
    /// operator, whether it is parked or not.
    #[must_use]
    pub fn oldest_lacked(&self) -> Option<Timestamp> {
        [self.oldest, self.oldest_aside].into_iter().flatten().min()
    }

    /// Returns how old that event is; nothing if there is none.
    #[must_use]
    pub fn lag(&self) -> Duration {
        self.oldest_lacked().map_or(Duration::ZERO, |oldest| self.now.since(oldest))
    }
}
