//! Reading a pass in windows.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use semel::{
    StoreError, StoreErrorKind, Timestamp,
    outbox::{Destination, Leader, Placed, Pos, Window, store::Pass},
};

use super::{no_answer, row, signed, unsigned};
use crate::{
    error::Fault,
    link::{Step, Work},
    value::{Cells, Value},
};

/// Passes that are open: what they show does not change, so that it is asked for once.
#[derive(Debug, Default)]
pub(crate) struct Passes(Mutex<HashMap<Destination, (Leader, Arc<Open>)>>);

/// A pass that is open.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) pass: Pass,
    settled: Pos,
    from_pos: i64,
    upto: i64,
    /// Up to here lies what came with a dump.
    base: i64,
    from: Box<str>,
    to: Box<str>,
    /// Transactions that were open in `from` and are not in `to`.
    late: Option<Box<str>>,
    old: Option<Old>,
}

/// What a destination had in the cluster that the table came from.
#[derive(Debug)]
struct Old {
    floor: i64,
    from: Box<str>,
    to: Box<str>,
    settled: i64,
    upto: i64,
}

/// Reads a window.
pub(super) struct Read {
    pub(super) leader: Leader,
    pub(super) after: Option<(Pass, Pos)>,
    pub(super) limit: usize,
    pub(super) bytes_max: usize,
    pub(super) passes: Arc<Passes>,
    pub(super) flushed: bool,
}

impl Passes {
    fn of(&self, leader: &Leader, pass: Pass) -> Option<Arc<Open>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, open) = kept.get(&leader.destination)?;
        (of == leader && open.pass == pass).then(|| Arc::clone(open))
    }

    fn keep(&self, leader: &Leader, open: &Arc<Open>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(leader.destination.clone(), (leader.clone(), Arc::clone(open)));
    }
}

impl Work for Read {
    type Done = Window;

    async fn run(&self, step: Step<'_>) -> Result<Window, Fault> {
        if let Some((pass, pos)) = self.after
            && let Some(open) = self.passes.of(&self.leader, pass)
        {
            let part = self.part(step, &open, signed(pos.0)).await?;
            // Without a row nobody has told the time.
            if let Some(now) = part.now {
                return Ok(part.window(pass, now));
            }
        }
        let (open, now) = self.pass(step).await?;
        let Some(open) = open else {
            return Ok(Window { pass: None, events: Vec::new(), upto: Pos(0), ends: true, now });
        };
        let behind = self.after.filter(|(of, _)| *of == open.pass);
        let behind = behind.map_or(open.settled, |(_, pos)| pos);
        let part = self.part(step, &open, signed(behind.0)).await?;
        Ok(part.window(open.pass, now))
    }
}

/// What was read of a pass.
struct Part {
    events: Vec<Placed>,
    upto: i64,
    ends: bool,
    now: Option<Timestamp>,
}

impl Part {
    fn window(self, pass: Pass, now: Timestamp) -> Window {
        let upto = Pos(u64::try_from(self.upto).unwrap_or_default());
        Window { pass: Some(pass), events: self.events, upto, ends: self.ends, now }
    }
}

impl Read {
    /// Asks what is to be read, and keeps it in mind.
    async fn pass(&self, step: Step<'_>) -> Result<(Option<Arc<Open>>, Timestamp), Fault> {
        let (open, now) = open_pass(step, &self.leader, self.flushed).await?;
        let open = open.map(Arc::new);
        if let Some(open) = &open {
            self.passes.keep(&self.leader, open);
        }
        Ok((open, now))
    }

    /// Reads behind a position, in the first of the three parts of the pass that has something there:
    /// what came with a dump, what committed late, what was appended since.
    async fn part(&self, step: Step<'_>, open: &Open, after: i64) -> Result<Part, Fault> {
        if let Some(old) = &open.old
            && after < open.base
        {
            let part = self.old(step, open, old, after.max(old.floor)).await?;
            if !part.events.is_empty() {
                return Ok(part);
            }
        }
        let after = after.max(open.base);
        if let Some(late) = &open.late
            && after < open.from_pos
        {
            let part = self.late(step, open, late, after).await?;
            if !part.events.is_empty() {
                return Ok(part);
            }
        }
        self.fresh(step, open, after.max(open.from_pos)).await
    }

    async fn old(&self, step: Step<'_>, open: &Open, old: &Old, after: i64) -> Result<Part, Fault> {
        let values = [
            Value::Bigint(Some(after)),
            Value::Bigint(Some(open.base)),
            Value::Text(Some(&old.from)),
            Value::Text(Some(&old.to)),
            Value::Bigint(Some(old.settled)),
            Value::Bigint(Some(old.upto)),
        ];
        self.ask(step, &step.statements().outbox_old, &values, (open.base, false)).await
    }

    async fn late(
        &self,
        step: Step<'_>,
        open: &Open,
        late: &str,
        after: i64,
    ) -> Result<Part, Fault> {
        let values = [
            Value::Bigint(Some(after)),
            Value::Bigint(Some(open.from_pos)),
            Value::Text(Some(late)),
        ];
        self.ask(step, &step.statements().outbox_late, &values, (open.from_pos, false)).await
    }

