//! The six verbs: what is checked before, and which lane does them.

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
    PostgresStore,
    verb::{Claim, Complete, Read, Release, Renewal, Resolve},
};

#[async_trait]
impl Store for PostgresStore {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new("postgres");
        capabilities.durability = Durability::Durable;
        capabilities.time = TimeSource::Server;
        capabilities.shared = true;
        capabilities.transact = true;
        capabilities.bridge = true;
        capabilities.body_max = self.links.settings.body_max;
        capabilities
    }

    async fn claim(&self, asks: Vec<Ask>) -> Result<Vec<Claimed>, StoreError> {
        claims_within_bounds(&asks)?;
        let claims = asks.into_iter().map(|ask| Claim::new(ask, &self.links.secret));
        self.lanes.claims.ask_all(claims.collect()).await
    }

    async fn renew(&self, renewals: Vec<Renew>) -> Result<Vec<Renewed>, StoreError> {
        within_batch(renewals.len())?;
        let renewals = renewals.into_iter().map(|renew| Renewal::new(renew, &self.links.secret));
        self.lanes.renewals.ask_all(renewals.collect()).await
    }

    async fn complete(&self, permit: Permit, finish: Finish) -> Result<Completed, StoreError> {
        finish_within_bounds(&finish, self.links.settings.body_max)?;
        self.lanes.ends.ask(Complete::new(permit, finish, &self.links.secret)).await
    }

    async fn release(&self, id: IntentId, ask: ReleaseAsk) -> Result<Released, StoreError> {
        release_within_bounds(&ask)?;
        self.lanes.releases.ask(Release::new(id, ask, &self.links.secret)).await
    }

    async fn read(&self, ids: Vec<IntentId>) -> Result<Reading, StoreError> {
        within_batch(ids.len())?;
        self.lanes.reads.ask(Read(ids)).await
    }

    async fn resolve(
        &self,
        id: IntentId,
        ask: ResolveAsk,
        actor: Actor,
    ) -> Result<Resolution, StoreError> {
        resolution_within_bounds(&ask, &actor, self.links.settings.body_max)?;
        self.lanes.resolutions.ask(Resolve::new(id, ask, actor, &self.links.secret)).await
    }
}
