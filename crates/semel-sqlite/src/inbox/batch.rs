//! Several messages in one transaction.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    fmt,
    ops::Deref,
};

use bytes::Bytes;
use rusqlite::{Connection, DropBehavior, OptionalExtension, Transaction};
use semel::{
    Fingerprint, StoreError, Timestamp,
    inbox::{By, Delivery, Handled, LogId, MessageId, Recorded, Standing, store::READ_MAX},
    outbox::{Event, EventId},
};

use super::{
    Inbox,
    guard::{admit, caused, ended},
    receive::{Asked, Met, no_position},
};
use crate::{
    error::{Fault, invalid},
    outbox::within_bounds,
    queries, row,
    step::Step,
    transact::as_before,
};

/// What a batch of messages meets inside a transaction.
#[derive(Debug)]
#[must_use]
pub enum ReceiveAll<'c> {
    /// None of the messages is new; the transaction comes back.
    None(Transaction<'c>, Vec<Verdict>),
    /// Some are new.
    Some(Box<Batch<'c>>),
}

/// What is to be done about one message of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Nothing: the consumer had it before, or it stands further ahead in this batch.
    Duplicate(Option<Recorded>),
    /// Its effect.
    First,
    /// Nothing: the consumer had another message under this id.
    Mismatch(Recorded),
}

impl Verdict {
    /// What became of a message that needed nothing.
    pub(super) fn handled(self) -> Handled {
        match self {
            Self::Duplicate(recorded) => Handled::Duplicate(recorded),
            Self::First => Handled::Duplicate(None),
            Self::Mismatch(recorded) => Handled::Mismatch(recorded),
        }
    }
}

/// A transaction in which several messages are handled. It is used like the connection, and committed only
/// once it is given back.
#[must_use = "dropping the guard rolls the transaction back"]
pub struct Batch<'c> {
    tx: Transaction<'c>,
    behavior: DropBehavior,
    inbox: Inbox,
    asked: Vec<Asked>,
    at: Timestamp,
    verdicts: Vec<Verdict>,
    kept: RefCell<Kept>,
}

/// What is written at the end.
#[derive(Debug, Default)]
struct Kept {
    answers: BTreeMap<usize, Bytes>,
    events: Vec<(usize, Event)>,
}

impl<'c> Batch<'c> {
    /// Says what is to be done about each message, in the order given.
    #[must_use]
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    /// Returns the places of the messages that are new, in the order given.
    pub fn new_ones(&self) -> impl Iterator<Item = usize> + use<'_> {
        self.verdicts.iter().enumerate().filter(|(_, v)| **v == Verdict::First).map(|(at, _)| at)
    }

    /// Records what copies of the message at a place are answered with.
    ///
    /// # Errors
    ///
    /// Refuses a place at which the batch has no new message, and an answer that breaks its bound or can
    /// not be recorded; the guard can be used on.
    pub fn answer(&self, at: usize, answer: Bytes) -> Result<(), StoreError> {
        let one = self.new_one(at)?;
        admit(Some(&answer), one.records())?;
        self.kept.borrow_mut().answers.insert(at, answer);
        Ok(())
    }

    /// Has an event of the message at a place leave if and only if this transaction commits, as
    /// [`Handling::publish`](super::Handling::publish) does.
    ///
    /// # Errors
    ///
    /// Refuses a place at which the batch has no new message, and an event that breaks a bound; the guard
    /// can be used on.
    pub fn publish(&self, at: usize, event: Event) -> Result<EventId, StoreError> {
        let event = caused(event, &self.new_one(at)?.message)?;
        let id = event.id;
        self.kept.borrow_mut().events.push((at, event));
        Ok(id)
    }

    fn new_one(&self, at: usize) -> Result<&Asked, StoreError> {
        let is_new = self.verdicts.get(at) == Some(&Verdict::First);
        let one = self.asked.get(at).filter(|_| is_new);
        one.ok_or_else(|| invalid("the batch has no new message at this place"))
    }

    /// Writes what is recorded, and gives the transaction back, to be committed.
    ///
    /// # Errors
    ///
    /// As [`Handling::done`](super::Handling::done).
    pub fn done(self) -> Result<Transaction<'c>, StoreError> {
        self.end().map(|(tx, _)| tx)
    }

    pub(super) fn end(self) -> Result<(Transaction<'c>, Vec<Handled>), StoreError> {
        let Self { tx, behavior, inbox, asked, at, verdicts, kept } = self;
        let Kept { mut answers, events } = kept.into_inner();
        let mut ids: BTreeMap<usize, Vec<EventId>> = BTreeMap::new();
        for (place, event) in &events {
            ids.entry(*place).or_default().push(event.id);
        }
        let events: Vec<_> = events.into_iter().map(|(_, event)| event).collect();
        within_bounds(&events)?;
        if tx.is_autocommit() {
            return Err(ended());
        }
        let handled = |(place, verdict): (usize, Verdict)| match verdict {
            Verdict::First => Handled::First(Recorded {
                fingerprint: asked[place].fingerprint,
                standing: Standing::Done,
                answer: answers.remove(&place),
                events: ids.remove(&place).unwrap_or_default(),
                at,
            }),
            other => other.handled(),
        };
        let handled: Vec<_> = verdicts.into_iter().enumerate().map(handled).collect();
        inbox.step(&tx, |step| {
            for (one, handled) in asked.iter().zip(&handled) {
                if let Handled::First(recorded) = handled
                    && one.records()
                {
                    step.record(inbox.policy.consumer.as_str(), &one.message, recorded)?;
                }
            }
            step.append(&events)
        })?;
        inbox.transact.appended(&events);
        Ok((as_before(tx, behavior), handled))
    }
}

