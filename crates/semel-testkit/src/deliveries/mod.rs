//! What was committed and what was delivered, and whether the promises of an outbox held.
//!
//! A writer draws a number for each event while it holds the lock of the aggregate, and says what
//! became of its transaction; a receiver says what arrived, in the order of arrival. [`Deliveries::judge`]
//! then says which promise was broken. Where [`History`](crate::History) judges effects of intents,
//! this judges events on their way.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use semel::outbox::{EventId, Lane};

/// Which event of its aggregate: the number that a writer draws under the lock of the aggregate.
pub type Number = u64;

/// A broken promise.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Flaw {
    /// Something was delivered that nobody appended.
    Invented(EventId),
    /// An event was first delivered when a later one of its aggregate had been.
    Inverted {
        /// Whose events.
        lane: Lane,
        /// The event that came too late.
        number: Number,
        /// The later one that had been delivered by then.
        after: Number,
    },
    /// An event was committed and never delivered.
    Lost {
        /// Whose event.
        lane: Lane,
        /// Which one.
        number: Number,
    },
    /// A copy told something else than the event that was appended, or was named otherwise.
    OtherContent {
        /// The name of the copy.
        id: EventId,
        /// What the copy says it is.
        told: (Lane, Number),
    },
    /// An event was delivered whose transaction was rolled back.
    RolledBack(EventId),
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invented(id) => write!(f, "{id}: delivered, and nobody appended it"),
            Self::Inverted { lane, number, after } => {
                write!(f, "{}: {number} came first after {after}", lane.id())
            }
            Self::Lost { lane, number } => {
                write!(f, "{}: {number} was committed, and never delivered", lane.id())
            }
            Self::OtherContent { id, told: (lane, number) } => {
                write!(f, "{id}: a copy tells of {} of {}", number, lane.id())
            }
            Self::RolledBack(id) => write!(f, "{id}: delivered, and it was rolled back"),
        }
    }
}

/// What became of the transaction of an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    Committed,
    Open,
    RolledBack,
}

#[derive(Debug)]
struct Appended {
    lane: Lane,
    number: Number,
    fate: Fate,
}

/// What a judgement found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Judgement {
    /// How many events were committed.
    pub committed: usize,
    /// How many different events were delivered.
    pub delivered: usize,
    /// How many further copies of them were.
    pub copies: usize,
    /// Which promises were broken.
    pub flaws: Vec<Flaw>,
}

impl Judgement {
    /// How many events were lost.
    #[must_use]
    pub fn lost(&self) -> usize {
        self.flaws.iter().filter(|flaw| matches!(flaw, Flaw::Lost { .. })).count()
    }

