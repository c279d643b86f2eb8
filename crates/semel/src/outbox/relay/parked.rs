//! Which lanes are parked, as far as this leadership knows, and which parked rows are in hand.
//!
//! A lane is taken to be parked rather too long than too short: what is parked without need is sent on
//! from there, what is sent past a parked event would be out of order. Once all that is parked of a
//! lane is in hand, what comes later in it need not be parked any more: it stands behind that in hand,
//! and the lane is no longer parked when that has gone.

use std::collections::{BTreeMap, HashMap, HashSet, hash_map::Entry};

use super::super::{
    event::{EventId, Lane},
    store::{Parked, READ_MAX},
};

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
    /// Rows in hand by their place, until what became of them is stored.
    in_hand: BTreeMap<u64, InHand>,
    bytes: usize,
    /// Events that were confirmed although they were parked meanwhile.
    confirmed: HashSet<EventId>,
    /// After how many settlements it was last asked what is due, while that is not answered.
    asked: Option<u64>,
    /// Rows that have gone since then: an answer may still tell them.
    gone: HashSet<u64>,
    /// Lanes of which nothing more is taken, each since what became of a row was told, and after which
    /// settlement that was stored: what was asked for before does not know of it.
    halted: HashMap<Lane, (u64, Option<u64>)>,
}

#[derive(Debug, Default)]
struct Kept {
    /// How many rows are to be parked and not stored yet.
    pending: u64,
    /// After how many settlements a row was last parked.
    parked: u64,
    /// After how many settlements a row was last known to be there.
    seen: u64,
    /// How many rows are in hand, and how many there were when some were last taken.
    hand: usize,
    taken: usize,
    /// Whether all rows that are there are in hand.
    whole: bool,
}

