//! The order of one pass, as a slot tells it and the table bears out.

use std::{collections::HashSet, fmt, sync::Arc};

use semel::{
    StoreError, StoreErrorKind, Timestamp,
    outbox::{Destination, Leader, Placed, Pos, Settle, Window, store::Pass},
};

use super::{
    super::{
        no_answer,
        read::{Open, open_pass},
        row,
    },
    SlotOutbox,
    making::find,
    pgoutput::{self, Change, Column},
};
use crate::{
    error::{Fault, damaged, invalid},
    link::{Step, Work},
    names::numbers,
    value::{Cells, Value},
};

/// The events of a pass in the order in which they leave. To a relay the first has the position 1.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) leader: Leader,
    pub(super) pass: Pass,
    /// Where each lies in the table.
    positions: Vec<i64>,
    /// Of each and all behind it, the smallest position.
    smallest: Vec<i64>,
    /// Behind it the pass shows nothing.
    end: i64,
    settled: i64,
    /// How many the slot did not tell of, though it was there when they committed.
    pub(super) missed: u64,
    /// Where the slot may be advanced to when the pass has ended.
    pub(super) confirm: Option<Lsn>,
}

impl Order {
    fn new(leader: Leader, open: &Open, positions: Vec<i64>) -> Self {
        let mut smallest = positions.clone();
        for at in (1..smallest.len()).rev() {
            smallest[at - 1] = smallest[at - 1].min(smallest[at]);
        }
        let (pass, end, settled) = (open.pass, open.end(), open.settled());
        Self { leader, pass, positions, smallest, end, settled, missed: 0, confirm: None }
    }

    /// Says whether a settlement is of this pass.
    pub(super) fn is_of(&self, settle: &Settle) -> bool {
        let same_pass = settle.upto.is_none_or(|(pass, _)| pass == self.pass);
        self.leader.epoch == settle.epoch && same_pass
    }

    /// Puts in positions of the table for those of the order.
    pub(super) fn place(&self, settle: &mut Settle) -> Result<(), StoreError> {
        for park in &mut settle.park {
            park.placed.pos = self.at(park.placed.pos)?;
        }
        let Some((pass, upto)) = settle.upto else { return Ok(()) };
        let place = |pos: i64| Pos(u64::try_from(pos).unwrap_or_default());
        let done = usize::try_from(upto.0).unwrap_or(usize::MAX);
        settle.upto = if settle.ends {
            Some((pass, place(self.end)))
        } else {
            // Only what lies before everything that is still to be sent.
            let upto = self.smallest.get(done).map_or(self.settled, |smallest| smallest - 1);
            (upto > self.settled).then(|| (pass, place(upto)))
        };
        Ok(())
    }

    fn at(&self, pos: Pos) -> Result<Pos, StoreError> {
        let nth = usize::try_from(pos.0).ok().and_then(|nth| nth.checked_sub(1));
        let position = nth.and_then(|nth| self.positions.get(nth));
        let position = position.and_then(|position| u64::try_from(*position).ok());
        position.map(Pos).ok_or_else(|| invalid("a settlement parks what the pass does not have"))
    }
}

/// A place in the server's log.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Lsn(u64);

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xffff_ffff)
    }
}

/// What a destination reads by.
#[derive(Clone)]
pub(super) struct Names {
    pub(super) slot: String,
    pub(super) publication: String,
}

impl Names {
    pub(super) fn values(&self) -> [Value<'_>; 2] {
        [Value::Text(Some(&self.slot)), Value::Text(Some(&self.publication))]
    }
}

/// Asks for a pass and its order.
#[derive(Clone)]
pub(super) struct Load {
    pub(super) leader: Leader,
    pub(super) names: Names,
    pub(super) flushed: bool,
}

pub(super) enum Loaded {
    Nothing(Timestamp),
    Ordered {
        order: Arc<Order>,
        now: Timestamp,
    },
    /// The pass has the order of positions.
    Unordered {
        slot: Standing,
        now: Timestamp,
    },
}