    async fn fresh(&self, step: Step<'_>, open: &Open, after: i64) -> Result<Part, Fault> {
        let values = [
            Value::Bigint(Some(after)),
            Value::Bigint(Some(open.upto)),
            Value::Text(Some(&open.from)),
            Value::Text(Some(&open.to)),
        ];
        // Positions may have been settled behind the last that the pass shows.
        let end = open.upto.max(after);
        self.ask(step, &step.statements().outbox_window, &values, (end, true)).await
    }

    /// Asks for rows up to the end of a part of the pass; says whether the pass ends with that part.
    async fn ask(
        &self,
        step: Step<'_>,
        statement: &str,
        values: &[Value<'_>],
        (end, last): (i64, bool),
    ) -> Result<Part, Fault> {
        let limit = i64::try_from(self.limit).unwrap_or(i64::MAX);
        let bytes = i64::try_from(self.bytes_max).unwrap_or(i64::MAX);
        let bounds = [Value::Bigint(Some(limit)), Value::Bigint(Some(bytes))];
        let params: Vec<_> = values.iter().chain(&bounds).map(Value::param).collect();
        let rows = step.rows(statement, &params).await?;
        let events = rows.iter().map(row::placed).collect::<Result<Vec<_>, _>>()?;
        let (mut found, mut now) = (0, None);
        if let Some(row) = rows.first() {
            found = unsigned(row, FOUND)?;
            now = Some(Timestamp::from_micros(unsigned(row, NOW)?));
        }
        let cut =
            events.len() >= self.limit || u64::try_from(events.len()).is_ok_and(|n| n < found);
        match events.last() {
            Some(placed) if cut => {
                let upto = row::pos(placed.pos);
                Ok(Part { events, upto, ends: false, now })
            }
            _ => Ok(Part { events, upto: end, ends: last, now }),
        }
    }
}

/// Asks what is to be read, and the time. It is committed before anything is read by it.
pub(super) async fn open_pass(
    step: Step<'_>,
    leader: &Leader,
    flushed: bool,
) -> Result<(Option<Open>, Timestamp), Fault> {
    let values = [
        Value::Text(Some(leader.destination.as_str())),
        Value::Bigint(Some(signed(leader.epoch.0))),
        Value::Truth(flushed),
    ];
    let params: Vec<_> = values.iter().map(Value::param).collect();
    let rows = step.alone(&step.statements().outbox_pass, &params).await?;
    let row = rows.first().ok_or_else(no_answer)?;
    if row.truth(0)? != Some(true) {
        let message = "nobody ever led this destination";
        return Err(StoreError::new(StoreErrorKind::Invalid, message).into());
    }
    let now = Timestamp::from_micros(unsigned(row, 14)?);
    if row.bigint(1)?.is_none() {
        return Ok((None, now));
    }
    Ok((Some(Open::of(row)?), now))
}

/// Where the columns behind those of an event stand.
const FOUND: usize = 16;
const NOW: usize = 17;

impl Open {
    /// Behind it the pass shows nothing.
    pub(super) fn end(&self) -> i64 {
        self.upto.max(self.settled())
    }

    pub(super) fn settled(&self) -> i64 {
        signed(self.settled.0)
    }

    /// What it shows, and the position drawn before what the pass before showed.
    pub(super) fn shows(&self) -> (&str, i64) {
        (&self.to, self.from_pos)
    }

    /// Whether some of it came with a dump.
    pub(super) const fn has_moved_in(&self) -> bool {
        self.old.is_some()
    }

    /// What bounds it, as the statement takes it that lists its positions.
    pub(super) fn bounds(&self) -> [Value<'_>; 7] {
        [
            Value::Bigint(Some(self.settled())),
            Value::Bigint(Some(self.from_pos)),
            Value::Bigint(Some(self.upto)),
            Value::Bigint(Some(self.base)),
            Value::Text(Some(&self.from)),
            Value::Text(Some(&self.to)),
            Value::Text(Some(self.late.as_deref().unwrap_or("{}"))),
        ]
    }

    #[cfg(test)]
    pub(super) fn of_positions(pass: Pass, settled: i64, upto: i64) -> Self {
        let none = || Box::from("3:3:");
        Self {
            pass,
            settled: Pos(settled.unsigned_abs()),
            from_pos: 0,
            upto,
            base: 0,
            from: none(),
            to: none(),
            late: None,
            old: None,
        }
    }

    fn of(row: &impl Cells) -> Result<Self, Fault> {
        let number = |at| row.bigint(at).map(Option::unwrap_or_default);
        let text = |at| Ok::<Box<str>, Fault>(row.text(at)?.unwrap_or_default().into());
        let old = match row.bigint(13)? {
            None => None,
            Some(upto) => Some(Old {
                floor: number(9)?,
                from: text(10)?,
                to: text(11)?,
                settled: number(12)?,
                upto,
            }),
        };
        let late = text(8)?;
        Ok(Self {
            pass: Pass(unsigned(row, 1)?),
            settled: Pos(unsigned(row, 2)?),
            from_pos: number(3)?,
            upto: number(4)?,
            base: number(5)?,
            from: text(6)?,
            to: text(7)?,
            late: (&*late != "{}").then_some(late),
            old,
        })
    }
}
