//! What a store can do beyond the six verbs.
//!
//! [`Capabilities`] is plain data, so that an engine can refuse a store that an operation may not
//! use. Each further power is a trait of its own; a store that lacks the power lacks the trait. The
//! power to claim inside the caller's own transaction is not object-safe by nature: each store that
//! has it offers it in its `transact` module, with the caller's transaction as a type parameter.

use std::fmt;

use async_trait::async_trait;
use tokio::sync::broadcast;

use crate::{
    clock::Timestamp,
    decide::{Finish, Verdict},
    error::StoreError,
    key::{IntentId, Operation, Tenant},
    record::{Permit, Phase, Record, State},
    store::{Actor, Reading},
};

/// What survives which loss.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Durability {
    /// What was acknowledged survives a power cut.
    Durable,
    /// What was acknowledged can be lost with the process or the machine.
    Volatile,
}

/// Whose clock decides.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TimeSource {
    /// The clock of the host the store is embedded in.
    Host,
    /// The clock of the store's server.
    Server,
}

/// What a store can do, as plain data.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The store's name, such as `sqlite`.
    pub name: &'static str,
    /// What survives.
    pub durability: Durability,
    /// Whose clock decides.
    pub time: TimeSource,
    /// Whether other processes may use the same records, so that waiters must poll.
    pub shared: bool,
    /// Whether it can claim inside the caller's own transaction.
    pub transact: bool,
    /// Whether what runs behind a permit may end the run by itself, as [`Bridge`] says.
    pub bridge: bool,
    /// The largest outcome body it keeps, in bytes.
    pub body_max: usize,
}

impl Capabilities {
    /// Makes the capabilities of a store that is volatile, private, and keeps 1 MiB bodies.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            durability: Durability::Volatile,
            time: TimeSource::Host,
            shared: false,
            transact: false,
            bridge: false,
            body_max: 1024 * 1024,
        }
    }
}

/// What a look at an intent saw while it held the lock of its name.
#[derive(Clone, Debug, PartialEq)]
pub enum Looked {
    /// Somebody else's transaction holds the lock, and may end the run when it commits. Nobody can say
    /// more until it has.
    Busy,
    /// What is committed: no transaction that is still open has written anything else.
    Seen {
        /// The record; `None` if there is none.
        record: Option<Box<Record>>,
        /// The store's time.
        now: Timestamp,
    },
}

/// Tells whether a run was ended by what runs behind its permit: the application behind a gateway,
/// which completes in a transaction of its own.
///
/// Whoever holds the claim looks before it says anything of the run. What [`Looked::Seen`] says may be
/// old at once: an application that was late may end the run after the look. So what follows is a
/// release or a completion by the same permit, of which the store decides which came first.
#[async_trait]
pub trait Bridge: fmt::Debug + Send + Sync + 'static {
    /// Reads a record while holding the lock of its name, without waiting for the lock.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    async fn look(&self, id: IntentId) -> Result<Looked, StoreError>;
}

/// How much one step of a sweep may do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SweepBudget {
    /// The largest number of records touched in one step.
    pub records: u32,
}

impl Default for SweepBudget {
    fn default() -> Self {
        Self { records: 500 }
    }
}

/// What one step of a sweep did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Swept {
    /// Outcomes dropped; their tombstones stay.
    pub forgotten: u64,
    /// Records deleted.
    pub deleted: u64,
    /// Whether more is due now.
    pub more: bool,
}

/// Drops what retention no longer asks for, in bounded steps.
#[async_trait]
pub trait Sweep: Send + Sync + 'static {
    /// Does one bounded step. Only what [`decide::sweep`](crate::decide::sweep) says is touched, and
    /// the floor of the fences rises to the largest fence deleted, in the same atomic step.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    async fn sweep(&self, budget: SweepBudget) -> Result<Swept, StoreError>;
}

/// Which records to list.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Filter {
    /// Only this tenant's.
    pub tenant: Option<Tenant>,
    /// Only this operation's.
    pub operation: Option<Operation>,
    /// Only in this stored state.
    pub state: Option<State>,
    /// Only running ones whose lease is over.
    pub stuck: bool,
    /// Only after this one, in the order of [`IntentId`]: for the next page.
    pub after: Option<IntentId>,
    /// How many at most; bounded by [`BATCH_MAX`](super::BATCH_MAX).
    pub limit: u32,
}

impl Filter {
    /// Says whether the filter chooses a record at `now`, wherever its page begins.
    #[must_use]
    pub fn lists(&self, record: &Record, now: Timestamp) -> bool {
        let scope = &record.id.scope;
        self.tenant.as_ref().is_none_or(|tenant| *tenant == scope.tenant)
            && self.operation.as_ref().is_none_or(|operation| *operation == scope.operation)
            && self.state.is_none_or(|state| state == record.state)
            && (!self.stuck || (record.state == State::Running && record.lapsed(now)))
            && record.phase(now) != Phase::Absent
    }
}

/// Counts by state, at one instant.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Finished in success or failure and still replayed.
    pub done: u64,
    /// Finished, outcome dropped.
    pub forgotten: u64,
    /// Given back.
    pub open: u64,
    /// Held.
    pub running: u64,
    /// Held past the lease.
    pub stuck: u64,
    /// Nobody can say.
    pub unknown: u64,
    /// When the oldest running claim was granted.
    pub oldest_running: Option<Timestamp>,
}