/// A row in hand.
#[derive(Debug)]
struct InHand {
    lane: Lane,
    bytes: usize,
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
    /// Lanes that were no longer parked since it began.
    left: HashSet<Lane>,
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
        let kept = self.lanes.entry(lane.clone()).or_default();
        kept.pending += 1;
        kept.whole = false;
    }

    /// A row of a lane was seen in the store.
    pub(super) fn saw(&mut self, lane: &Lane) {
        let stored = self.stored;
        self.lanes.entry(lane.clone()).or_default().seen = stored;
    }

    /// A settlement was stored: rows of these lanes are parked, rows of these places have gone or wait
    /// for an operator. Says whether more may be due at once.
    pub(super) fn stored<'a>(
        &mut self,
        parked: impl Iterator<Item = &'a Lane>,
        unparked: impl Iterator<Item = u64>,
    ) -> bool {
        self.stored += 1;
        let mut more = false;
        for lane in parked {
            more = true;
            if let Some(kept) = self.lanes.get_mut(lane) {
                kept.pending = kept.pending.saturating_sub(1);
                (kept.parked, kept.seen) = (self.stored, self.stored);
            }
        }
        for seq in unparked {
            more |= self.has_gone(seq);
        }
        more
    }

    /// A row in hand has gone, or waits for an operator. Says whether more of its lane may be due.
    fn has_gone(&mut self, seq: u64) -> bool {
        let Some(row) = self.in_hand.remove(&seq) else {
            self.changed = true;
            return true;
        };
        self.bytes -= row.bytes;
        if self.asked.is_some() {
            self.gone.insert(seq);
        }
        if let Some((of, stored)) = self.halted.get_mut(&row.lane)
            && *of == seq
        {
            *stored = Some(self.stored);
        }
        let Some(kept) = self.lanes.get_mut(&row.lane) else {
            return true;
        };
        kept.hand -= 1;
        let more = kept.hand * 2 <= kept.taken && !kept.whole;
        self.leave(&row.lane);
        more
    }

    /// A lane is no longer parked if nothing of it is.
    fn leave(&mut self, lane: &Lane) {
        let Some(kept) = self.lanes.get(lane).filter(|kept| kept.hand == 0) else {
            return;
        };
        if kept.whole && kept.pending == 0 {
            self.lanes.remove(lane);
            if let Some(listing) = self.listing.as_mut() {
                listing.left.insert(lane.clone());
            }
        } else {
            self.changed = true;
        }
    }

    /// It is asked what is due.
    pub(super) fn asks(&mut self) {
        self.asked = Some(self.stored);
        self.gone.clear();
    }

    /// What is due is told, and was taken in hand.
    pub(super) fn answered(&mut self) {
        if let Some(asked) = self.asked.take() {
            self.halted.retain(|_, (_, stored)| stored.is_none_or(|stored| stored > asked));
        }
        self.gone.clear();
    }

    /// Says whether what is told to be due of a lane may be taken.
    pub(super) fn takes(&self, lane: &Lane) -> bool {
        let knows = |stored: u64| self.asked.is_some_and(|asked| stored <= asked);
        self.halted.get(lane).is_none_or(|(_, stored)| stored.is_some_and(knows))
    }

    /// Says whether a row that is told to be due is in hand, or has gone meanwhile.
    pub(super) fn knows(&self, seq: u64) -> bool {
        self.in_hand.contains_key(&seq) || self.gone.contains(&seq)
    }

    /// Takes a row in hand.
    pub(super) fn take(&mut self, row: &Parked) {
        let lane = row.placed.event.lane.clone();
        let kept = self.lanes.entry(lane.clone()).or_default();
        kept.hand += 1;
        kept.taken = kept.hand;
        let bytes = row.placed.event.size();
        self.bytes += bytes;
        self.in_hand.insert(row.seq, InHand { lane, bytes });
    }

    /// Puts a row back: it is taken in hand again when it is due.
    pub(super) fn put_back(&mut self, seq: u64) {
        let Some(row) = self.in_hand.remove(&seq) else {
            return;
        };
        self.bytes -= row.bytes;
        if let Some(kept) = self.lanes.get_mut(&row.lane) {
            kept.hand -= 1;
            kept.whole = false;
        }
    }

    /// Takes nothing more of a lane until what became of a row is stored.
    pub(super) fn halt(&mut self, lane: &Lane, seq: u64) {
        self.halted.insert(lane.clone(), (seq, None));
        if let Some(kept) = self.lanes.get_mut(lane) {
            kept.whole = false;
        }
    }

    /// All that was parked of a lane when it was last asked what is due is in hand.
    pub(super) fn has_all(&mut self, lane: &Lane) {
        let (asked, takes) = (self.asked, self.takes(lane));
        let Some(kept) = self.lanes.get_mut(lane) else {
            return;
        };
        let parked = kept.parked;
        kept.whole = takes && kept.pending == 0 && asked.is_some_and(|asked| parked <= asked);
        self.leave(lane);
    }

    /// Says whether all that is parked of a lane is in hand.
    pub(super) fn is_whole(&self, lane: &Lane) -> bool {
        self.lanes.get(lane).is_some_and(|kept| kept.whole)
    }

    /// How many rows are in hand, and about how many bytes.
    pub(super) fn in_hand(&self) -> (usize, usize) {
        (self.in_hand.len(), self.bytes)
    }

    /// Says whether lanes are to be listed: at first, and when some may have become empty.
    pub(super) fn wants_listing(&self) -> bool {
        self.listing.is_none() && (!self.known || (self.changed && !self.lanes.is_empty()))
    }

    /// Returns behind which lane to list on.
    pub(super) fn list(&mut self) -> Option<Lane> {
        let began = self.stored;
        let listing = self.listing.get_or_insert_with(|| Listing {
            began,
            lanes: Vec::new(),
            left: HashSet::new(),
        });
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
        let Some(Listing { began, lanes, left }) = self.listing.take() else {
            return Listed::All(Vec::new());
        };
        let told: HashSet<&Lane> = lanes.iter().collect();
        self.lanes.retain(|lane, kept| {
            kept.pending > 0 || kept.hand > 0 || kept.seen > began || told.contains(lane)
        });
        let mut new = Vec::new();
        for lane in lanes.into_iter().filter(|lane| !left.contains(lane)) {
            if let Entry::Vacant(vacant) = self.lanes.entry(lane) {
                new.push(vacant.key().clone());
                vacant.insert(Kept { seen: began, ..Kept::default() });
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

    /// Says, once, whether a parked event was confirmed already.
    pub(super) fn is_confirmed(&mut self, id: EventId) -> bool {
        self.confirmed.remove(&id)
    }
}

#[cfg(test)]
mod tests {
    use std::{iter, sync::Arc};

    use super::*;
    use crate::clock::Timestamp;
    use crate::outbox::{Destination, Event, ParkedState, Placed, Pos};

    fn lane(id: &str) -> Lane {
        Lane::new("order", id).unwrap()
    }

    fn row(seq: u64, id: &str) -> Parked {
        let event = Event::new(EventId::from_bytes([0; 16]), lane(id), "Placed", None).unwrap();
        let at = Timestamp::default();
        let placed = Placed { pos: Pos(seq), at, event: Arc::new(event), unreadable: None };
        Parked {
            seq,
            destination: Destination::new("bus").unwrap(),
            placed,
            state: ParkedState::Behind,
            attempts: 0,
            why: "".into(),
            parked_at: at,
        }
    }

    #[test]
    fn a_lane_stays_parked_while_a_row_may_be_there() {
        let mut parked = ParkedLanes::default();
        assert!(parked.wants_listing());
        assert_eq!(parked.list(), None);
        // Parked after the listing began: the listing cannot know it.
        parked.parks(&lane("a"));
        parked.stored([lane("a")].iter(), iter::empty());
        assert_eq!(parked.listed(vec![lane("b")], 10), Listed::All(vec![lane("b")]));
        assert!(parked.contains(&lane("a")) && parked.contains(&lane("b")));
        parked.take(&row(7, "b"));
        parked.stored(iter::empty(), [7].into_iter());
        assert!(parked.wants_listing());
        parked.list();
        parked.listed(vec![lane("a")], 10);
        assert!(parked.contains(&lane("a")) && !parked.contains(&lane("b")));
        assert!(!parked.wants_listing());
    }

    #[test]
    fn a_lane_is_no_longer_parked_when_all_of_it_was_in_hand_and_has_gone() {
        let mut parked = ParkedLanes::default();
        let a = lane("a");
        parked.parks(&a);
        parked.stored([a.clone()].iter(), iter::empty());
        parked.asks();
        parked.take(&row(1, "a"));
        parked.take(&row(2, "a"));
        parked.has_all(&a);
        parked.answered();
        assert!(parked.is_whole(&a));
        parked.stored(iter::empty(), [1].into_iter());
        assert!(parked.contains(&a));
        parked.list();
        parked.stored(iter::empty(), [2].into_iter());
        assert!(!parked.contains(&a));
        // A listing that began before still tells it.
        assert_eq!(parked.listed(vec![a.clone()], 10), Listed::All(vec![]));
        assert!(!parked.contains(&a));
    }

    #[test]
    fn what_is_told_too_late_takes_nothing_in_hand() {
        let mut parked = ParkedLanes::default();
        let a = lane("a");
        parked.saw(&a);
        parked.take(&row(1, "a"));
        parked.take(&row(2, "a"));
        parked.asks();
        // It waits for an operator from now on; an answer to what was asked before does not know.
        parked.halt(&a, 2);
        parked.stored(iter::empty(), [1].into_iter());
        assert!(parked.knows(1) && !parked.takes(&a));
        parked.stored(iter::empty(), [2].into_iter());
        assert!(!parked.takes(&a));
        parked.has_all(&a);
        assert!(parked.contains(&a) && !parked.is_whole(&a));
        parked.answered();
        parked.asks();
        assert!(parked.takes(&a) && !parked.knows(1));
        parked.answered();
        // Parked since it was asked: not all of it is in hand.
        parked.asks();
        parked.parks(&a);
        parked.has_all(&a);
        assert!(!parked.is_whole(&a));
        parked.stored([a.clone()].iter(), iter::empty());
        parked.has_all(&a);
        assert!(!parked.is_whole(&a) && parked.contains(&a));
    }
}
