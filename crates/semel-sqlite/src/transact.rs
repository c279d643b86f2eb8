//! Claim, mutate and complete inside the caller's own transaction: key, effect and outcome are
//! committed together or not at all.
//!
//! [`Transact::claim`] takes the transaction away and gives a [`Guard`] for it; only
//! [`Guard::complete`] gives it back, so that a commit without completion does not compile. Dropping
//! the guard rolls back. Nothing is written until then, so there is no lease to keep and nothing to
//! be lost: the transaction is the lease. [`Transact::run`] is the short form: it begins, commits and
//! tries again by itself.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use std::sync::Arc;
//! use rusqlite::{Connection, TransactionBehavior};
//! use semel::{Call, Fingerprint, Key, Operation, Outcome, Policy, Scope, Tenant};
//! use semel_sqlite::{SqliteStore, transact::Atomic};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("shop.db");
//! let store = SqliteStore::builder(&path).open()?;
//! let transact = store.transact();
//! let mut conn = Connection::open(&path)?;
//! conn.execute_batch("CREATE TABLE payment (amount INTEGER)")?;
//!
//! let scope = Scope::new(Tenant::new("acme")?, Operation::new("payments.create")?);
//! let intent = scope.intent(Key::new("order-7")?);
//! let fingerprint = Fingerprint::of_bytes(b"pay 10");
//! let call = Call::new(intent, fingerprint, Arc::new(Policy::default()));
//! for _ in 0..2 {
//!     let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
//!     match transact.claim(tx, &call)? {
//!         Atomic::Run(guard) => {
//!             guard.execute("INSERT INTO payment VALUES (10)", [])?;
//!             guard.complete(Outcome::new(201, "paid"))?.commit()?;
//!         }
//!         Atomic::Replay(_, record) => assert_eq!(record.outcome, Some(Outcome::new(201, "paid"))),
//!         Atomic::Refused(_, refusal) => unreachable!("{refusal:?}"),
//!     }
//! }
//! let payments: u32 = conn.query_row("SELECT count(*) FROM payment", [], |row| row.get(0))?;
//! assert_eq!(payments, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! # What the transaction must be
//!
//! - Begun by `BEGIN IMMEDIATE`, or not used yet: one that has read before holds an old snapshot and
//!   is refused. The claim comes before the first mutation, and outside any savepoint.
//! - On the same file as the store, as database `main`, with `synchronous = FULL` (what SQLite does
//!   unless told otherwise): less is refused, since others answer by what was committed.
//! - Short: it holds the file's only write lock. All other writers wait for it to a bound, and are then
//!   told that the store is busy.
//!
//! While it runs nothing of it is visible to others; what is said in their meantime is "not recorded".
//! `COMMIT` or `ROLLBACK` as text inside the guard is caught: while foreign keys are enforced the
//! commit fails, and in every case the completion does.
//!
//! # A guard cannot be committed
//!
//! ```compile_fail,E0599
//! fn forget_to_complete(guard: semel_sqlite::transact::Guard<'_>) {
//!     guard.commit().unwrap();
//! }
//! ```
//!
//! Nor can the transaction that was given to it:
//!
//! ```compile_fail,E0382
//! fn commit_beside(
//!     transact: &semel_sqlite::transact::Transact,
//!     tx: rusqlite::Transaction<'_>,
//!     call: &semel::Call,
//! ) {
//!     let claimed = transact.claim(tx, call);
//!     tx.commit().unwrap();
//! }
//! ```
//!
//! Nor can a guard be completed twice:
//!
//! ```compile_fail,E0382
//! fn complete_twice(guard: semel_sqlite::transact::Guard<'_>) {
//!     let outcome = semel::Outcome::new(200, "");
//!     guard.complete(outcome.clone()).unwrap();
//!     guard.complete(outcome).unwrap();
//! }
//! ```

mod publish;
mod run;

use std::{cell::RefCell, fmt, ops::Deref, sync::Arc, time::Duration};