impl Deref for Batch<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.tx
    }
}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("verdicts", &self.verdicts).finish_non_exhaustive()
    }
}

impl Inbox {
    /// Receives several messages inside `tx`. A consumer that knows messages by positions receives
    /// messages of one log, in their order.
    ///
    /// # Errors
    ///
    /// As [`Inbox::receive`]; also if there are none, more than [`READ_MAX`], or parked ones.
    pub fn receive_all<'c>(
        &self,
        tx: Transaction<'c>,
        deliveries: &[Delivery],
    ) -> Result<ReceiveAll<'c>, StoreError> {
        if deliveries.is_empty() || deliveries.len() > READ_MAX {
            return Err(invalid("a batch has no message, or more than 10,000"));
        }
        if deliveries.iter().any(|delivery| delivery.parked) {
            return Err(invalid("a parked message is run again by itself"));
        }
        let asked: Vec<_> =
            deliveries.iter().map(|one| self.asked(one)).collect::<Result<_, _>>()?;
        let range = match self.policy.by {
            By::Ids => None,
            By::Positions => Some(range(deliveries)?),
        };
        let (tx, behavior) = self.transact.take(tx)?;
        let (verdicts, at) = self.step(&tx, |step| {
            let verdicts = match &range {
                None => self.judge(step, &asked)?,
                Some(range) => self.judge_log(step, range)?,
            };
            Ok((verdicts, step.now()))
        })?;
        if !verdicts.contains(&Verdict::First) {
            return Ok(ReceiveAll::None(as_before(tx, behavior), verdicts));
        }
        let (inbox, kept) = (self.clone(), RefCell::default());
        Ok(ReceiveAll::Some(Box::new(Batch { tx, behavior, inbox, asked, at, verdicts, kept })))
    }

    /// Judges messages by their ids.
    fn judge(&self, step: &mut Step<'_>, asked: &[Asked]) -> Result<Vec<Verdict>, Fault> {
        let mut new: HashMap<&MessageId, (Fingerprint, Timestamp)> = HashMap::new();
        let mut verdicts = Vec::with_capacity(asked.len());
        for one in asked {
            verdicts.push(match new.get(&one.message) {
                Some((first, _)) if *first == one.fingerprint => Verdict::Duplicate(None),
                Some((first, at)) => Verdict::Mismatch(Recorded {
                    fingerprint: *first,
                    standing: Standing::Done,
                    answer: None,
                    events: Vec::new(),
                    at: *at,
                }),
                None => match self.met(step, one)? {
                    Met::Duplicate(recorded) => Verdict::Duplicate(recorded),
                    Met::First(at) => {
                        new.insert(&one.message, (one.fingerprint, at));
                        Verdict::First
                    }
                    Met::Mismatch(recorded) => Verdict::Mismatch(recorded),
                },
            });
        }
        Ok(verdicts)
    }

    /// Judges messages of a log by their positions, and moves behind the last.
    fn judge_log(&self, step: &mut Step<'_>, range: &Range<'_>) -> Result<Vec<Verdict>, Fault> {
        let consumer = self.policy.consumer.as_str();
        let next = position(step.conn(), consumer, range.log)?.unwrap_or_default();
        let last = range.offsets.last().copied().unwrap_or_default();
        if next <= last {
            step.moves(consumer, range.log, next, last.saturating_add(1))?;
        }
        let verdict = |offset: &u64| match *offset >= next {
            true => Verdict::First,
            false => Verdict::Duplicate(None),
        };
        Ok(range.offsets.iter().map(verdict).collect())
    }
}

/// A log, and the offsets of a batch in it.
struct Range<'d> {
    log: &'d LogId,
    offsets: Vec<u64>,
}

fn range(deliveries: &[Delivery]) -> Result<Range<'_>, StoreError> {
    let positions: Option<Vec<_>> = deliveries.iter().map(|d| d.position.as_ref()).collect();
    let positions = positions.ok_or_else(no_position)?;
    let ordered = positions
        .windows(2)
        .all(|pair| pair[0].log == pair[1].log && pair[0].offset < pair[1].offset);
    match positions.first() {
        Some(first) if ordered => Ok(Range {
            log: &first.log,
            offsets: positions.iter().map(|position| position.offset).collect(),
        }),
        _ => Err(invalid("a batch that is known by positions is of one log, in its order")),
    }
}

/// Reads up to where a consumer has a log.
pub(super) fn position(
    conn: &Connection,
    consumer: &str,
    log: &LogId,
) -> Result<Option<u64>, Fault> {
    let mut statement = conn.prepare_cached(queries::INBOX_POSITION)?;
    let next = statement.query_row((consumer, log.as_str()), |row| Ok(row::count(row, 0)));
    next.optional()?.transpose()
}
