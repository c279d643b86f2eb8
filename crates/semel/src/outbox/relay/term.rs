//! One leadership of a destination, and all that is in hand under it.

use std::time::Duration;

use super::{
    super::store::{Leader, Pass, Pos, Settle, Unpark},
    aside::Aside,
    lanes::Lanes,
    ledger::Ledger,
    paced::Paced,
    parked::ParkedLanes,
    policy::RelayPolicy,
    versions::Versions,
};
use crate::clock::{Monotonic, Timestamp};

/// A leadership. What it holds is forgotten with it: the store knows the rest.
#[derive(Debug)]
pub(super) struct Term {
    /// Which of this process.
    pub(super) nth: u64,
    pub(super) leader: Leader,
    /// From then on nothing is sent unless it was renewed: what is sent before has arrived, or never
    /// will, when another may lead.
    pub(super) sends_until: Monotonic,
    pub(super) renewal: Paced,
    pub(super) reader: Reader,
    pub(super) ledger: Ledger,
    pub(super) lanes: Lanes,
    pub(super) parked: ParkedLanes,
    pub(super) aside: Aside,
    pub(super) due: Paced,
    pub(super) listing: Paced,
    pub(super) settler: Settler,
    pub(super) versions: Versions,
    /// Until when nothing is read, so that parked lanes that are nearly back catch up; and from when on
    /// that may be so again.
    pub(super) catches_up: (Monotonic, Monotonic),
    /// When stuck lanes are looked at again.
    pub(super) stuck_at: Monotonic,
    /// The store's time, and when it was told.
    pub(super) store_time: Option<(Timestamp, Monotonic)>,
    /// Another leads: everything in hand is void.
    pub(super) lost: bool,
}

/// How far the current pass is read.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) ask: Paced,
    /// The pass, and up to where it is read.
    pub(super) upto: Option<(Pass, Pos)>,
    /// The pass was read to its end.
    pub(super) ended: bool,
    /// Something was hinted at while it asked: what it hears may be older.
    pub(super) again: bool,
    /// How often in a row there was nothing to read.
    pub(super) idle: u32,
}

/// What is being settled, and what is to be.
#[derive(Debug)]
pub(super) struct Settler {
    pub(super) ask: Paced,
    /// A settlement that is not known to be stored: the very same is asked until the store says.
    pub(super) current: Option<Settle>,
    pub(super) last: Monotonic,
    pub(super) unpark: Vec<Unpark>,
}

impl Term {
    pub(super) fn new(
        nth: u64,
        leader: Leader,
        (asked, now): (Monotonic, Monotonic),
        (lease, publish_wait): (Duration, Duration),
        policy: &RelayPolicy,
    ) -> Self {
        Self {
            nth,
            leader,
            sends_until: Self::sends_until(asked, lease, publish_wait),
            renewal: Paced::new(asked.after(lease / 3)),
            reader: Reader::new(now),
            ledger: Ledger::default(),
            lanes: Lanes::default(),
            parked: ParkedLanes::default(),
            aside: Aside::default(),
            due: Paced::new(now),
            listing: Paced::new(now),
            settler: Settler::new(now),
            versions: Versions::new(policy.versions_max),
            catches_up: (now, now),
            stuck_at: now,
            store_time: None,
            lost: false,
        }
    }

    /// Until when something may be sent under a lease that was asked for at an instant.
    pub(super) fn sends_until(
        asked: Monotonic,
        lease: Duration,
        publish_wait: Duration,
    ) -> Monotonic {
        asked.after(lease.saturating_sub(publish_wait))
    }

    /// Says whether there is room for another window.
    pub(super) fn has_room(&self, policy: &RelayPolicy) -> bool {
        self.ledger.len() <= policy.events_max / 2 && self.ledger.bytes() <= policy.bytes_max / 2
    }

    /// When the oldest event was appended that this leadership knows to wait, and for no operator.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        // That an event is parked aside, and no longer in the table, cures nothing.
        let aside = if self.parked.len() == 0 { None } else { self.aside.oldest() };
        [self.ledger.oldest(), aside].into_iter().flatten().min()
    }

    /// What the store's time is at an instant, as far as anybody can tell.
    pub(super) fn store_time_at(&self, now: Monotonic) -> Option<Timestamp> {
        self.store_time.map(|(time, told)| time.after(now.since(told)))
    }
}

impl Reader {
    const fn new(now: Monotonic) -> Self {
        Self { ask: Paced::new(now), upto: None, ended: false, again: false, idle: 0 }
    }

    /// The pass is closed: the next one is read at once.
    pub(super) fn closed(&mut self, now: Monotonic) {
        let asking = self.ask.asking;
        *self = Self::new(now);
        self.ask.asking = asking;
    }
}

impl Settler {
    const fn new(now: Monotonic) -> Self {
        Self { ask: Paced::new(now), current: None, last: now, unpark: Vec::new() }
    }
}