use rusqlite::{Connection, DropBehavior, Transaction, TransactionState};
use semel::{
    Call, Outcome, Permit, Policy, Record, Refusal, StoreError, Token,
    decide::{self, Ask, Decision, Finish, FinishKind, Grant, Settle},
    entropy::{Entropy, SystemEntropy},
    outbox::Event,
    store::{claims_within_bounds, finish_within_bounds},
};

pub(crate) use self::run::ATTEMPTS_MAX;
pub use self::run::{Ran, RunError};
use crate::{
    SqliteStore,
    error::{Fault, driver, invalid},
    outbox::{Hints, within_bounds},
    row::Seen,
    step::{Limits, Step},
    time::Time,
};

impl SqliteStore {
    /// Returns what claims inside the caller's own transactions on this store's file.
    #[must_use]
    pub fn transact(&self) -> Transact {
        Transact {
            time: self.readers.time(),
            path: Arc::clone(&self.path),
            body_max: self.body_max,
            // The bound of pages is one of the writer's connection, not of the caller's.
            limits: Limits { page_max: None, ..self.limits },
            entropy: Arc::new(SystemEntropy),
            hints: Arc::clone(&self.hints),
        }
    }
}

/// Claims inside the caller's own transactions.
#[derive(Clone, Debug)]
pub struct Transact {
    time: Arc<Time>,
    path: Arc<str>,
    body_max: usize,
    limits: Limits,
    entropy: Arc<dyn Entropy>,
    hints: Arc<Hints>,
}

