//! The reference outbox: events, cursors and parked rows in memory, lost with the process.
//!
//! It shows what every verb means in the fewest words, and serves tests. Several transactions may be
//! open at once: one that commits late has older positions than what was read meanwhile, as on a
//! server. It is bounded by a number of events and refuses new ones past it.

mod cursor;
mod inspect;
mod parked;
mod retain;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::watch;

use self::{cursor::Cursor, parked::ParkedRows};
use super::{
    audit::OutboxAudit,
    event::{Event, EventError, Lane},
    store::{
        Destination, Due, Epoch, Lead, Leader, Led, OutboxHints, OutboxStore, Pass, Placed, Pos,
        READ_MAX, Settle, Settled, Start, Unpark, Window,
    },
};
use crate::{
    clock::{Clock, HostTime, SystemClock, Timestamp},
    error::{StoreError, StoreErrorKind},
};

/// Keeps an outbox in memory. Cheap to clone: every clone is the same outbox.
///
/// ```
/// # use semel::{SystemClock, entropy::SystemEntropy};
/// use semel::outbox::{Event, EventId, Lane, memory::MemoryOutbox};
/// let outbox = MemoryOutbox::new();
/// let id = EventId::new(&SystemClock::new(), &SystemEntropy);
/// let mut transaction = outbox.begin();
/// transaction.append(Event::new(id, Lane::new("order", "7")?, "Placed", None)?)?;
/// transaction.commit().expect("an empty outbox has room");
/// assert_eq!(outbox.len(), 1);
/// # Ok::<(), semel::outbox::EventError>(())
/// ```
#[derive(Clone)]
pub struct MemoryOutbox {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    time: HostTime,
    events_max: usize,
    commits: watch::Sender<u64>,
    inner: Mutex<Inner>,
}

/// A committed event, and by which commit it came.
struct Row {
    placed: Placed,
    commit: u64,
}

#[derive(Default)]
struct Inner {
    pos_last: u64,
    commit_last: u64,
    epoch_last: u64,
    rows: BTreeMap<Pos, Row>,
    /// The positions of each commit whose events are still kept.
    commits: BTreeMap<u64, Vec<Pos>>,
    cursors: HashMap<Destination, Cursor>,
    parked: ParkedRows,
    /// Of events that are kept.
    left_out: BTreeSet<(Pos, Destination)>,
    audit: Vec<OutboxAudit>,
}

impl MemoryOutbox {
    /// The largest number of audit rows; the oldest go first.
    pub const AUDIT_MAX: usize = 10_000;
    /// The default bound on events.
    pub const EVENTS_MAX: usize = 1_000_000;

    /// Makes an empty outbox on the system's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock::new()))
    }

    /// Makes an empty outbox on a given clock.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self::bounded(clock, Self::EVENTS_MAX)
    }

    /// Makes an empty outbox on a given clock that holds at most `events_max` events; past it a
    /// commit is refused as `Full`.
    #[must_use]
    pub fn bounded(clock: Arc<dyn Clock>, events_max: usize) -> Self {
        let time = HostTime::new(&*clock, Timestamp::default());
        let (commits, inner) = (watch::Sender::new(0), Mutex::default());
        Self { shared: Arc::new(Shared { clock, time, events_max, commits, inner }) }
    }

    /// Begins a transaction. Any number may be open at once.
    pub fn begin(&self) -> MemoryTransaction {
        MemoryTransaction { outbox: self.clone(), appended: Vec::new() }
    }

    /// Returns how many events are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().0.rows.len()
    }

    /// Says whether no event is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> (MutexGuard<'_, Inner>, Timestamp) {
        let inner = self.shared.inner.lock().unwrap_or_else(PoisonError::into_inner);
        (inner, self.shared.time.now(&*self.shared.clock))
    }
}

impl Default for MemoryOutbox {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryOutbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryOutbox").field("events", &self.len()).finish_non_exhaustive()
    }
}