/// Whether a slot can be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Standing {
    /// There is none, or the server has dropped what it had not read.
    Gone,
    /// It can.
    Readable,
    /// Another session reads it.
    Used,
}

impl Work for Load {
    type Done = Loaded;

    async fn run(&self, step: Step<'_>) -> Result<Loaded, Fault> {
        let (open, now) = open_pass(step, &self.leader, self.flushed).await?;
        let Some(open) = open else { return Ok(Loaded::Nothing(now)) };
        let unordered = |slot| Ok(Loaded::Unordered { slot, now });
        if find(step, &self.names).await?.slot != Some(true) {
            return unordered(Standing::Gone);
        } else if open.has_moved_in() {
            return unordered(Standing::Readable);
        }
        let (lsn, members) = members(step, &open).await?;
        if members.len() > SlotOutbox::ORDERED_MAX {
            return unordered(Standing::Readable);
        }
        let told = match told(step, &self.names, &lsn).await? {
            Ok(told) => told,
            Err(slot) => return unordered(slot),
        };
        let mut order = self.sort(&open, &members, &told);
        order.confirm = confirmable(step, open.shows(), &members, &told).await?;
        Ok(Loaded::Ordered { order: Arc::new(order), now })
    }
}

impl Load {
    /// Puts what the slot told in its order, behind what it did not tell of.
    fn sort(&self, open: &Open, members: &HashSet<i64>, told: &[Told]) -> Order {
        let all = told.iter().flat_map(|told| &told.positions);
        let in_order: Vec<i64> = all.copied().filter(|pos| members.contains(pos)).collect();
        let known: HashSet<i64> = in_order.iter().copied().collect();
        let mut positions: Vec<i64> = members.difference(&known).copied().collect();
        positions.sort_unstable();
        let untold = positions.len();
        positions.extend(in_order);
        let mut order = Order::new(self.leader.clone(), open, positions);
        order.missed = u64::try_from(untold).unwrap_or(u64::MAX);
        order
    }
}

/// A transaction, as the slot told it.
struct Told {
    positions: Vec<i64>,
    /// Where what follows it begins.
    end: Lsn,
}

/// Reads which events a pass has, at most one more than can be ordered, and how far the log is by now.
async fn members(step: Step<'_>, open: &Open) -> Result<(Box<str>, HashSet<i64>), Fault> {
    let limit = i64::try_from(SlotOutbox::ORDERED_MAX).unwrap_or(i64::MAX).saturating_add(1);
    let mut values = open.bounds().to_vec();
    values.push(Value::Bigint(Some(limit)));
    let params: Vec<_> = values.iter().map(Value::param).collect();
    let rows = step.rows(&step.statements().outbox_members, &params).await?;
    let lsn = rows.first().ok_or_else(no_answer)?.text(0)?.unwrap_or_default().into();
    let positions: Result<Vec<_>, _> = rows.iter().map(|row| row.bigint(1)).collect();
    Ok((lsn, positions?.into_iter().flatten().collect()))
}

/// Reads what the slot has up to a place in the log, or says why it cannot be read.
async fn told(
    step: Step<'_>,
    names: &Names,
    lsn: &str,
) -> Result<Result<Vec<Told>, Standing>, Fault> {
    let [slot, publication] = names.values();
    let values = [slot, Value::Text(Some(lsn)), publication];
    let params: Vec<_> = values.iter().map(Value::param).collect();
    let rows = match step.rows(&step.statements().slot_peek, &params).await {
        Ok(rows) => rows,
        Err(fault) if fault.found_gone() => return Ok(Err(Standing::Gone)),
        Err(fault) if fault.found_used() => return Ok(Err(Standing::Used)),
        Err(fault) => return Err(fault),
    };
    let mut reader = Reader::default();
    for row in &rows {
        reader.read(row.bytes(0)?.unwrap_or_default())?;
    }
    Ok(Ok(reader.told))
}

/// Reads messages of a slot one by one.
#[derive(Default)]
struct Reader {
    told: Vec<Told>,
    positions: Vec<i64>,
    /// The table, and where its position stands.
    table: Option<(u32, usize)>,
}

