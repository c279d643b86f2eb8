//! The reference store: records in memory, lost with the process.
//!
//! It shows what every verb means in the fewest words, and serves tests and operations whose effect
//! is lost with the process too. It is bounded by a number of records and refuses new ones past it.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use tokio::sync::broadcast;

use super::{
    Actor, BATCH_MAX, ClaimAnswer, Claimed, Completed, Reading, ReleaseAnswer, Released, Renew,
    Renewed, Store,
    capability::{
        AuditRow, Bridge, Capabilities, Counts, Filter, Hint, Inspect, Looked, Notify, Sweep,
        SweepBudget, Swept,
    },
    claims_within_bounds, finish_within_bounds,
    moving::{self, Brought, Closed, Move, Standing, Trail},
    release_within_bounds, resolution_within_bounds, within_batch,
};
use crate::{
    clock::{Clock, HostTime, SystemClock, Timestamp},
    decide::{
        self, Ask, Decision, Finish, FinishKind, ReleaseAsk, Resolution, ResolveAsk,
        ResolveDecision, Settle,
    },
    error::{StoreError, StoreErrorKind},
    key::IntentId,
    outcome::Outcome,
    record::{Fence, Permit, Record, State},
};

/// Keeps records in memory.
///
/// ```
/// use semel::{Store, store::memory::MemoryStore};
/// let store = MemoryStore::new();
/// assert_eq!(store.capabilities().name, "memory");
/// ```
#[derive(Debug)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    time: HostTime,
    records_max: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    records: HashMap<IntentId, Box<Record>>,
    audit: Vec<AuditRow>,
    floor: Fence,
    closed: Option<Closed>,
    hints: broadcast::Sender<Hint>,
}

impl Default for Inner {
    fn default() -> Self {
        let hints = broadcast::Sender::new(MemoryStore::HINTS_MAX);
        Self {
            records: HashMap::new(),
            audit: Vec::new(),
            floor: Fence::default(),
            closed: None,
            hints,
        }
    }
}

impl MemoryStore {
    /// The largest number of audit rows; the oldest go first.
    pub const AUDIT_MAX: usize = 10_000;
    /// How many hints whoever takes them may be behind.
    const HINTS_MAX: usize = 256;
    /// The default bound on records.
    pub const RECORDS_MAX: usize = 1_000_000;

