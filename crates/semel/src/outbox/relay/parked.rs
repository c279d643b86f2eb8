//! Which lanes are parked, as far as this leadership knows, and which parked rows are in hand.
//!
//! A lane is taken to be parked rather too long than too short: what is parked without need is sent on
//! from there, what is sent past a parked event would be out of order.

use std::collections::{BTreeMap, HashMap, HashSet, hash_map::Entry};

use super::super::{
    event::{EventId, Lane},
    store::READ_MAX,
};
use crate::clock::Timestamp;

/// How many events that were confirmed while they were being parked are kept in mind. A copy of what is
/// forgotten is sent once more.
const CONFIRMED_MAX: usize = 10_000;

/// Lanes with parked rows.
#[derive(Debug, Default)]
pub(super) struct ParkedLanes {
    lanes: HashMap<Lane, Kept>,
    /// How many settlements were stored.
    stored: u64,
    /// Whether all lanes that were parked when the leadership began are known.
    pub(super) known: bool,
    listing: Option<Listing>,
    /// Whether a row has gone since lanes were last listed.
    changed: bool,
    /// Rows in hand by their place, until what became of them is stored, and since when they are
    /// parked.
    pub(super) in_hand: BTreeMap<u64, Timestamp>,
    /// Events that were confirmed although they were parked meanwhile.
    confirmed: HashSet<EventId>,
}

#[derive(Debug, Default)]
struct Kept {
    /// How many rows are to be parked and not stored yet.
    pending: u64,
    /// After how many settlements a row was last known to be there.
    seen: u64,
}

/// What a page of a listing came to.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Listed {
    /// It was the last one; these lanes were not known to be parked.
    All(Vec<Lane>),
    /// Another page may follow.
    More,
}

/// The lanes told so far by a listing that goes on.
#[derive(Debug)]
struct Listing {
    began: u64,
    lanes: Vec<Lane>,
}

impl ParkedLanes {
    pub(super) fn len(&self) -> usize {
        self.lanes.len()
    }

    pub(super) fn contains(&self, lane: &Lane) -> bool {
        !self.lanes.is_empty() && self.lanes.contains_key(lane)
    }

    /// A row of a lane is to be parked.
    pub(super) fn parks(&mut self, lane: &Lane) {
        self.lanes.entry(lane.clone()).or_default().pending += 1;
    }

    /// A row of a lane was seen in the store.
    pub(super) fn saw(&mut self, lane: &Lane) {
        let stored = self.stored;
        self.lanes.entry(lane.clone()).or_default().seen = stored;
    }

    /// A settlement was stored: rows of these lanes are parked, rows of these places have gone or wait
    /// for an operator.
    pub(super) fn stored<'a>(
        &mut self,
        parked: impl Iterator<Item = &'a Lane>,
        unparked: impl Iterator<Item = u64>,
    ) {
        self.stored += 1;
        for lane in parked {
            if let Some(kept) = self.lanes.get_mut(lane) {
                kept.pending = kept.pending.saturating_sub(1);
                kept.seen = self.stored;
            }
        }
        for seq in unparked {
            self.in_hand.remove(&seq);
            self.changed = true;
        }
    }

    /// Says whether lanes are to be listed: at first, and when some may have become empty.
    pub(super) fn wants_listing(&self) -> bool {
        self.listing.is_none() && (!self.known || (self.changed && !self.lanes.is_empty()))
    }

    /// Returns behind which lane to list on.
    pub(super) fn list(&mut self) -> Option<Lane> {
        let began = self.stored;
        let listing = self.listing.get_or_insert_with(|| Listing { began, lanes: Vec::new() });
        self.changed = false;
        listing.lanes.last().cloned()
    }

    /// Takes a page of lanes. Past `max` lanes it stops.
    pub(super) fn listed(&mut self, page: Vec<Lane>, max: usize) -> Listed {
        let Some(listing) = self.listing.as_mut() else {
            return Listed::All(Vec::new());
        };
        let more = page.len() >= READ_MAX && listing.lanes.len() <= max;
        listing.lanes.extend(page);
        if more {
            return Listed::More;
        }
        let Some(Listing { began, lanes }) = self.listing.take() else {
            return Listed::All(Vec::new());
        };
        let told: HashSet<&Lane> = lanes.iter().collect();
        self.lanes
            .retain(|lane, kept| kept.pending > 0 || kept.seen > began || told.contains(lane));
        let mut new = Vec::new();
        for lane in lanes {
            if let Entry::Vacant(vacant) = self.lanes.entry(lane) {
                new.push(vacant.key().clone());
                vacant.insert(Kept { pending: 0, seen: began });
            }
        }
        self.known = true;
        Listed::All(new)
    }

    /// A listing failed; it begins anew.
    pub(super) fn unlisted(&mut self) {
        self.listing = None;
        self.changed = true;
    }

    /// An event was confirmed although it was parked meanwhile.
    pub(super) fn confirmed_aside(&mut self, id: EventId) {
        if self.confirmed.len() < CONFIRMED_MAX {
            self.confirmed.insert(id);
        }
    }

    /// Says whether an event was confirmed whose parked row is still to go.
    pub(super) fn owes(&self) -> bool {
        !self.confirmed.is_empty()
    }

    /// Forgets what was confirmed: the rows are sent once more.
    pub(super) fn forgive(&mut self) {
        self.confirmed.clear();
    }

    /// When the row in hand was parked that was parked first.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        self.in_hand.values().next().copied()
    }

    /// Says, once, whether a parked event was confirmed already.
    pub(super) fn is_confirmed(&mut self, id: EventId) -> bool {
        self.confirmed.remove(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(id: &str) -> Lane {
        Lane::new("order", id).unwrap()
    }

    #[test]
    fn a_lane_stays_parked_while_a_row_may_be_there() {
        let mut parked = ParkedLanes::default();
        assert!(parked.wants_listing());
        assert_eq!(parked.list(), None);
        // Parked after the listing began: the listing cannot know it.
        parked.parks(&lane("a"));
        parked.stored([lane("a")].iter(), std::iter::empty());
        assert_eq!(parked.listed(vec![lane("b")], 10), Listed::All(vec![lane("b")]));
        assert!(parked.contains(&lane("a")) && parked.contains(&lane("b")));
        parked.in_hand.insert(7, Timestamp::default());
        parked.stored(std::iter::empty(), [7].into_iter());
        assert!(parked.wants_listing());
        parked.list();
        parked.listed(vec![lane("a")], 10);
        assert!(parked.contains(&lane("a")) && !parked.contains(&lane("b")));
        assert!(!parked.wants_listing());
    }
}