/// What a claim inside a transaction meets.
#[derive(Debug)]
#[must_use]
pub enum Atomic<'c> {
    /// Neither run nor replay; the transaction comes back.
    Refused(Transaction<'c>, Refusal),
    /// The kept outcome; the transaction comes back.
    Replay(Transaction<'c>, Box<Record>),
    /// The caller is the holder, as long as the guard lives.
    Run(Guard<'c>),
}

/// A transaction in which an intent is held. It is used like the connection; see the
/// [module](self) for what it makes impossible.
#[must_use = "dropping the guard rolls the transaction back"]
pub struct Guard<'c> {
    tx: Transaction<'c>,
    behavior: DropBehavior,
    transact: Transact,
    held: Box<Held>,
    events: RefCell<Vec<Event>>,
}

/// What is held until the completion writes it.
#[derive(Debug)]
struct Held {
    seen: Option<Seen>,
    granted: Record,
    grant: Grant,
    replay_for: Duration,
    remember_for: Duration,
}

impl Transact {
    /// Claims an intent inside `tx`. Holding it is holding the file's write lock, which `tx` may have
    /// to wait for, as long as its connection waits.
    ///
    /// # Errors
    ///
    /// Fails, and rolls `tx` back, if it is not what the [module](self) asks for, or the store cannot
    /// be asked.
    pub fn claim<'c>(&self, tx: Transaction<'c>, call: &Call) -> Result<Atomic<'c>, StoreError> {
        self.claim_as(tx, call, self.token())
    }

    fn token(&self) -> Token {
        Token::from_bytes(self.entropy.bytes())
    }

    fn claim_as<'c>(
        &self,
        tx: Transaction<'c>,
        call: &Call,
        token: Token,
    ) -> Result<Atomic<'c>, StoreError> {
        let (tx, behavior) = self.own(tx)?;
        let decided = self.decide(&tx, call.ask(token), call)?;
        Ok(match decided {
            Decided::Run(held) => Atomic::Run(self.guard(tx, behavior, held)),
            Decided::Replay(record) => Atomic::Replay(as_before(tx, behavior), record),
            Decided::Refused(refusal) => Atomic::Refused(as_before(tx, behavior), refusal),
        })
    }

    /// Makes a transaction that can carry a claim roll back when it is dropped, and says what it would
    /// have done.
    fn own<'c>(
        &self,
        mut tx: Transaction<'c>,
    ) -> Result<(Transaction<'c>, DropBehavior), StoreError> {
        let behavior = tx.drop_behavior();
        tx.set_drop_behavior(DropBehavior::Rollback);
        self.admit(&tx)?;
        Ok((tx, behavior))
    }

    /// Takes the write lock in a transaction of the caller's, which then rolls back when it is dropped;
    /// says what it would have done.
    pub(crate) fn take<'c>(
        &self,
        tx: Transaction<'c>,
    ) -> Result<(Transaction<'c>, DropBehavior), StoreError> {
        let (tx, behavior) = self.own(tx)?;
        take_lock(&tx, self.token())?;
        Ok((tx, behavior))
    }

    /// Begins a step in a transaction that holds the write lock.
    pub(crate) fn step<'t>(&'t self, tx: &'t Transaction<'_>) -> Result<Step<'t>, Fault> {
        Step::begin(tx, &self.time, self.limits)
    }

    /// Tells those who wait for events that some were appended, and may soon be committed.
    pub(crate) fn appended(&self, events: &[Event]) {
        if !events.is_empty() {
            self.hints.near();
        }
    }

    fn guard<'c>(&self, tx: Transaction<'c>, behavior: DropBehavior, held: Box<Held>) -> Guard<'c> {
        Guard { tx, behavior, transact: self.clone(), held, events: RefCell::default() }
    }

    /// Refuses a transaction that cannot carry a claim.
    fn admit(&self, conn: &Connection) -> Result<(), StoreError> {
        if self.admit_open(conn)? == TransactionState::Read {
            return Err(invalid(
                "the transaction read before it claimed; begin it with TransactionBehavior::Immediate",
            ));
        }
        Ok(())
    }

    /// Refuses a transaction that is not open on this file, or whose commit may be lost.
    fn admit_open(&self, conn: &Connection) -> Result<TransactionState, StoreError> {
        if conn.path() != Some(&*self.path) {
            return Err(invalid("the transaction is on another file than the store; use the same"));
        }
        if conn.is_autocommit() {
            return Err(invalid("the transaction has ended already; begin another"));
        }
        let mut statement = conn.prepare_cached("PRAGMA synchronous").map_err(driver)?;
        let synchronous: i64 = statement.query_row([], |row| row.get(0)).map_err(driver)?;
        if synchronous < SYNCHRONOUS_FULL {
            return Err(invalid(
                "the connection may lose what it commits; set PRAGMA synchronous = FULL before BEGIN",
            ));
        }
        conn.transaction_state(Some("main")).map_err(driver)
    }

    fn decide(&self, conn: &Connection, mut ask: Ask, call: &Call) -> Result<Decided, StoreError> {
        claims_within_bounds(std::slice::from_ref(&ask))?;
        if call.reference.is_some() {
            return Err(invalid("a business reference is not kept here; name none"));
        }
        // A transaction that was not used yet takes the write lock here, before it reads anything.
        take_lock(conn, ask.token)?;
        let mut step = Step::begin(conn, &self.time, self.limits)?;
        let seen = step.read(&call.id)?;
        let now = step.now();
        let record = seen.as_ref().map(|seen| &seen.record);
        let mut decision = decide::claim(record, &ask, now);
        if let Decision::Refuse(Refusal::Incomparable { plan }) = &decision {
            ask.older = call.by_plan.iter().filter_map(|by_plan| by_plan(*plan)).collect();
            decision = decide::claim(record, &ask, now);
        }
        let decided = match (decision, seen) {
            (Decision::Grant(grant), seen) => {
                let record = seen.as_ref().map(|seen| &seen.record);
                let granted = decide::grant(record, &ask, grant, step.floor(), now);
                step.open_pending(ask.token)?;
                let Policy { replay_for, remember_for, .. } = *call.policy;
                let held = Held { seen, granted, grant, replay_for, remember_for };
                return Ok(Decided::Run(Box::new(held)));
            }
            (Decision::Replay, Some(seen)) => Decided::Replay(Box::new(seen.record)),
            (Decision::Lose(refusal), Some(seen)) => {
                step.put(Some(&seen), &decide::lose(&seen.record, now))?;
                Decided::Refused(refusal)
            }
            (Decision::RefuseAndRewind(refusal), Some(seen)) => {
                step.renew(&seen, &decide::rewind(&seen.record, now))?;
                Decided::Refused(refusal)
            }
            (Decision::Refuse(refusal), _) => Decided::Refused(refusal),
            _ => return Err(invalid("the token of this claim was used before; draw a new one")),
        };
        step.end()?;
        Ok(decided)
    }
}