impl Counts {
    /// Counts a record by what it means at `now`.
    pub fn count(&mut self, record: &Record, now: Timestamp) {
        match record.phase(now) {
            Phase::Absent => {}
            Phase::Forgotten => self.forgotten += 1,
            Phase::Stored(State::Done | State::Failed) => self.done += 1,
            Phase::Stored(State::Open) => self.open += 1,
            Phase::Stored(State::Unknown) => self.unknown += 1,
            Phase::Stored(State::Running) => {
                self.running += 1;
                self.stuck += u64::from(record.lapsed(now));
                let oldest = self.oldest_running.unwrap_or(record.claimed_at);
                self.oldest_running = Some(oldest.min(record.claimed_at));
            }
        }
    }

    /// Adds what was counted elsewhere.
    pub fn add(&mut self, of: &Self) {
        self.done += of.done;
        self.forgotten += of.forgotten;
        self.open += of.open;
        self.running += of.running;
        self.stuck += of.stuck;
        self.unknown += of.unknown;
        self.oldest_running = [self.oldest_running, of.oldest_running].into_iter().flatten().min();
    }

    /// Returns how many there are in all.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.done + self.forgotten + self.open + self.running + self.unknown
    }
}

/// What an audit row tells of.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum AuditKind {
    /// A completion met an ended permit: an effect may have happened twice.
    Conflict,
    /// An operator said that a holder whose lease was over is lost.
    Lapse,
    /// An operator or reconciler gave an intent back.
    Release,
    /// An operator or reconciler resolved an unknown intent.
    Resolve,
}

impl AuditKind {
    /// Returns the word for this kind.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Lapse => "lapse",
            Self::Release => "release",
            Self::Resolve => "resolve",
        }
    }

    /// Returns the kind that a word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Conflict, Self::Lapse, Self::Release, Self::Resolve]
            .into_iter()
            .find(|k| k.as_str() == word)
    }
}

/// One row of the audit.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct AuditRow {
    /// The intent.
    pub id: IntentId,
    /// When, in the store's time.
    pub at: Timestamp,
    /// What happened.
    pub kind: AuditKind,
    /// Who did it; the holder's request for a conflict.
    pub actor: Box<str>,
    /// Why, or what was said.
    pub note: Box<str>,
}

impl AuditRow {
    /// Makes the row of a completion that met an ended permit.
    #[must_use]
    pub fn conflict(permit: &Permit, finish: &Finish, at: Timestamp) -> Self {
        let status = finish.outcome.as_ref().map_or(0, |outcome| outcome.status);
        Self {
            id: permit.id.clone(),
            at,
            kind: AuditKind::Conflict,
            actor: format!("fence {}", permit.fence.get()).into(),
            note: format!("a completion with status {status} came after its permit had ended")
                .into(),
        }
    }

    /// Makes the row of a resolution that was stored.
    #[must_use]
    pub fn resolved(id: &IntentId, verdict: &Verdict, actor: &Actor, at: Timestamp) -> Self {
        Self {
            id: id.clone(),
            at,
            kind: AuditKind::Resolve,
            actor: actor.name.clone(),
            note: format!("{}: {}", verdict.as_str(), actor.note).into(),
        }
    }
}

/// Reads for operators.
#[async_trait]
pub trait Inspect: Send + Sync + 'static {
    /// Lists records in the order of their names.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    async fn list(&self, filter: Filter) -> Result<Vec<Record>, StoreError>;

    /// Counts records by state.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    async fn counts(&self) -> Result<Counts, StoreError>;

    /// Reads the audit, newest first; of one intent, or of all.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    async fn audit(&self, id: Option<IntentId>, limit: u32) -> Result<Vec<AuditRow>, StoreError>;

    /// Writes a row to the audit, such as an operator's release.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next.
    async fn note(&self, row: AuditRow) -> Result<(), StoreError>;
}

/// Something that a store hints at.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Hint {
    /// The run of this intent ended: it was completed, released, or settled.
    Ended(IntentId),
    /// Others may have ended meanwhile, of which nothing was heard.
    Missed,
}

/// Tells in every process that runs have ended, wherever they did. Hints may be lost, come twice, or
/// come late: whoever waits polls too, and asks the store whatever a hint says.
#[async_trait]
pub trait Notify: fmt::Debug + Send + Sync + 'static {
    /// Returns the hints from now on. One that is slow to take them misses the oldest.
    fn hints(&self) -> broadcast::Receiver<Hint>;

    /// Reads records as [`Store::read`](super::Store::read) does, and asks that the ends of their runs
    /// be hinted at from then on: what ended before is what it reads. The wish holds for one minute at
    /// least.
    ///
    /// # Errors
    ///
    /// Fails with a [`StoreError`] whose kind says what the caller does next; of more than
    /// [`BATCH_MAX`](super::BATCH_MAX) ids it reads none.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves hints that nobody waits for.
    async fn watch(&self, ids: Vec<IntentId>) -> Result<Reading, StoreError>;
}
