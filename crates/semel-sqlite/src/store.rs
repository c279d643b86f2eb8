//! The six verbs: where each is answered.

use std::collections::HashSet;

use async_trait::async_trait;
use semel::{
    IntentId, Permit, Store, StoreError,
    decide::{Ask, Finish, ReleaseAsk, Resolution, ResolveAsk},
    store::{
        Actor, Claimed, Completed, Reading, Released, Renew, Renewed,
        capability::{Capabilities, Durability, TimeSource},
        claims_within_bounds, finish_within_bounds, release_within_bounds,
        resolution_within_bounds, within_batch,
    },
};

use crate::{
    SqliteStore,
    queue::Lane,
    verb::{self, Asked, Claim, Complete, Release, Renewals, Resolve, Verb},
};

impl SqliteStore {
    /// Has the writer do a verb.
    pub(crate) async fn write<V: Verb>(
        &self,
        lane: Lane,
        verb: V,
    ) -> Result<V::Answer, StoreError> {
        self.writer.ask(lane, verb).await
    }

    /// Answers what the committed records answer, and has the writer do the rest, in order.
    async fn claimed(&self, asks: Vec<Ask>) -> Result<Vec<Claimed>, StoreError> {
        let ids = asks.iter().map(|ask| ask.id.clone()).collect();
        let look = self.readers.look(ids, false).await?;
        let mut rest = Vec::new();
        let mut answered = Vec::with_capacity(asks.len());
        for (ask, seen) in asks.into_iter().zip(look.seen) {
            let new = seen.is_none();
            let done = verb::answered(&ask, seen, look.now);
            if done.is_none() {
                rest.push(Asked { ask, new });
            }
            answered.push(done);
        }
        if rest.is_empty() {
            return Ok(answered.into_iter().flatten().collect());
        }
        let mut granted = self.write(Lane::Later, Claim(rest)).await?.into_iter();
        Ok(answered.into_iter().filter_map(|done| done.or_else(|| granted.next())).collect())
    }
}

/// Whether an intent is named twice: then a later item must see what an earlier one wrote.
fn repeats(asks: &[Ask]) -> bool {
    let mut ids = HashSet::with_capacity(asks.len());
    asks.len() > 1 && !asks.iter().all(|ask| ids.insert(&ask.id))
}

#[async_trait]
impl Store for SqliteStore {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new("sqlite");
        capabilities.durability = Durability::Durable;
        capabilities.time = TimeSource::Host;
        capabilities.shared = true;
        capabilities.transact = true;
        capabilities.body_max = self.body_max;
        capabilities
    }

    async fn claim(&self, asks: Vec<Ask>) -> Result<Vec<Claimed>, StoreError> {
        claims_within_bounds(&asks)?;
        if repeats(&asks) {
            let asks = asks.into_iter().map(|ask| Asked { ask, new: false }).collect();
            return self.write(Lane::Later, Claim(asks)).await;
        }
        self.claimed(asks).await
    }

    async fn renew(&self, renewals: Vec<Renew>) -> Result<Vec<Renewed>, StoreError> {
        within_batch(renewals.len())?;
        self.write(Lane::First, Renewals(renewals)).await
    }

    async fn complete(&self, permit: Permit, finish: Finish) -> Result<Completed, StoreError> {
        finish_within_bounds(&finish, self.body_max)?;
        self.write(Lane::First, Complete::new(permit, finish)).await
    }

    async fn release(&self, id: IntentId, ask: ReleaseAsk) -> Result<Released, StoreError> {
        release_within_bounds(&ask)?;
        // Without a fence the answer to the claim was lost, and the claim may still be waiting: the
        // release goes behind it, so that it meets what it is to undo.
        let lane = if ask.fence.is_some() { Lane::First } else { Lane::Later };
        self.write(lane, Release(id, ask)).await
    }

    async fn read(&self, ids: Vec<IntentId>) -> Result<Reading, StoreError> {
        within_batch(ids.len())?;
        let look = self.readers.look(ids, true).await?;
        let records = look.seen.into_iter().map(|seen| seen.map(|seen| seen.record)).collect();
        Ok(Reading { records, now: look.now })
    }

    async fn resolve(
        &self,
        id: IntentId,
        ask: ResolveAsk,
        actor: Actor,
    ) -> Result<Resolution, StoreError> {
        resolution_within_bounds(&ask, &actor, self.body_max)?;
        self.write(Lane::Later, Resolve(id, ask, actor)).await
    }
}