/// The value of `PRAGMA synchronous` for FULL.
const SYNCHRONOUS_FULL: i64 = 2;

enum Decided {
    Refused(Refusal),
    Replay(Box<Record>),
    Run(Box<Held>),
}

fn take_lock(conn: &Connection, token: Token) -> Result<(), Fault> {
    // It deletes nothing, since the token is new; but it is a write.
    conn.prepare_cached(crate::queries::PENDING_CLOSE)?.execute([token.as_bytes()])?;
    Ok(())
}

/// Has a transaction do again what it would have done when it is dropped.
pub(crate) fn as_before(mut tx: Transaction<'_>, behavior: DropBehavior) -> Transaction<'_> {
    tx.set_drop_behavior(behavior);
    tx
}

impl<'c> Guard<'c> {
    /// Returns the proof of the claim. Its fence and derived keys are final if the transaction commits.
    #[must_use]
    pub fn permit(&self) -> Permit {
        self.held.granted.permit()
    }

    /// Returns how the claim was granted.
    #[must_use]
    pub const fn grant(&self) -> Grant {
        self.held.grant
    }

    /// Stores the outcome and gives the transaction back, to be committed.
    ///
    /// # Errors
    ///
    /// Fails, and rolls everything back, if the outcome breaks a bound, the transaction was ended or
    /// the claim undone by a statement inside it, or the store cannot be asked.
    pub fn complete(self, outcome: Outcome) -> Result<Transaction<'c>, StoreError> {
        self.end(FinishKind::Done, outcome)
    }

    /// Stores a final failure, which is an outcome too, and gives the transaction back. What was
    /// mutated in it is committed as well.
    ///
    /// # Errors
    ///
    /// As [`Guard::complete`].
    pub fn fail(self, outcome: Outcome) -> Result<Transaction<'c>, StoreError> {
        self.end(FinishKind::Failed, outcome)
    }

    fn end(self, kind: FinishKind, outcome: Outcome) -> Result<Transaction<'c>, StoreError> {
        let Held { replay_for, remember_for, .. } = *self.held;
        let outcome = Some(outcome);
        let finish = Finish { kind, outcome, reason: None, replay_for, remember_for };
        finish_within_bounds(&finish, self.transact.body_max)?;
        let events = self.events.take();
        within_bounds(&events)?;
        self.store(&finish, &events)?;
        self.transact.appended(&events);
        Ok(as_before(self.tx, self.behavior))
    }

    fn store(&self, finish: &Finish, events: &[Event]) -> Result<(), StoreError> {
        let Held { seen, granted, .. } = &*self.held;
        let token = granted.token;
        let conn: &Connection = &self.tx;
        let mut step = Step::begin(conn, &self.transact.time, self.transact.limits)?;
        if conn.is_autocommit() || !step.close_pending(token)? {
            return Err(invalid(
                "a statement inside the guard ended the transaction or undid the claim; run none that does",
            ));
        }
        let now = step.now();
        let settled = decide::complete(Some(granted), token, granted.fence, finish, now);
        let Settle::Write(next) = settled else {
            return Err(invalid("the claim of this transaction cannot be completed"));
        };
        step.put(seen.as_ref(), &next)?;
        step.append(events)?;
        Ok(step.end()?)
    }
}

impl Deref for Guard<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.tx
    }
}

impl fmt::Debug for Guard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("permit", &self.permit()).finish_non_exhaustive()
    }
}
