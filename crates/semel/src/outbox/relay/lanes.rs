//! Lanes: the events of one aggregate in order, those of others beside them.
//!
//! A lane has at most one batch on its way. A lane whose head was not confirmed is shut: it waits, and
//! then only the head is sent again, until it is confirmed or the lane is parked.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    time::Duration,
};

use super::super::{
    event::Lane,
    store::{ParkedState, Placed},
};
use crate::clock::{Monotonic, Timestamp};

/// Where an event in hand came from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Origin {
    /// It was parked while it was on its way: whoever reads it from there sends it on.
    Aside,
    /// From the table, with its number in the ledger.
    Cursor(u64),
    /// From a parked row.
    Parked { seq: u64, state: ParkedState },
}

/// An event in hand.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) placed: Placed,
    pub(super) origin: Origin,
    /// How often it was refused for its own sake, and since when.
    pub(super) attempts: u32,
    pub(super) failing_since: Option<Monotonic>,
    /// Since when it was refused before this leadership, in the store's time.
    pub(super) refused_at: Option<Timestamp>,
    /// How many copies may have arrived.
    pub(super) copies: u32,
    /// Whether it was sent before.
    pub(super) sent: bool,
}

impl Item {
    pub(super) const fn new(placed: Placed, origin: Origin) -> Self {
        let (failing_since, refused_at) = (None, None);
        Self { placed, origin, attempts: 0, failing_since, refused_at, copies: 0, sent: false }
    }

    pub(super) const fn is_parked(&self) -> bool {
        matches!(self.origin, Origin::Parked { .. })
    }
}

/// The number of a lane while it has something in hand.
pub(super) type Nth = usize;

/// Why a lane is shut.
#[derive(Clone, Debug)]
pub(super) struct Shut {
    /// Since when.
    pub(super) since: Monotonic,
    /// How often its head failed in a row, for whatever reason.
    pub(super) troubles: u32,
    /// How much the destination had confirmed when it was shut.
    pub(super) confirmed: u64,
    /// Why its head last failed.
    pub(super) why: Box<str>,
    /// Whether the destination refused its head for the message's own sake.
    refused: bool,
    until: Monotonic,
}

type Queue = VecDeque<Item>;

#[derive(Debug)]
struct State {
    lane: Lane,
    queue: Queue,
    /// Since when a batch is on its way, and how much was confirmed by then.
    flying: Option<(Monotonic, u64)>,
    /// Whether something of that batch was parked meanwhile.
    aside: bool,
    shut: Option<Shut>,
    /// Whether it stands in the queue of lanes.
    ready: bool,
    /// Whether it has parked rows: then it holds nobody up.
    parked: bool,
}

impl State {
    /// Its batch is back; says since when it was on its way, and how much was confirmed by then.
    fn landed(&mut self) -> Option<(Monotonic, u64)> {
        self.aside = false;
        self.flying.take()
    }
}

/// A lane that is stuck.
#[derive(Debug)]
pub(super) struct Stuck {
    pub(super) nth: Nth,
    pub(super) troubles: u32,
    /// Whether the destination refused its head for the message's own sake.
    pub(super) refused: bool,
    /// How much the destination had confirmed when it got stuck.
    pub(super) confirmed: u64,
    pub(super) long: bool,
}

/// All lanes of one destination that have something in hand.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    by_name: HashMap<Lane, Nth>,
    slots: Vec<Option<State>>,
    free: Vec<Nth>,
    ready: VecDeque<Nth>,
    timers: BTreeSet<(Monotonic, Nth)>,
}

impl Lanes {
    /// Puts an event at the end of its lane.
    pub(super) fn push(&mut self, item: Item) {
        let nth = match self.by_name.get(&item.placed.event.lane) {
            Some(nth) => *nth,
            None => self.enter(item.placed.event.lane.clone()),
        };
        if let Some(state) = self.slots[nth].as_mut() {
            state.parked = !matches!(item.origin, Origin::Cursor(_));
            state.queue.push_back(item);
        }
        self.make_ready(nth);
    }

