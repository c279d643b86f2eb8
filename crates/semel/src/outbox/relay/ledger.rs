//! What of a pass is in hand, and up to where it may be settled.

use std::collections::VecDeque;

use super::super::store::{Park, ParkedState, Pos};
use crate::clock::Timestamp;

/// The events of the current pass that are not settled, in the order of their positions.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The number of the first slot; numbers only grow.
    first: u64,
    slots: VecDeque<Slot>,
    /// How many slots from the first on may be settled.
    ready: usize,
    /// How many slots are neither done nor parked.
    waiting: usize,
    /// Bytes of what is neither done nor settled as parked.
    bytes: usize,
    /// How many slots are to be parked.
    parking: usize,
    /// When the oldest of them was appended that waits for no operator; until none is to be parked.
    oldest_aside: Option<Timestamp>,
}

#[derive(Debug)]
struct Slot {
    pos: Pos,
    at: Timestamp,
    bytes: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    Done,
    Ends,
    Park(Box<Park>),
    Waiting,
}

/// What may be settled.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) upto: Option<Pos>,
    pub(super) ends: bool,
    pub(super) park: Vec<Park>,
}

impl Ledger {
    /// How many slots it has.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// How many slots may be settled.
    pub(super) const fn ready(&self) -> usize {
        self.ready
    }

    pub(super) const fn waiting(&self) -> usize {
        self.waiting
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Enters an event, and returns its number.
    pub(super) fn enter(&mut self, pos: Pos, at: Timestamp, bytes: usize) -> u64 {
        let nth = self.first + u64::try_from(self.slots.len()).unwrap_or(u64::MAX);
        self.slots.push_back(Slot { pos, at, bytes, state: State::Waiting });
        self.waiting += 1;
        self.bytes += bytes;
        nth
    }

    /// Enters that everything up to a position was looked at, and whether the pass ends there.
    pub(super) fn enter_upto(&mut self, pos: Pos, ends: bool) {
        let state = if ends { State::Ends } else { State::Done };
        self.slots.push_back(Slot { pos, at: Timestamp::MAX, bytes: 0, state });
        self.advance();
    }

    /// An event was confirmed, or is not for this destination.
    pub(super) fn done(&mut self, nth: u64) {
        let Some(slot) = Self::slot(&mut self.slots, self.first, nth) else {
            return;
        };
        if matches!(slot.state, State::Waiting) {
            self.waiting -= 1;
            self.bytes -= std::mem::take(&mut slot.bytes);
        }
        if matches!(slot.state, State::Park(_)) {
            self.parking -= 1;
        }
        slot.state = State::Done;
        self.advance();
    }

    /// An event is to be parked.
    pub(super) fn park(&mut self, nth: u64, park: Park) {
        let Some(slot) = Self::slot(&mut self.slots, self.first, nth) else {
            return;
        };
        if matches!(slot.state, State::Waiting) {
            self.waiting -= 1;
        }
        if !matches!(slot.state, State::Park(_)) {
            self.parking += 1;
        }
        if park.state != ParkedState::Failed {
            let at = self.oldest_aside.map_or(slot.at, |oldest| oldest.min(slot.at));
            self.oldest_aside = Some(at);
        }
        slot.state = State::Park(Box::new(park));
        self.advance();
    }

    /// Says whether something may be settled, and whether that ends the pass.
    pub(super) fn settleable(&self) -> Option<bool> {
        let first = self.slots.front().filter(|slot| !matches!(slot.state, State::Waiting))?;
        let ends = matches!(first.state, State::Ends) || self.waiting == 0 && self.has_end();
        Some(ends)
    }

    /// Takes out what may be settled, with at most so many rows to park.
    pub(super) fn take(&mut self, rows_max: usize) -> Progress {
        let mut progress = Progress::default();
        while let Some(slot) = self.slots.front() {
            let full = progress.park.len() >= rows_max && matches!(slot.state, State::Park(_));
            if full || matches!(slot.state, State::Waiting) {
                break;
            }
            let Some(slot) = self.slots.pop_front() else {
                break;
            };
            self.first += 1;
            self.ready = self.ready.saturating_sub(1);
            self.bytes -= slot.bytes;
            progress.upto = Some(slot.pos);
            match slot.state {
                State::Ends => progress.ends = true,
                State::Park(park) => {
                    self.parking -= 1;
                    progress.park.push(*park);
                }
                State::Done | State::Waiting => {}
            }
        }
        if self.parking == 0 {
            self.oldest_aside = None;
        }
        progress
    }

    /// When the oldest event in hand was appended that waits, or is to be parked without waiting for
    /// an operator.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        // Positions are drawn in about the order of time: the first that waits tells enough.
        let waits = self.slots.get(self.ready).map(|slot| slot.at);
        [waits, self.oldest_aside].into_iter().flatten().min()
    }

    fn advance(&mut self) {
        let waits = |slot: &Slot| matches!(slot.state, State::Waiting);
        while self.slots.get(self.ready).is_some_and(|slot| !waits(slot)) {
            self.ready += 1;
        }
    }

    fn has_end(&self) -> bool {
        self.slots.back().is_some_and(|slot| matches!(slot.state, State::Ends))
    }

    fn slot(slots: &mut VecDeque<Slot>, first: u64, nth: u64) -> Option<&mut Slot> {
        slots.get_mut(usize::try_from(nth.checked_sub(first)?).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_contiguous_is_settled() {
        let mut ledger = Ledger::default();
        let at = Timestamp::default();
        let nths: Vec<u64> = [3, 5, 9].map(|pos| ledger.enter(Pos(pos), at, 10)).to_vec();
        ledger.enter_upto(Pos(12), true);
        assert_eq!(ledger.settleable(), None);
        ledger.done(nths[1]);
        assert_eq!((ledger.settleable(), ledger.bytes()), (None, 20));
        ledger.done(nths[0]);
        assert_eq!(ledger.settleable(), Some(false));
        let progress = ledger.take(10);
        assert_eq!((progress.upto, progress.ends), (Some(Pos(5)), false));
        ledger.done(nths[2]);
        assert_eq!(ledger.settleable(), Some(true));
        let progress = ledger.take(10);
        assert_eq!((progress.upto, progress.ends), (Some(Pos(12)), true));
        assert_eq!((ledger.len(), ledger.waiting(), ledger.bytes()), (0, 0, 0));
    }
}