impl Reader {
    fn read(&mut self, message: &[u8]) -> Result<(), Fault> {
        let unreadable = |error| {
            let message = "the replication slot told something that this version cannot read";
            Fault::from(StoreError::new(StoreErrorKind::Version, message).with_source(error))
        };
        match pgoutput::read(message).map_err(unreadable)? {
            Change::Begin => self.positions.clear(),
            Change::Commit { end_lsn } => {
                let positions = std::mem::take(&mut self.positions);
                self.told.push(Told { positions, end: Lsn(end_lsn) });
            }
            Change::Relation(relation) if relation.name == "outbox" => {
                let at = relation.columns.iter().position(|column| *column == "pos");
                self.table = at.map(|at| (relation.id, at));
            }
            Change::Insert { relation, columns } => {
                let Some((_, at)) = self.table.filter(|(id, _)| *id == relation) else {
                    return Ok(());
                };
                let Some(Column::Text(text)) = columns.get(at) else { return Ok(()) };
                let position = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                let none = || damaged("the replication slot told a position that is no number");
                self.positions.push(position.ok_or_else(none)?);
            }
            Change::Relation(_) | Change::Other => {}
        }
        Ok(())
    }
}

/// Finds the end of the last transaction before which a destination has everything, or will have it with
/// `mine`: what a snapshot shows, before which the position was drawn.
async fn confirmable(
    step: Step<'_>,
    (shows, from_pos): (&str, i64),
    mine: &HashSet<i64>,
    told: &[Told],
) -> Result<Option<Lsn>, Fault> {
    let all = told.iter().flat_map(|told| &told.positions);
    let others: Vec<i64> = all.copied().filter(|pos| !mine.contains(pos)).collect();
    let mut later = HashSet::new();
    if !others.is_empty() {
        let (shows, from_pos) = (Value::Text(Some(shows)), Value::Bigint(Some(from_pos)));
        let params = [numbers(&others), shows.param(), from_pos.param()];
        for row in step.rows(&step.statements().outbox_unseen, &params).await? {
            later.extend(row.bigint(0)?);
        }
    }
    let is_over = |told: &&Told| !told.positions.iter().any(|pos| later.contains(pos));
    Ok(told.iter().take_while(is_over).last().map(|told| told.end))
}

/// Lets the slot of a destination that has everything give the log back which others have written.
pub(super) struct Idle {
    pub(super) destination: Destination,
    pub(super) names: Names,
}

impl Work for Idle {
    type Done = Standing;

    async fn run(&self, step: Step<'_>) -> Result<Standing, Fault> {
        if find(step, &self.names).await?.slot != Some(true) {
            return Ok(Standing::Gone);
        }
        let destination = Value::Text(Some(self.destination.as_str()));
        let rows = step.rows(&step.statements().outbox_settled, &[destination.param()]).await?;
        let row = rows.first().ok_or_else(no_answer)?;
        let (shows, lsn) = (row.text(0)?.unwrap_or_default(), row.text(2)?.unwrap_or_default());
        let from_pos = row.bigint(1)?.unwrap_or_default();
        let told = match told(step, &self.names, lsn).await? {
            Ok(told) => told,
            Err(slot) => return Ok(slot),
        };
        let upto = match confirmable(step, (shows, from_pos), &HashSet::new(), &told).await? {
            // Nothing of the table lies in between.
            None if told.is_empty() => lsn.to_owned(),
            Some(end) if told.last().is_some_and(|last| last.end == end) => lsn.to_owned(),
            Some(end) => end.to_string(),
            None => return Ok(Standing::Readable),
        };
        advance(step, &self.names.slot, &upto).await?;
        Ok(Standing::Readable)
    }
}

async fn advance(step: Step<'_>, slot: &str, upto: &str) -> Result<(), Fault> {
    let values = [slot, upto].map(|text| Value::Text(Some(text)));
    let params: Vec<_> = values.iter().map(Value::param).collect();
    step.rows(&step.statements().slot_advance, &params).await.map(drop)
}