    /// Finds the lane of an aggregate that has something in hand.
    pub(super) fn find(&self, lane: &Lane) -> Option<Nth> {
        self.by_name.get(lane).copied()
    }

    pub(super) fn shut(&self, nth: Nth) -> Option<&Shut> {
        self.state(nth)?.shut.as_ref()
    }

    /// Returns what a lane sends next.
    pub(super) fn head(&self, nth: Nth) -> Option<&Item> {
        self.state(nth)?.queue.front()
    }

    /// Returns since when something of a lane is on its way, if something is.
    pub(super) fn flying_since(&self, nth: Nth) -> Option<Monotonic> {
        self.state(nth)?.flying.map(|(since, _)| since)
    }

    /// Says whether something of a lane is on its way that was parked meanwhile.
    pub(super) fn is_aside(&self, nth: Nth) -> bool {
        self.state(nth).is_some_and(|state| state.aside)
    }

    /// Says whether a lane takes nothing from its parked rows now: something of it is on its way, parked
    /// meanwhile, or it is shut.
    pub(super) fn is_kept(&self, nth: Nth) -> bool {
        self.is_aside(nth) || self.shut(nth).is_some()
    }

    /// Says whether a lane waits to be sent.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When the next shut lane is to be tried again.
    pub(super) fn wakes(&self) -> Option<Monotonic> {
        self.timers.first().map(|(until, _)| *until)
    }

    /// Makes those lanes ready that waited until now.
    pub(super) fn expire(&mut self, now: Monotonic) {
        while let Some((until, nth)) = self.timers.first().copied() {
            if now < until {
                return;
            }
            self.timers.pop_first();
            self.make_ready(nth);
        }
    }

    /// Takes a batch of at most `max` items out of ready lanes, each with its lane; several of one
    /// lane only if `pipelined`, and then side by side. A head that does not `fit` is never sent: its
    /// lane is put into `misfits`, and out of the queue of lanes.
    pub(super) fn take(
        &mut self,
        max: usize,
        pipelined: bool,
        fits: impl Fn(&Item) -> bool,
        misfits: &mut Vec<Nth>,
        (now, confirmed): (Monotonic, u64),
    ) -> Vec<(Nth, Item)> {
        let mut batch = Vec::with_capacity(max.min(64));
        while batch.len() < max {
            let Some(nth) = self.ready.pop_front() else {
                break;
            };
            let Some(state) = self.slots[nth].as_mut() else {
                continue;
            };
            state.ready = false;
            let one = !pipelined || state.shut.is_some();
            let most = if one { 1 } else { max - batch.len() };
            let mut taken = 0;
            while taken < most && state.queue.front().is_some_and(&fits) {
                batch.extend(state.queue.pop_front().map(|item| (nth, item)));
                taken += 1;
            }
            if taken == 0 {
                misfits.push(nth);
            } else {
                state.flying = Some((now, confirmed));
            }
        }
        batch
    }

    /// Every item of a lane's batch was confirmed, and it opens.
    pub(super) fn confirmed(&mut self, nth: Nth) {
        if let Some(state) = self.slots[nth].as_mut() {
            state.landed();
            state.shut = None;
        }
        self.make_ready(nth);
    }

    /// Items of a lane's batch come back, and nothing is known against them.
    pub(super) fn put_back(&mut self, nth: Nth, back: Vec<Item>) {
        if let Some(state) = self.slots[nth].as_mut() {
            state.landed();
            back.into_iter().rev().for_each(|item| state.queue.push_front(item));
        }
        self.make_ready(nth);
    }

