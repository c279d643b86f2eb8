//! How far a destination has come, and who leads it.

use std::collections::BTreeMap;

use super::{
    super::store::{Epoch, Pass, Placed, Pos, Window},
    Row,
};
use crate::clock::Timestamp;

/// The cursor and the leader of one destination.
pub(super) struct Cursor {
    /// Who leads, and until when.
    pub(super) leader: Option<(Box<str>, Timestamp)>,
    pub(super) epoch: Epoch,
    /// Every commit up to this one is settled.
    from: u64,
    pass_last: u64,
    open: Option<Open>,
}

/// The pass that is being read: the commits behind `from` up to `to`.
struct Open {
    to: u64,
    settled: Pos,
    /// Its positions in order.
    positions: Vec<Pos>,
}

/// What a settlement did to the cursor.
pub(super) enum Moved {
    /// Nothing: this very settlement was written before.
    Already,
    /// It moved, or stayed where it was.
    Here,
    /// Nothing: the pass is another.
    Other,
}

impl Cursor {
    /// Nothing kept in memory is ever restored.
    pub(super) const GENERATION: u32 = 1;

    pub(super) const fn new(from: u64) -> Self {
        Self { leader: None, epoch: Epoch(0), from, pass_last: 0, open: None }
    }

    /// Says whether a committed event is confirmed or parked.
    pub(super) fn has(&self, row: &Row) -> bool {
        let open = self.open.as_ref();
        row.commit <= self.from
            || open.is_some_and(|open| row.commit <= open.to && row.placed.pos <= open.settled)
    }

    /// Returns the pass to read; opens the next one if none is open and there is something to read.
    pub(super) fn open(
        &mut self,
        commits: &BTreeMap<u64, Vec<Pos>>,
        commit_last: u64,
    ) -> Option<Pass> {
        if self.open.is_none() {
            let mut positions: Vec<Pos> =
                commits.range(self.from + 1..).flat_map(|(_, of)| of).copied().collect();
            if positions.is_empty() {
                return None;
            }
            positions.sort_unstable();
            self.pass_last += 1;
            self.open = Some(Open { to: commit_last, settled: Pos(0), positions });
        }
        Some(Pass(self.pass_last))
    }

    /// Reads the open pass, within `(events, bytes)`.
    pub(super) fn window(
        &self,
        pass: Pass,
        after: Option<(Pass, Pos)>,
        rows: &BTreeMap<Pos, Row>,
        (limit, bytes_max): (usize, usize),
        now: Timestamp,
    ) -> Window {
        let empty = Window { pass: Some(pass), events: Vec::new(), upto: Pos(0), ends: true, now };
        let Some(open) = &self.open else {
            return empty;
        };
        let behind = after.filter(|(of, _)| *of == pass).map_or(open.settled, |(_, pos)| pos);
        let first = open.positions.partition_point(|pos| *pos <= behind);
        let mut events: Vec<Placed> = Vec::new();
        let (mut upto, mut bytes, mut ends) = (behind, 0, true);
        for pos in &open.positions[first..] {
            if events.len() >= limit || (bytes >= bytes_max && !events.is_empty()) {
                ends = false;
                break;
            }
            upto = *pos;
            if let Some(row) = rows.get(pos) {
                bytes += row.placed.event.size();
                events.push(row.placed.clone());
            }
        }
        Window { events, upto, ends, ..empty }
    }

    /// Moves to a position of a pass, and closes the pass if it ends.
    pub(super) fn settle(&mut self, pass: Pass, pos: Pos, ends: bool) -> Moved {
        let current = pass.0 == self.pass_last;
        match &mut self.open {
            Some(open) if current => {
                open.settled = open.settled.max(pos);
                if ends {
                    self.from = open.to;
                    self.open = None;
                }
                Moved::Here
            }
            None if current && ends => Moved::Already,
            _ => Moved::Other,
        }
    }
}