    /// Makes an empty store on the system's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock::new()))
    }

    /// Makes an empty store on a given clock.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        let time = HostTime::new(&*clock, Timestamp::default());
        Self { clock, time, records_max: Self::RECORDS_MAX, inner: Mutex::default() }
    }

    /// Sets the largest number of records; past it, claims of new intents are refused as `Full`.
    #[must_use]
    pub const fn records_max(mut self, records: usize) -> Self {
        self.records_max = records;
        self
    }

    fn lock(&self) -> (MutexGuard<'_, Inner>, Timestamp) {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        (inner, self.time.now(&*self.clock))
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new("memory");
        capabilities.body_max = Outcome::BODY_MAX;
        capabilities.bridge = true;
        capabilities
    }

    async fn claim(&self, asks: Vec<Ask>) -> Result<Vec<Claimed>, StoreError> {
        claims_within_bounds(&asks)?;
        let (mut inner, now) = self.lock();
        inner.has_room(&asks, now, self.records_max)?;
        let claimed = |ask| Ok(Claimed { answer: inner.claim(ask, now)?, now });
        asks.iter().map(claimed).collect()
    }

    async fn renew(&self, renewals: Vec<Renew>) -> Result<Vec<Renewed>, StoreError> {
        within_batch(renewals.len())?;
        let (mut inner, now) = self.lock();
        let renewed = renewals.into_iter().map(|r| {
            match decide::renew(inner.seen(&r.id), r.token, r.fence, r.lease, now) {
                Settle::Write(next) => inner.put(next).map(|()| Renewed::Held),
                Settle::Already | Settle::Stale => Ok(Renewed::Stale),
            }
        });
        renewed.collect()
    }

    async fn complete(&self, permit: Permit, finish: Finish) -> Result<Completed, StoreError> {
        finish_within_bounds(&finish, Outcome::BODY_MAX)?;
        let (mut inner, now) = self.lock();
        let seen = inner.seen(&permit.id);
        match decide::complete(seen, permit.token, permit.fence, &finish, now) {
            Settle::Already => Ok(seen
                .map_or(Completed::Stale, |record| Completed::Already(Box::new(record.clone())))),
            Settle::Stale => {
                if finish.kind != FinishKind::Unknown {
                    inner.note(AuditRow::conflict(&permit, &finish, now));
                }
                Ok(Completed::Stale)
            }
            Settle::Write(next) => {
                inner.put(next)?;
                Ok(Completed::Stored)
            }
        }
    }

    async fn release(&self, id: IntentId, ask: ReleaseAsk) -> Result<Released, StoreError> {
        release_within_bounds(&ask)?;
        let (mut inner, now) = self.lock();
        let answer = match decide::release(inner.seen(&id), &ask, now) {
            Settle::Already => ReleaseAnswer::Already,
            Settle::Stale => ReleaseAnswer::NotHeld,
            Settle::Write(next) => {
                inner.put(next)?;
                ReleaseAnswer::Stored
            }
        };
        Ok(Released { answer, now })
    }

    async fn read(&self, ids: Vec<IntentId>) -> Result<Reading, StoreError> {
        within_batch(ids.len())?;
        let (inner, now) = self.lock();
        let records = ids.iter().map(|id| inner.seen(id).cloned()).collect();
        Ok(Reading { records, now })
    }

    async fn resolve(
        &self,
        id: IntentId,
        ask: ResolveAsk,
        actor: Actor,
    ) -> Result<Resolution, StoreError> {
        resolution_within_bounds(&ask, &actor, Outcome::BODY_MAX)?;
        let (mut inner, now) = self.lock();
        Ok(match decide::resolve(inner.seen(&id), &ask, now) {
            ResolveDecision::Already => Resolution::Already,
            ResolveDecision::Absent => Resolution::Absent,
            ResolveDecision::Changed(state) => Resolution::Changed(state),
            ResolveDecision::TooEarly(until) => Resolution::TooEarly(until),
            ResolveDecision::Write(next) => {
                inner.put(next)?;
                inner.note(AuditRow::resolved(&id, &ask.verdict, &actor, now));
                Resolution::Stored
            }
        })
    }
}

impl Inner {
    /// Refuses a batch that would not fit, so that a batch that fails has written nothing.
    fn has_room(&self, asks: &[Ask], now: Timestamp, records_max: usize) -> Result<(), StoreError> {
        if self.records.len() + asks.len() <= records_max {
            return Ok(());
        }
        let new = |ask: &&Ask| !self.records.contains_key(&ask.id) && now <= ask.not_after;
        let new: HashSet<_> = asks.iter().filter(new).map(|ask| &ask.id).collect();
        if !new.is_empty() && self.records.len() + new.len() > records_max {
            return Err(full());
        }
        Ok(())
    }

