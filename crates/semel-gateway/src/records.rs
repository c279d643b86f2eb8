//! What operators do with records: find, lapse, resolve, release.
//!
//! Everything is a compare-and-set on what was read before: between the look and the word the holder
//! may have come back, or a colleague may have been faster.

mod lapse;
mod release;

use std::{fmt, sync::Arc};

use semel::{
    IntentId, Key, Record, Scope, Store, StoreError, Timestamp,
    decide::{Resolution, ResolveAsk, Verdict},
    entropy::{Entropy, SystemEntropy},
    key::Facet,
    policy::Policy,
    store::{
        Actor, Reading,
        capability::{AuditRow, Counts, Filter, Inspect},
    },
};

pub use self::{lapse::Lapse, release::Release};

/// How many records of one key are looked at: an operation whose intents are narrowed by path or
/// content keeps one for each.
const FACETS_MAX: u32 = 100;

/// The records of one store, as operators use them.
#[derive(Clone)]
pub struct Records {
    store: Arc<dyn Store>,
    inspect: Arc<dyn Inspect>,
    entropy: Arc<dyn Entropy>,
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").field("store", &self.store).finish_non_exhaustive()
    }
}

/// A record, and when it was read.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The record.
    pub record: Record,
    /// The store's time at the read.
    pub now: Timestamp,
}

/// What was found under a key.
#[derive(Clone, Debug)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// One record.
    One(Box<Seen>),
    /// Several, narrowed by path or content.
    Several(Vec<Record>),
}

impl Records {
    /// Works on a store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, inspect: Arc<dyn Inspect>) -> Self {
        Self { store, inspect, entropy: Arc::new(SystemEntropy) }
    }

    /// Makes the id of a new resolution.
    #[must_use]
    pub fn new_id(&self) -> [u8; 16] {
        self.entropy.bytes()
    }

    /// Returns the store's time.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be asked.
    pub async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.store.read(Vec::new()).await?.now)
    }

    /// Reads a record by its full name.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be asked.
    pub async fn read(&self, id: IntentId) -> Result<Option<Seen>, StoreError> {
        let reading = self.store.read(vec![id]).await?;
        let now = reading.now;
        let record = reading.records.into_iter().next().flatten();
        Ok(record.map(|record| Seen { record, now }))
    }

    /// Reads records by their full names, at most [`BATCH_MAX`](semel::store::BATCH_MAX).
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be asked.
    pub async fn read_all(&self, ids: Vec<IntentId>) -> Result<Reading, StoreError> {
        self.store.read(ids).await
    }

    /// Finds the record of a key. Without a facet, all that the key names are looked at.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be asked.
    pub async fn find(
        &self,
        scope: &Scope,
        key: &Key,
        facet: Option<Facet>,
    ) -> Result<Found, StoreError> {
        let plain = scope.clone().intent(key.clone());
        if let Some(facet) = facet {
            let seen = self.read(plain.narrowed(facet)).await?;
            return Ok(seen.map_or(Found::Nothing, |seen| Found::One(Box::new(seen))));
        }
        let seen = self.read(plain.clone()).await?;
        let narrowed = Filter {
            tenant: Some(scope.tenant.clone()),
            operation: Some(scope.operation.clone()),
            after: Some(plain),
            limit: FACETS_MAX,
            ..Filter::default()
        };
        let listed = self.inspect.list(narrowed).await?;
        let mut records: Vec<_> =
            listed.into_iter().take_while(|record| record.id.key == *key).collect();
        Ok(match (seen, records.len()) {
            (Some(seen), 0) => Found::One(Box::new(seen)),
            (None, 0) => Found::Nothing,
            (None, 1) => {
                let now = self.now().await?;
                Found::One(Box::new(Seen { record: records.remove(0), now }))
            }
            (seen, _) => {
                records.extend(seen.map(|seen| seen.record));
                records.sort_by(|a, b| a.id.cmp(&b.id));
                Found::Several(records)
            }
        })
    }

    /// Resolves an unknown intent: a compare-and-set on the token and the fence that were seen.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be asked. A repeat with the same id changes nothing.
    pub async fn resolve(
        &self,
        seen: &Seen,
        resolve_id: [u8; 16],
        verdict: Verdict,
        force: bool,
        policy: &Policy,
        actor: Actor,
    ) -> Result<Resolution, StoreError> {
        let ask = ResolveAsk {
            resolve_id,
            token: seen.record.token,
            fence: seen.record.fence,
            verdict,
            settle_for: policy.settle_for,
            force,
            replay_for: policy.replay_for,
            remember_for: policy.remember_for,
        };
        self.store.resolve(seen.record.id.clone(), ask, actor).await
    }

    /// Lists records in the order of their names.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be asked.
    pub async fn list(&self, filter: Filter) -> Result<Vec<Record>, StoreError> {
        self.inspect.list(filter).await
    }

    /// Counts records by state.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be asked.
    pub async fn counts(&self) -> Result<Counts, StoreError> {
        self.inspect.counts().await
    }

    /// Reads the audit, newest first.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be asked.
    pub async fn audit(
        &self,
        id: Option<IntentId>,
        limit: u32,
    ) -> Result<Vec<AuditRow>, StoreError> {
        self.inspect.audit(id, limit).await
    }
}