/// Reads a window of an order.
pub(super) struct Chosen {
    pub(super) order: Arc<Order>,
    pub(super) behind: Pos,
    pub(super) limit: usize,
    pub(super) bytes_max: usize,
    pub(super) now: Option<Timestamp>,
}

impl Work for Chosen {
    type Done = Window;

    async fn run(&self, step: Step<'_>) -> Result<Window, Fault> {
        let Self { order, behind, limit, bytes_max, .. } = self;
        let first = usize::try_from(behind.0).unwrap_or(usize::MAX).min(order.positions.len());
        let last = first.saturating_add(*limit).min(order.positions.len());
        let wanted = order.positions[first..last].to_vec();
        let bytes = Value::Bigint(Some(i64::try_from(*bytes_max).unwrap_or(i64::MAX)));
        let params = [numbers(&wanted), bytes.param()];
        let rows = step.rows(&step.statements().outbox_chosen, &params).await?;
        let mut events = Vec::with_capacity(rows.len());
        for (nth, row) in (behind.0 + 1..).zip(&rows) {
            let placed = row::placed(row)?;
            let is_wanted = wanted.get(events.len()).copied() == Some(row::pos(placed.pos));
            if !is_wanted {
                return Err(damaged("an event of an open pass is missing; restore a backup").into());
            }
            events.push(Placed { pos: Pos(nth), ..placed });
        }
        if events.is_empty() && !wanted.is_empty() {
            return Err(damaged("an event of an open pass is missing; restore a backup").into());
        }
        let upto = Pos(behind.0 + u64::try_from(events.len()).unwrap_or_default());
        let ends = first + events.len() == order.positions.len();
        let now = match self.now {
            Some(now) => now,
            None => time(step).await?,
        };
        Ok(Window { pass: Some(order.pass), events, upto, ends, now })
    }
}

async fn time(step: Step<'_>) -> Result<Timestamp, Fault> {
    let rows = step.rows(&step.statements().time_read, &[]).await?;
    let row = rows.first().ok_or_else(no_answer)?;
    Ok(Timestamp::from_micros(super::super::unsigned(row, 0)?))
}

/// Confirms what a slot has.
pub(super) struct Advance {
    pub(super) slot: String,
    pub(super) upto: Lsn,
}

impl Work for Advance {
    type Done = ();

    async fn run(&self, step: Step<'_>) -> Result<(), Fault> {
        advance(step, &self.slot, &self.upto.to_string()).await
    }
}

#[cfg(test)]
mod tests {
    use semel::outbox::Epoch;

    use super::*;

    fn order(positions: &[i64], settled: i64) -> Order {
        let destination = Destination::new("a").unwrap();
        let leader = Leader { destination, epoch: Epoch(1), generation: 1 };
        let open = Open::of_positions(Pass(3), settled, 20);
        Order::new(leader, &open, positions.to_vec())
    }

    fn settle(upto: u64, ends: bool) -> Settle {
        Settle {
            destination: Destination::new("a").unwrap(),
            epoch: Epoch(1),
            upto: Some((Pass(3), Pos(upto))),
            ends,
            park: Vec::new(),
            unpark: Vec::new(),
        }
    }

    #[test]
    fn only_what_lies_before_all_that_is_still_to_be_sent_is_settled() {
        let order = order(&[12, 11, 15, 13, 14], 10);
        let placed = |upto, ends| {
            let mut settle = settle(upto, ends);
            order.place(&mut settle).unwrap();
            settle.upto
        };
        assert_eq!(placed(1, false), None);
        assert_eq!(placed(2, false), Some((Pass(3), Pos(12))));
        assert_eq!(placed(3, false), Some((Pass(3), Pos(12))));
        assert_eq!(placed(4, false), Some((Pass(3), Pos(13))));
        assert_eq!(placed(5, true), Some((Pass(3), Pos(20))));
    }

    #[test]
    fn a_place_in_the_log_is_written_as_the_server_does() {
        assert_eq!(Lsn(0x0001_6b37_48aa_0042).to_string(), "16B37/48AA0042");
        assert_eq!(Lsn(0x10).to_string(), "0/10");
    }
}