/// An open transaction of a [`MemoryOutbox`]. Dropped, it is rolled back.
#[derive(Debug)]
#[must_use = "a transaction that is dropped is rolled back"]
pub struct MemoryTransaction {
    outbox: MemoryOutbox,
    appended: Vec<Placed>,
}

impl MemoryTransaction {
    /// Appends an event; its position is drawn now, as a sequence would give it.
    ///
    /// # Errors
    ///
    /// Says which bound the event breaks.
    pub fn append(&mut self, event: Event) -> Result<Pos, EventError> {
        event.check()?;
        let (mut inner, at) = self.outbox.lock();
        inner.pos_last += 1;
        let pos = Pos(inner.pos_last);
        self.appended.push(Placed { pos, at, event: Arc::new(event), unreadable: None });
        Ok(pos)
    }

    /// Makes what was appended visible at once.
    ///
    /// # Errors
    ///
    /// Fails with kind `Full`, and appends nothing, if the outbox holds as many events as it may.
    pub fn commit(self) -> Result<(), StoreError> {
        let (mut inner, _) = self.outbox.lock();
        if inner.rows.len() + self.appended.len() > self.outbox.shared.events_max {
            return Err(StoreError::new(
                StoreErrorKind::Full,
                "the memory outbox holds as many events as it may; retain fewer or raise the bound",
            ));
        }
        if self.appended.is_empty() {
            return Ok(());
        }
        inner.commit(self.appended);
        drop(inner);
        self.outbox.shared.commits.send_modify(|commits| *commits += 1);
        Ok(())
    }

    /// Forgets what was appended.
    pub fn rollback(self) {}
}

impl Inner {
    fn commit(&mut self, appended: Vec<Placed>) {
        self.commit_last += 1;
        let commit = self.commit_last;
        self.commits.insert(commit, appended.iter().map(|placed| placed.pos).collect());
        let rows = appended.into_iter().map(|placed| (placed.pos, Row { placed, commit }));
        self.rows.extend(rows);
    }

    fn lead(&mut self, ask: &Lead, now: Timestamp) -> Led {
        let begins = match ask.start {
            Start::Earliest => 0,
            Start::Now => self.commit_last,
        };
        let cursor =
            self.cursors.entry(ask.destination.clone()).or_insert_with(|| Cursor::new(begins));
        if let Some((owner, until)) = &cursor.leader
            && now < *until
        {
            return Led::Follower { owner: owner.clone(), ends_in: until.since(now) };
        }
        self.epoch_last += 1;
        cursor.epoch = Epoch(self.epoch_last);
        cursor.leader = Some((ask.owner.clone(), now.after(ask.lease)));
        Led::Leader(Leader {
            destination: ask.destination.clone(),
            epoch: cursor.epoch,
            generation: Cursor::GENERATION,
        })
    }

    /// The cursor of a leadership, if it is the current one.
    fn led(&mut self, leader: &Leader) -> Option<&mut Cursor> {
        let cursor = self.cursors.get_mut(&leader.destination);
        cursor.filter(|cursor| cursor.epoch == leader.epoch)
    }

    fn settle(&mut self, settle: Settle, now: Timestamp) -> Settled {
        let Settle { destination, epoch, upto, ends, park, unpark } = settle;
        let cursor = self.cursors.get_mut(&destination).filter(|cursor| cursor.epoch == epoch);
        let Some(cursor) = cursor else {
            return Settled::Stale;
        };
        match upto.map(|(pass, pos)| cursor.settle(pass, pos, ends)) {
            Some(cursor::Moved::Already) => return Settled::Stored,
            Some(cursor::Moved::Other) => return Settled::Stale,
            Some(cursor::Moved::Here) | None => {}
        }
        for row in &unpark {
            if let Unpark::LeftOut { seq } = row {
                self.note_behind(&destination, *seq, now);
            }
        }
        for pos in unpark.iter().flat_map(|row| self.parked.unpark(row)) {
            if self.rows.contains_key(&pos) {
                self.left_out.insert((pos, destination.clone()));
            }
        }
        park.into_iter().for_each(|row| self.parked.park(&destination, row, now));
        Settled::Stored
    }
}