    /// Items of a lane's batch come back: the first has failed, and the lane is shut until an instant.
    pub(super) fn failed(
        &mut self,
        nth: Nth,
        back: Vec<Item>,
        why: Box<str>,
        opened: bool,
        now: Monotonic,
        wait: impl FnOnce(u32) -> Duration,
    ) {
        let Some(state) = self.slots[nth].as_mut() else {
            return;
        };
        let refused = back.first().is_some_and(|head| head.attempts > 0);
        back.into_iter().rev().for_each(|item| state.queue.push_front(item));
        let flew = state.landed().unwrap_or((now, 0));
        let before = state.shut.take().filter(|_| !opened);
        let troubles = before.as_ref().map_or(0, |shut| shut.troubles).saturating_add(1);
        let (since, confirmed) = before.map_or(flew, |shut| (shut.since, shut.confirmed));
        let until = now.after(wait(troubles));
        state.shut = Some(Shut { since, troubles, confirmed, why, refused, until });
        self.timers.insert((until, nth));
    }

    /// Takes everything that waits out of a lane whose head failed for good.
    pub(super) fn drain(&mut self, nth: Nth) -> Vec<Item> {
        self.take_from(nth, |_| 0)
    }

    /// Takes out of a lane that is parked what waits in it and is not parked itself; `aside` if some of
    /// what is on its way was parked, too.
    pub(super) fn drain_unparked(&mut self, nth: Nth, aside: bool) -> Vec<Item> {
        if let Some(state) = self.slots[nth].as_mut() {
            state.aside |= aside;
        }
        self.take_from(nth, |queue| queue.partition_point(Item::is_parked))
    }

    /// Takes out of a lane that is shut the parked items behind its head, if it has no others.
    pub(super) fn trim(&mut self, nth: Nth) -> Vec<Item> {
        let parked = self.state(nth).is_some_and(|state| {
            state.shut.is_some()
                && state.flying.is_none()
                && state.queue.iter().all(Item::is_parked)
        });
        if parked { self.take_from(nth, |queue| queue.len().min(1)) } else { Vec::new() }
    }

    fn take_from(&mut self, nth: Nth, at: impl FnOnce(&mut Queue) -> usize) -> Vec<Item> {
        let Some(state) = self.slots[nth].as_mut() else {
            return Vec::new();
        };
        let from = at(&mut state.queue);
        let items = state.queue.split_off(from).into();
        state.parked = true;
        if state.queue.is_empty()
            && state.flying.is_none()
            && let Some(shut) = state.shut.take()
        {
            self.timers.remove(&(shut.until, nth));
        }
        self.leave_if_empty(nth);
        items
    }

    /// Lists lanes that are shut or whose batch is on its way, and counts those that are neither.
    /// Lanes with parked rows hold nobody up and are not among them.
    pub(super) fn stuck(&self, now: Monotonic, long: Duration) -> (Vec<Stuck>, usize) {
        let lanes = self.slots.iter().enumerate();
        let mut others = 0;
        let stuck = lanes.filter_map(|(nth, state)| {
            let state = state.as_ref().filter(|state| !state.parked)?;
            others += usize::from(state.shut.is_none() && state.flying.is_none());
            let shut = state.shut.as_ref();
            let (since, confirmed) =
                shut.map(|shut| (shut.since, shut.confirmed)).or(state.flying)?;
            let troubles = shut.map_or(0, |shut| shut.troubles);
            let refused = shut.is_some_and(|shut| shut.refused);
            Some(Stuck { nth, troubles, refused, confirmed, long: now.since(since) >= long })
        });
        (stuck.collect(), others)
    }

    fn state(&self, nth: Nth) -> Option<&State> {
        self.slots.get(nth)?.as_ref()
    }

    fn enter(&mut self, lane: Lane) -> Nth {
        let nth = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[nth] = Some(State {
            lane: lane.clone(),
            queue: VecDeque::new(),
            flying: None,
            aside: false,
            shut: None,
            ready: false,
            parked: false,
        });
        self.by_name.insert(lane, nth);
        nth
    }

