//! The six verbs.

use std::{collections::HashSet, future::Future};

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use semel::{
    IntentId, Permit, Store, StoreError,
    decide::{Ask, Finish, ReleaseAsk, Resolution, ResolveAsk},
    store::{
        Actor, Claimed, Completed, Reading, Released, Renew, Renewed,
        capability::{Capabilities, TimeSource},
        claims_within_bounds, finish_within_bounds, release_within_bounds,
        resolution_within_bounds, within_batch,
    },
};

use crate::{RedisStore, error::Fault, space::Space, verb};

/// How many items of a batch are on their way at once.
pub(crate) const TOGETHER: usize = 128;

/// Does the items of a batch, some at once, all of them whatever becomes of one. If one fails, nobody is told of the
/// others, of which some may be done.
pub(crate) async fn all<T, F>(items: Vec<F>, together: usize) -> Result<Vec<T>, Fault>
where
    F: Future<Output = Result<T, Fault>>,
{
    let count = items.len();
    let done: Vec<_> = stream::iter(items).buffered(together).collect().await;
    let done: Result<Vec<_>, _> = done.into_iter().collect();
    done.map_err(|fault| if count > 1 { fault.unsure() } else { fault })
}

/// How many of them go together: where an intent is named twice, a later item must see what an earlier one wrote.
fn together<'a>(ids: impl ExactSizeIterator<Item = &'a IntentId>) -> usize {
    let count = ids.len();
    let different: HashSet<_> = ids.collect();
    if different.len() == count { TOGETHER } else { 1 }
}

#[async_trait]
impl Store for RedisStore {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new("redis");
        capabilities.durability = self.durability;
        capabilities.time = TimeSource::Server;
        capabilities.shared = true;
        capabilities.body_max = self.body_max;
        capabilities
    }

    async fn claim(&self, asks: Vec<Ask>) -> Result<Vec<Claimed>, StoreError> {
        claims_within_bounds(&asks)?;
        if let [ask] = &asks[..] {
            return Ok(vec![self.claimed(ask).await?]);
        }
        let together = together(asks.iter().map(|ask| &ask.id));
        Ok(all(asks.iter().map(|ask| self.claimed(ask)).collect(), together).await?)
    }

    async fn renew(&self, renewals: Vec<Renew>) -> Result<Vec<Renewed>, StoreError> {
        within_batch(renewals.len())?;
        let together = together(renewals.iter().map(|renewal| &renewal.id));
        Ok(all(renewals.iter().map(|one| self.renewed(one)).collect(), together).await?)
    }

    async fn complete(&self, permit: Permit, finish: Finish) -> Result<Completed, StoreError> {
        finish_within_bounds(&finish, self.body_max)?;
        Ok(self.completed(&permit, &finish).await?)
    }

    async fn release(&self, id: IntentId, ask: ReleaseAsk) -> Result<Released, StoreError> {
        release_within_bounds(&ask)?;
        Ok(self.released(&id, &ask).await?)
    }

    /// The records of one answer are each as of the moment when it was read, and the time is the earliest of those.
    async fn read(&self, ids: Vec<IntentId>) -> Result<Reading, StoreError> {
        within_batch(ids.len())?;
        self.reading(&ids, false).await
    }

    async fn resolve(
        &self,
        id: IntentId,
        ask: ResolveAsk,
        actor: Actor,
    ) -> Result<Resolution, StoreError> {
        resolution_within_bounds(&ask, &actor, self.body_max)?;
        Ok(self.resolved(&id, &ask, &actor).await?)
    }
}

impl RedisStore {
    /// Reads records; asks to be told of their ends, if they are watched.
    pub(crate) async fn reading(
        &self,
        ids: &[IntentId],
        watched: bool,
    ) -> Result<Reading, StoreError> {
        if ids.is_empty() {
            return Ok(Reading { records: Vec::new(), now: self.now().await? });
        }
        let one = |id| async move {
            let place = Space::place(id);
            if watched { self.watched(&place, id).await } else { self.seen(&place, id).await }
        };
        let seen = all(ids.iter().map(one).collect(), TOGETHER).await?;
        let now = seen.iter().map(|seen| seen.now).min().unwrap_or_default();
        Ok(Reading { records: seen.into_iter().map(|seen| seen.record).collect(), now })
    }

    /// Reads the time, by a script that looks for a record which no name can have.
    pub(crate) async fn now(&self) -> Result<semel::Timestamp, StoreError> {
        let bucket = self.link.space.bucket(0);
        let mut keys = vec![bucket.of("r", b""), bucket.of("o", b"")];
        self.mark(bucket, &mut keys);
        let mut said = self.link.run(0, &self.scripts.read, &keys, &[]).await?;
        Ok(verb::instant(said.swap_remove(0))?)
    }
}
