//! Parked rows, in the order in which they would leave.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::super::{
    event::{EventId, Lane},
    store::{Destination, Due, Park, Parked, ParkedState, Pos, READ_MAX, Unpark},
};
use crate::clock::Timestamp;

/// All parked rows.
#[derive(Default)]
pub(super) struct ParkedRows {
    seq_last: u64,
    rows: BTreeMap<u64, Parked>,
    lanes: HashMap<Destination, BTreeMap<Lane, BTreeSet<u64>>>,
    ids: HashSet<(Destination, EventId)>,
}

impl ParkedRows {
    /// Parks a row, unless its event is parked already: then a lost answer is repeated.
    pub(super) fn park(&mut self, destination: &Destination, row: Park, now: Timestamp) {
        if !self.ids.insert((destination.clone(), row.placed.event.id)) {
            return;
        }
        self.seq_last += 1;
        let seq = self.seq_last;
        let lanes = self.lanes.entry(destination.clone()).or_default();
        lanes.entry(row.placed.event.lane.clone()).or_default().insert(seq);
        let parked = Parked {
            seq,
            destination: destination.clone(),
            placed: row.placed,
            state: row.state,
            attempts: row.attempts,
            why: row.why,
            parked_at: now,
        };
        self.rows.insert(seq, parked);
    }

    /// Writes what became of a row; nothing if it is gone already. Returns what was left out.
    pub(super) fn unpark(&mut self, unpark: &Unpark) -> Vec<Pos> {
        match unpark {
            Unpark::Failed { seq, attempts, why } => {
                let row = self.rows.get_mut(seq);
                row.into_iter().for_each(|row| {
                    row.state = ParkedState::Failed;
                    row.attempts = *attempts;
                    row.why = why.clone();
                });
            }
            Unpark::LeftOut { seq } => {
                let drops = self.rows.get(seq).filter(|row| row.state == ParkedState::Drop);
                let lane =
                    drops.map(|row| (row.destination.clone(), row.placed.event.lane.clone()));
                let of_lane = lane.and_then(|(of, lane)| self.lanes.get(&of)?.get(&lane));
                let seqs =
                    of_lane.map_or_else(|| vec![*seq], |seqs| seqs.iter().copied().collect());
                return seqs.into_iter().filter_map(|seq| self.remove(seq)).collect();
            }
            Unpark::Sent { seq } => {
                self.remove(*seq);
            }
        }
        Vec::new()
    }

    /// Returns the event of a row that is to be dropped, and those that go with it.
    pub(super) fn dropped_with(
        &self,
        destination: &Destination,
        seq: u64,
    ) -> Option<(EventId, Vec<EventId>)> {
        let row = self.rows.get(&seq)?;
        if row.state != ParkedState::Drop || row.destination != *destination {
            return None;
        }
        let seqs = self.lanes.get(destination)?.get(&row.placed.event.lane)?;
        let others = seqs.iter().filter(|other| **other != seq);
        let ids = others.filter_map(|other| Some(self.rows.get(other)?.placed.event.id));
        Some((row.placed.event.id, ids.collect()))
    }

    /// Lists the lanes behind `after` that have parked rows.
    pub(super) fn lanes(&self, destination: &Destination, after: Option<&Lane>) -> Vec<Lane> {
        let lanes = self.lanes.get(destination).into_iter().flat_map(BTreeMap::keys);
        lanes
            .filter(|lane| after.is_none_or(|after| *lane > after))
            .take(READ_MAX)
            .cloned()
            .collect()
    }

