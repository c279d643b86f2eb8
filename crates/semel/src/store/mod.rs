//! Where records live.
//!
//! A [`Store`] offers six verbs, each one atomic step. Every store decides by
//! [`decide`](crate::decide) and proves it by the conformance suite of `semel-testkit`. What a store
//! can do beyond the verbs is said by its [`Capabilities`] and the traits in [`capability`].
//!
//! Rules that hold for every verb of every store:
//!
//! - An answer is given only when what it says is durable, as far as the store's
//!   [`Durability`] goes.
//! - Time is the store's, read when it decides.
//! - A repeat by the same token (for [`Store::resolve`]: by the same id) changes nothing.
//! - An error of a kind that [is definite](crate::error::StoreErrorKind::is_definite) says that
//!   nothing was written; any other error says nothing.
//! - What breaks a bound is refused as `Invalid` with nothing written: [`claims_within_bounds`] and its
//!   siblings say what does.
//! - Batches are answered in the order asked, decided item by item, and bounded by
//!   [`BATCH_MAX`]; a batch that is too large is refused whole as `Invalid`.
//! - Dropping the future of a verb neither undoes nor repeats it.

mod bounds;
pub mod capability;
pub mod memory;
pub mod moving;

use std::{fmt, time::Duration};

use async_trait::async_trait;

pub use self::{
    bounds::{
        actor_within_bounds, claims_within_bounds, finish_within_bounds, release_within_bounds,
        resolution_within_bounds, row_within_bounds, within_batch, within_bounds,
    },
    capability::{Capabilities, Durability},
};
use crate::{
    clock::Timestamp,
    decide::{Ask, Finish, Grant, Refusal, ReleaseAsk, Resolution, ResolveAsk},
    error::StoreError,
    key::IntentId,
    record::{Fence, Permit, Record, Token},
};

/// The largest number of items in one batch.
pub const BATCH_MAX: usize = 1024;

/// What one claim got.
#[derive(Clone, Debug, PartialEq)]
pub struct Claimed {
    /// The answer.
    pub answer: ClaimAnswer,
    /// The store's time when it decided.
    pub now: Timestamp,
}

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ClaimAnswer {
    /// The caller is the holder.
    Granted {
        /// The proof.
        permit: Permit,
        /// How the claim was granted; `None` for a repeat of a claim that was granted before.
        grant: Option<Grant>,
    },
    /// Neither run nor replay.
    Refused(Refusal),
    /// The kept outcome.
    Replay(Box<Record>),
    /// This token was granted before and has ended since.
    Stale,
    /// The claim came after its `not_after`; nothing was written.
    TooLate,
}

/// A renewal of one lease.
#[derive(Clone, Debug)]
pub struct Renew {
    /// The intent.
    pub id: IntentId,
    /// The claim's token.
    pub token: Token,
    /// The claim's fence.
    pub fence: Fence,
    /// How long the lease lasts from now on.
    pub lease: Duration,
}

impl Renew {
    /// Renews the lease of `permit`.
    #[must_use]
    pub fn of(permit: &Permit, lease: Duration) -> Self {
        Self { id: permit.id.clone(), token: permit.token, fence: permit.fence, lease }
    }
}

/// The answer to a renewal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Renewed {
    /// Somebody's open transaction has the lock of the name. Nobody takes the lease over while it
    /// lasts; but the lease was not renewed, and may be over when it ends.
    Busy,
    /// The lease is renewed.
    Held,
    /// The permit has ended.
    Stale,
}

/// The answer to a completion.
#[derive(Clone, Debug, PartialEq)]
pub enum Completed {
    /// It was stored before by the same token; this is what is kept.
    Already(Box<Record>),
    /// The permit has ended. A completion that says an effect happened was kept as a conflict.
    Stale,
    /// It is stored.
    Stored,
}

/// The answer to a release, with the store's time when it decided while holding the key's lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Released {
    /// What happened.
    pub answer: ReleaseAnswer,
    /// The store's time.
    pub now: Timestamp,
}

/// What a release met.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReleaseAnswer {
    /// It was released before by the same token.
    Already,
    /// Nothing is held by this token. Definite only when the store's time is past the `not_after` of
    /// the claim.
    NotHeld,
    /// It is released.
    Stored,
}

/// What a read saw.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The records, in the order asked; `None` where none is stored.
    pub records: Vec<Option<Record>>,
    /// The store's time.
    pub now: Timestamp,
}

/// Who resolves an intent, and why: kept in the audit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Actor {
    /// Who, at most [`Actor::NAME_MAX`] bytes.
    pub name: Box<str>,
    /// Why, at most [`Actor::NOTE_MAX`] bytes.
    pub note: Box<str>,
}

impl Actor {
    /// The largest name, in bytes.
    pub const NAME_MAX: usize = 255;
    /// The largest note, in bytes.
    pub const NOTE_MAX: usize = 1_000;
}

/// The six verbs every store offers.
///
/// # Errors
///
/// Every verb fails with a [`StoreError`] whose kind says what the caller does next.
///
/// # Cancel safety
///
/// A verb whose future is dropped may or may not have happened. The caller asks again by the same
/// token.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Says what this store can do.
    fn capabilities(&self) -> Capabilities;

    /// Claims intents: decides each by [`decide::claim`](crate::decide::claim) and writes what that
    /// says.
    async fn claim(&self, asks: Vec<Ask>) -> Result<Vec<Claimed>, StoreError>;

    /// Renews leases.
    async fn renew(&self, renewals: Vec<Renew>) -> Result<Vec<Renewed>, StoreError>;

    /// Stores the end of a run.
    async fn complete(&self, permit: Permit, finish: Finish) -> Result<Completed, StoreError>;

    /// Gives an intent back.
    async fn release(&self, id: IntentId, ask: ReleaseAsk) -> Result<Released, StoreError>;

    /// Reads records and the store's time, without a lock. An empty list reads the time alone.
    async fn read(&self, ids: Vec<IntentId>) -> Result<Reading, StoreError>;

    /// Resolves an unknown intent, and writes who did it to the audit.
    async fn resolve(
        &self,
        id: IntentId,
        ask: ResolveAsk,
        actor: Actor,
    ) -> Result<Resolution, StoreError>;
}