    /// How many events came out of order.
    #[must_use]
    pub fn inverted(&self) -> usize {
        self.flaws.iter().filter(|flaw| matches!(flaw, Flaw::Inverted { .. })).count()
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { committed, delivered, copies, flaws } = self;
        write!(f, "{committed} committed, {delivered} delivered, {copies} further copies, ")?;
        write!(f, "{} lost, {} out of order, {} flaws", self.lost(), self.inverted(), flaws.len())?;
        for flaw in flaws.iter().take(5) {
            write!(f, "\n  {flaw}")?;
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Inner {
    appended: HashMap<EventId, Appended>,
    delivered: Vec<(EventId, Lane, Number)>,
}

/// A record of what many writers appended and what one receiver got. Cheap to share by reference.
#[derive(Debug, Default)]
pub struct Deliveries {
    inner: Mutex<Inner>,
}

impl Deliveries {
    /// Notes that an event was appended by a transaction that is still open, as far as anybody knows.
    pub fn appended(&self, id: EventId, lane: &Lane, number: Number) {
        let appended = Appended { lane: lane.clone(), number, fate: Fate::Open };
        assert!(self.lock().appended.insert(id, appended).is_none(), "{id} was appended twice");
    }

    /// Notes that the transaction of an event committed.
    pub fn committed(&self, id: EventId) {
        self.ended(id, Fate::Committed);
    }

    /// Notes that the transaction of an event was rolled back.
    pub fn rolled_back(&self, id: EventId) {
        self.ended(id, Fate::RolledBack);
    }

    /// Notes that a transaction did not commit, whether it came so far as to append its event or not.
    pub fn rolled_back_if_appended(&self, id: EventId) {
        if let Some(event) = self.lock().appended.get_mut(&id) {
            event.fate = Fate::RolledBack;
        }
    }

    /// Notes that whatever is not known to be committed was rolled back: nobody writes any more.
    pub fn open_are_rolled_back(&self) {
        for event in self.lock().appended.values_mut().filter(|event| event.fate == Fate::Open) {
            event.fate = Fate::RolledBack;
        }
    }

    /// Notes that a copy arrived, behind all that arrived before.
    pub fn delivered(&self, id: EventId, lane: &Lane, number: Number) {
        self.lock().delivered.push((id, lane.clone(), number));
    }

    /// How many copies arrived so far.
    #[must_use]
    pub fn delivered_count(&self) -> usize {
        self.lock().delivered.len()
    }

    /// How many events were appended by transactions that were rolled back.
    #[must_use]
    pub fn rolled_back_count(&self) -> usize {
        self.lock().appended.values().filter(|event| event.fate == Fate::RolledBack).count()
    }

    /// How many events are committed for certain.
    #[must_use]
    pub fn committed_count(&self) -> usize {
        self.lock().appended.values().filter(|event| event.fate == Fate::Committed).count()
    }

    /// Says which promises were broken, all deliveries being made by now.
    #[must_use]
    pub fn judge(&self) -> Judgement {
        let inner = self.lock();
        inner.judge(&inner.delivered)
    }

    /// Says which promises another way of delivery has broken, which delivered these copies.
    #[must_use]
    pub fn judge_other(&self, delivered: &[(EventId, Lane, Number)]) -> Judgement {
        self.lock().judge(delivered)
    }

    fn ended(&self, id: EventId, fate: Fate) {
        let mut inner = self.lock();
        let event = inner.appended.get_mut(&id).expect("an event is appended before it ends");
        event.fate = fate;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn judge(&self, delivered: &[(EventId, Lane, Number)]) -> Judgement {
        let mut judgement = Judgement::default();
        let mut seen = BTreeSet::new();
        let mut last: BTreeMap<&Lane, Number> = BTreeMap::new();
        for (id, lane, number) in delivered {
            judgement.flaws.extend(self.untrue(*id, lane, *number));
            if !seen.insert(*id) {
                judgement.copies += 1;
                continue;
            }
            let latest = last.entry(lane).or_insert(*number);
            if *latest > *number {
                let (lane, number, after) = (lane.clone(), *number, *latest);
                judgement.flaws.push(Flaw::Inverted { lane, number, after });
            }
            *latest = (*latest).max(*number);
        }
        judgement.delivered = seen.len();
        for (id, event) in &self.appended {
            if event.fate == Fate::Committed {
                judgement.committed += 1;
                if !seen.contains(id) {
                    let (lane, number) = (event.lane.clone(), event.number);
                    judgement.flaws.push(Flaw::Lost { lane, number });
                }
            }
        }
        judgement
    }

    /// What is untrue about one copy.
    fn untrue(&self, id: EventId, lane: &Lane, number: Number) -> Option<Flaw> {
        let Some(appended) = self.appended.get(&id) else { return Some(Flaw::Invented(id)) };
        if (&appended.lane, appended.number) != (lane, number) {
            return Some(Flaw::OtherContent { id, told: (lane.clone(), number) });
        }
        match appended.fate {
            Fate::RolledBack => Some(Flaw::RolledBack(id)),
            // One whose commit was not acknowledged may have been delivered already.
            Fate::Committed | Fate::Open => None,
        }
    }
}