    /// Lists what each lane sends next whose first row waits for nobody, the oldest first.
    pub(super) fn due(
        &self,
        destination: &Destination,
        limit: usize,
        bytes_max: usize,
    ) -> Vec<Due> {
        let lanes = self.lanes.get(destination).into_iter().flat_map(BTreeMap::values);
        let waits = |seqs: &&BTreeSet<u64>| {
            let head = seqs.first().and_then(|seq| self.rows.get(seq));
            head.is_some_and(|head| head.state != ParkedState::Failed)
        };
        let mut lanes: Vec<_> = lanes.filter(waits).collect();
        lanes.sort_unstable_by_key(|seqs| seqs.first().copied());
        lanes.truncate(limit);
        let share = Due::share(limit, lanes.len());
        let (mut due, mut bytes) = (Vec::new(), 0);
        for seqs in lanes {
            let mut of_lane = Due::default();
            for row in seqs.iter().take(share).filter_map(|seq| self.rows.get(seq)) {
                let full = bytes >= bytes_max && bytes > 0;
                if full || !of_lane.push(row.clone()) {
                    break;
                }
                bytes += row.placed.event.size();
            }
            if of_lane.rows.is_empty() {
                break;
            }
            of_lane.whole = of_lane.rows.len() == seqs.len();
            due.push(of_lane);
        }
        due
    }

    /// Lists the rows that wait only to be sent, and for no operator.
    pub(super) fn aside(&self, destination: &Destination) -> impl Iterator<Item = &Parked> {
        let lanes = self.lanes.get(destination).into_iter().flat_map(BTreeMap::values);
        let goes_on = |seqs: &&BTreeSet<u64>| {
            let head = seqs.first().and_then(|seq| self.rows.get(seq));
            head.is_some_and(|head| !matches!(head.state, ParkedState::Drop | ParkedState::Failed))
        };
        let rows = lanes.filter(goes_on).flatten().filter_map(|seq| self.rows.get(seq));
        rows.filter(|row| !matches!(row.state, ParkedState::Drop | ParkedState::Skip))
    }

    /// Lists the rows that wait for an operator, one of each lane.
    pub(super) fn failed(&self, destination: &Destination) -> impl Iterator<Item = &Parked> {
        let lanes = self.lanes.get(destination).into_iter().flat_map(BTreeMap::values);
        let heads = lanes.filter_map(|seqs| self.rows.get(seqs.first()?));
        heads.filter(|row| row.state == ParkedState::Failed)
    }

    /// Marks a row that waits for an operator; says what event it is if it is such a row.
    pub(super) fn mark(
        &mut self,
        destination: &Destination,
        seq: u64,
        state: ParkedState,
    ) -> Option<EventId> {
        let row = self.rows.get(&seq).filter(|row| row.destination == *destination)?;
        let of_lane = self.lanes.get(destination)?.get(&row.placed.event.lane)?;
        if row.state == ParkedState::Behind && of_lane.first() != Some(&seq) {
            return None;
        }
        let row = self.rows.get_mut(&seq)?;
        row.state = state;
        Some(row.placed.event.id)
    }

    /// Says whether an event is parked.
    pub(super) fn holds(&self, destination: &Destination, id: EventId) -> bool {
        self.ids.contains(&(destination.clone(), id))
    }

    /// Returns all rows in their order.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Parked> {
        self.rows.values()
    }

    /// Counts the lanes of a destination.
    pub(super) fn lane_count(&self, destination: &Destination) -> usize {
        self.lanes.get(destination).map_or(0, BTreeMap::len)
    }

    /// Forgets all rows of a destination, and says how many there were.
    pub(super) fn forget(&mut self, destination: &Destination) -> usize {
        let of = self.rows.values().filter(|row| row.destination == *destination);
        let seqs: Vec<u64> = of.map(|row| row.seq).collect();
        seqs.iter().filter_map(|seq| self.remove(*seq)).count()
    }

    /// Removes a row, and says where its event lay.
    fn remove(&mut self, seq: u64) -> Option<Pos> {
        let row = self.rows.remove(&seq)?;
        let (of, lane) = (row.destination, &row.placed.event.lane);
        if let Some(lanes) = self.lanes.get_mut(&of)
            && let Some(seqs) = lanes.get_mut(lane)
        {
            seqs.remove(&seq);
            if seqs.is_empty() {
                lanes.remove(lane);
            }
        }
        self.ids.remove(&(of, row.placed.event.id));
        Some(row.placed.pos)
    }
}