    /// Lets a lane into the queue of lanes if it has something to send and nothing keeps it.
    fn make_ready(&mut self, nth: Nth) {
        let timers = &self.timers;
        let Some(state) = self.slots[nth].as_mut() else {
            return;
        };
        let waits = state.shut.as_ref().is_some_and(|shut| timers.contains(&(shut.until, nth)));
        if state.flying.is_some() || state.ready || waits {
            return;
        }
        if state.queue.is_empty() {
            self.leave_if_empty(nth);
            return;
        }
        state.ready = true;
        self.ready.push_back(nth);
    }

    fn leave_if_empty(&mut self, nth: Nth) {
        let empty = |state: &State| state.queue.is_empty() && state.flying.is_none();
        if self.state(nth).is_some_and(empty)
            && let Some(state) = self.slots[nth].take()
        {
            self.by_name.remove(&state.lane);
            if state.ready {
                self.ready.retain(|ready| *ready != nth);
            }
            self.free.push(nth);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        clock::Timestamp,
        outbox::{Event, EventId, Pos},
    };

    fn item(lane: &str, nth: u64) -> Item {
        let id = EventId::from_bytes([u8::try_from(nth).unwrap(); 16]);
        let event = Event::new(id, Lane::new("order", lane).unwrap(), "Placed", None).unwrap();
        let placed = Placed {
            pos: Pos(nth),
            at: Timestamp::default(),
            event: Arc::new(event),
            unreadable: None,
        };
        Item::new(placed, Origin::Cursor(nth))
    }

    fn taken(lanes: &mut Lanes, max: usize, pipelined: bool, now: Monotonic) -> Vec<(Nth, Item)> {
        lanes.take(max, pipelined, |_| true, &mut Vec::new(), (now, 0))
    }

    fn positions(batch: &[(Nth, Item)]) -> Vec<u64> {
        batch.iter().map(|(_, item)| item.placed.pos.0).collect()
    }

    #[test]
    fn a_lane_has_one_batch_on_its_way_and_others_go_beside_it() {
        let now = Monotonic::default();
        for (pipelined, first) in [(false, vec![1, 3]), (true, vec![1, 2, 3])] {
            let mut lanes = Lanes::default();
            for (lane, nth) in [("a", 1), ("a", 2), ("b", 3)] {
                lanes.push(item(lane, nth));
            }
            let batch = taken(&mut lanes, 10, pipelined, now);
            assert_eq!(positions(&batch), first);
            lanes.push(item("a", 4));
            assert!(taken(&mut lanes, 10, pipelined, now).is_empty());
            lanes.confirmed(batch[0].0);
            let next = if pipelined { vec![4] } else { vec![2] };
            assert_eq!(positions(&taken(&mut lanes, 10, pipelined, now)), next);
        }
    }

    #[test]
    fn a_shut_lane_waits_and_then_sends_its_head_alone() {
        let now = Monotonic::default();
        let mut lanes = Lanes::default();
        [1, 2, 3].into_iter().for_each(|nth| lanes.push(item("a", nth)));
        let batch = taken(&mut lanes, 2, true, now);
        let (nth, wait) = (batch[0].0, Duration::from_secs(1));
        let back = batch.into_iter().map(|(_, item)| item).collect();
        lanes.failed(nth, back, "away".into(), false, now, |_| wait);
        lanes.expire(now);
        assert!(taken(&mut lanes, 9, true, now).is_empty());
        let later = lanes.wakes().unwrap();
        assert_eq!(later, now.after(wait));
        lanes.expire(later);
        assert_eq!(positions(&taken(&mut lanes, 9, true, later)), [1]);
        lanes.confirmed(nth);
        assert_eq!(positions(&taken(&mut lanes, 9, true, later)), [2, 3]);
        lanes.confirmed(nth);
        assert_eq!(lanes.find(&Lane::new("order", "a").unwrap()), None);
    }
}