fn invalid(message: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, message)
}

/// Refuses a settlement that breaks a bound.
fn within_bounds(settle: &Settle) -> Result<(), StoreError> {
    if settle.park.len() > READ_MAX || settle.unpark.len() > READ_MAX {
        return Err(invalid("a settlement has more rows than one may have"));
    }
    if settle.ends && settle.upto.is_none() {
        return Err(invalid("a settlement ends a pass that it does not name"));
    }
    Ok(())
}

#[async_trait]
impl OutboxStore for MemoryOutbox {
    async fn lead(&self, ask: Lead) -> Result<Led, StoreError> {
        if ask.owner.len() > Lead::OWNER_MAX {
            return Err(invalid("the name of a leader is longer than it may be"));
        }
        let (mut inner, now) = self.lock();
        Ok(inner.lead(&ask, now))
    }

    async fn renew(&self, leader: Leader, lease: Duration) -> Result<Settled, StoreError> {
        let (mut inner, now) = self.lock();
        let Some((_, until)) = inner.led(&leader).and_then(|cursor| cursor.leader.as_mut()) else {
            return Ok(Settled::Stale);
        };
        *until = now.after(lease);
        Ok(Settled::Stored)
    }

    async fn resign(&self, leader: Leader) -> Result<Settled, StoreError> {
        let (mut inner, _) = self.lock();
        let Some(cursor) = inner.led(&leader).filter(|cursor| cursor.leader.is_some()) else {
            return Ok(Settled::Stale);
        };
        cursor.leader = None;
        Ok(Settled::Stored)
    }

    async fn read(
        &self,
        leader: Leader,
        after: Option<(Pass, Pos)>,
        limit: usize,
        bytes_max: usize,
    ) -> Result<Window, StoreError> {
        let (mut inner, now) = self.lock();
        let inner = &mut *inner;
        let cursor = inner.cursors.get_mut(&leader.destination);
        let cursor = cursor.ok_or_else(|| invalid("nobody ever led this destination"))?;
        let pass = cursor.open(&inner.commits, inner.commit_last);
        let Some(pass) = pass else {
            return Ok(Window { pass: None, events: Vec::new(), upto: Pos(0), ends: true, now });
        };
        Ok(cursor.window(pass, after, &inner.rows, (limit.clamp(1, READ_MAX), bytes_max), now))
    }

    async fn settle(&self, settle: Settle) -> Result<Settled, StoreError> {
        within_bounds(&settle)?;
        let (mut inner, now) = self.lock();
        Ok(inner.settle(settle, now))
    }

    async fn parked_lanes(
        &self,
        destination: Destination,
        after: Option<Lane>,
    ) -> Result<Vec<Lane>, StoreError> {
        Ok(self.lock().0.parked.lanes(&destination, after.as_ref()))
    }

    async fn due(
        &self,
        destination: Destination,
        limit: usize,
        bytes_max: usize,
    ) -> Result<Vec<Due>, StoreError> {
        Ok(self.lock().0.parked.due(&destination, limit.min(READ_MAX), bytes_max))
    }
}

#[async_trait]
impl OutboxHints for MemoryOutbox {
    /// Tells of commits after the call.
    async fn hinted(&self, wait: Duration) -> Result<bool, StoreError> {
        let mut commits = self.shared.commits.subscribe();
        let until = self.shared.clock.monotonic().after(wait);
        tokio::select! {
            biased;
            changed = commits.changed() => Ok(changed.is_ok()),
            () = self.shared.clock.sleep_until(until) => Ok(false),
        }
    }
}