    fn claim(&mut self, ask: &Ask, now: Timestamp) -> Result<ClaimAnswer, StoreError> {
        let seen = self.seen(&ask.id);
        Ok(match decide::claim(seen, ask, now) {
            Decision::Grant(grant) => {
                let next = decide::grant(seen, ask, grant, self.floor, now);
                let permit = next.permit();
                self.put(Box::new(next))?;
                ClaimAnswer::Granted { permit, grant: Some(grant) }
            }
            Decision::Lose(refusal) => {
                let next = seen.map(|record| decide::lose(record, now));
                next.into_iter().try_for_each(|next| self.put(Box::new(next)))?;
                ClaimAnswer::Refused(refusal)
            }
            Decision::RefuseAndRewind(refusal) => {
                let next = seen.map(|record| decide::rewind(record, now));
                next.into_iter().try_for_each(|next| self.put(Box::new(next)))?;
                ClaimAnswer::Refused(refusal)
            }
            Decision::Refuse(refusal) => ClaimAnswer::Refused(refusal),
            Decision::Replay => {
                seen.map_or(ClaimAnswer::Stale, |r| ClaimAnswer::Replay(Box::new(r.clone())))
            }
            Decision::Stale => ClaimAnswer::Stale,
            Decision::TooLate => ClaimAnswer::TooLate,
            Decision::Yours => seen.map_or(ClaimAnswer::Stale, |record| ClaimAnswer::Granted {
                permit: record.permit(),
                grant: None,
            }),
        })
    }

    fn seen(&self, id: &IntentId) -> Option<&Record> {
        self.records.get(id).map(|record| &**record)
    }

    fn put(&mut self, record: Box<Record>) -> Result<(), StoreError> {
        if let Some(why) = self.closed {
            return Err(why.refusal());
        }
        let ended = (record.state != State::Running).then(|| record.id.clone());
        let before = self.records.insert(record.id.clone(), record);
        if let Some(id) = ended.filter(|_| before.is_some_and(|was| was.state == State::Running)) {
            // Where nobody listens nobody needs it.
            self.hints.send(Hint::Ended(id)).ok();
        }
        Ok(())
    }

    /// Refuses to bring anything into a store that is not closed for it.
    fn is_arriving(&self) -> Result<(), StoreError> {
        if self.closed == Some(Closed::Arriving) { Ok(()) } else { Err(moving::not_arriving()) }
    }

    fn note(&mut self, row: AuditRow) {
        if self.audit.len() >= MemoryStore::AUDIT_MAX {
            self.audit.remove(0);
        }
        self.audit.push(row);
    }
}

fn full() -> StoreError {
    StoreError::new(
        StoreErrorKind::Full,
        "the memory store holds as many records as it may; sweep it or raise the bound",
    )
}

#[async_trait]
impl Sweep for MemoryStore {
    async fn sweep(&self, budget: SweepBudget) -> Result<Swept, StoreError> {
        let (mut inner, now) = self.lock();
        let budget = usize::try_from(budget.records).unwrap_or(usize::MAX).max(1);
        let due: Vec<_> = inner
            .records
            .values()
            .map(|record| (decide::sweep(record, now), record))
            .filter(|(verdict, _)| *verdict != decide::Sweep::Keep)
            .map(|(verdict, record)| (verdict, record.id.clone()))
            .take(budget.saturating_add(1))
            .collect();
        let mut swept = Swept { more: due.len() > budget, ..Swept::default() };
        for (verdict, id) in due.into_iter().take(budget) {
            match verdict {
                decide::Sweep::Delete => {
                    let fence = inner.records.remove(&id).map(|record| record.fence);
                    inner.floor = inner.floor.max(fence.unwrap_or_default());
                    swept.deleted += 1;
                }
                decide::Sweep::Forget => {
                    let record = inner.records.get_mut(&id);
                    record.into_iter().for_each(|record| record.outcome = None);
                    swept.forgotten += 1;
                }
                decide::Sweep::Keep => {}
            }
        }
        Ok(swept)
    }
}

/// Never busy: no verb leaves the lock held.
#[async_trait]
impl Bridge for MemoryStore {
    async fn look(&self, id: IntentId) -> Result<Looked, StoreError> {
        let (inner, now) = self.lock();
        let record = inner.seen(&id).map(|record| Box::new(record.clone()));
        Ok(Looked::Seen { record, now })
    }
}

/// Hints at every end, whether or not somebody asked for it.
#[async_trait]
impl Notify for MemoryStore {
    fn hints(&self) -> broadcast::Receiver<Hint> {
        self.lock().0.hints.subscribe()
    }

    async fn watch(&self, ids: Vec<IntentId>) -> Result<Reading, StoreError> {
        self.read(ids).await
    }
}

#[async_trait]
impl Inspect for MemoryStore {
    async fn list(&self, filter: Filter) -> Result<Vec<Record>, StoreError> {
        let limit = usize::try_from(filter.limit).unwrap_or(BATCH_MAX).min(BATCH_MAX);
        let (inner, now) = self.lock();
        let mut records: Vec<_> = inner
            .records
            .values()
            .map(|r| &**r)
            .filter(|r| filter.after.as_ref().is_none_or(|after| r.id > *after))
            .filter(|r| filter.lists(r, now))
            .cloned()
            .collect();
        records.sort_by(|a, b| a.id.cmp(&b.id));
        records.truncate(limit);
        Ok(records)
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        let (inner, now) = self.lock();
        let mut counts = Counts::default();
        inner.records.values().for_each(|record| counts.count(record, now));
        Ok(counts)
    }

    async fn audit(&self, id: Option<IntentId>, limit: u32) -> Result<Vec<AuditRow>, StoreError> {
        let limit = usize::try_from(limit).unwrap_or(BATCH_MAX).min(BATCH_MAX);
        let (inner, _) = self.lock();
        let rows = inner.audit.iter().rev();
        let rows = rows.filter(|row| id.as_ref().is_none_or(|id| *id == row.id));
        Ok(rows.take(limit).cloned().collect())
    }

    async fn note(&self, row: AuditRow) -> Result<(), StoreError> {
        self.lock().0.note(row);
        Ok(())
    }
}

#[async_trait]
impl Move for MemoryStore {
    async fn standing(&self) -> Result<Standing, StoreError> {
        let (inner, _) = self.lock();
        Ok(Standing { closed: inner.closed, floor: inner.floor })
    }

    async fn close(&self, why: Closed) -> Result<(), StoreError> {
        self.lock().0.closed = Some(why);
        Ok(())
    }

    async fn open(&self) -> Result<(), StoreError> {
        self.lock().0.closed = None;
        Ok(())
    }

    async fn bring(&self, records: Vec<Record>) -> Result<Vec<Brought>, StoreError> {
        moving::records_within_bounds(&records)?;
        let (mut inner, now) = self.lock();
        inner.is_arriving()?;
        let new = records.iter().filter(|record| !inner.records.contains_key(&record.id)).count();
        if inner.records.len() + new > self.records_max {
            return Err(full());
        }
        let brought = records.into_iter().map(|record| {
            let kept = inner.seen(&record.id);
            Brought::of(kept, &record, now).unwrap_or_else(|| {
                inner.records.insert(record.id.clone(), Box::new(record));
                Brought::Stored
            })
        });
        Ok(brought.collect())
    }

    async fn recall(&self, rows: Vec<AuditRow>) -> Result<u64, StoreError> {
        moving::rows_within_bounds(&rows)?;
        let (mut inner, _) = self.lock();
        inner.is_arriving()?;
        let new: Vec<_> = rows.into_iter().filter(|row| !inner.audit.contains(row)).collect();
        let count = u64::try_from(new.len()).unwrap_or(u64::MAX);
        new.into_iter().for_each(|row| inner.note(row));
        Ok(count)
    }

    async fn raise(&self, floor: Fence) -> Result<(), StoreError> {
        let (mut inner, _) = self.lock();
        inner.floor = inner.floor.max(floor);
        Ok(())
    }

    /// Pages are counted from the oldest row, which stays while nothing is noted.
    async fn trail(&self, from: u64) -> Result<Trail, StoreError> {
        let (inner, _) = self.lock();
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(inner.audit.len());
        let to = from.saturating_add(BATCH_MAX).min(inner.audit.len());
        let next = (to < inner.audit.len()).then(|| u64::try_from(to).unwrap_or(u64::MAX));
        Ok(Trail { rows: inner.audit[from..to].to_vec(), next })
    }
}
