//! Which record of a store.

use std::sync::Arc;

use clap::Args;
use semel::{
    Key, Operation, Policy, Scope, Tenant,
    inbox::InboxInspect,
    key::Facet,
    store::{capability::Sweep, moving::Move},
};

use super::view;
use crate::{
    cli::{exit::Failure, outbox::target::Routing, store::StoreArgs},
    config::{Config, StoreUrl, TenantFrom},
    records::{Found, Records, Seen},
    settings::{StatedDurability, StoreSettings},
    stores::{self, Opened, OutboxPowers},
};

/// The tenant of everybody where there is one tenant only.
const SINGLE_TENANT: &str = "single";

/// An open store, and what is known of the operations in it.
pub(in crate::cli) struct Desk {
    pub(in crate::cli) records: Records,
    pub(in crate::cli) json: bool,
    /// The kind of store.
    pub(in crate::cli) kind: &'static str,
    pub(in crate::cli) mover: Arc<dyn Move>,
    pub(in crate::cli) sweep: Arc<dyn Sweep>,
    pub(in crate::cli) store: StoreSettings,
    pub(in crate::cli) outbox: Option<OutboxPowers>,
    pub(in crate::cli) inbox: Option<Arc<dyn InboxInspect>>,
    config: Option<Config>,
}

impl Desk {
    pub(in crate::cli) async fn open(store: StoreArgs, json: bool) -> Result<Self, Failure> {
        let (store, config) = store.read()?;
        let opened = stores::open_existing(&store).await?;
        Ok(Self::of(store, opened, config, json))
    }

    /// Opens a store that is only looked at, or taken leave of: nothing is acknowledged, so that a server which would
    /// lose that will do.
    pub(in crate::cli) async fn look(store: StoreArgs, json: bool) -> Result<Self, Failure> {
        let (mut store, config) = store.read()?;
        store.redis.accept_volatile = true;
        store.redis.stated.get_or_insert(StatedDurability::Volatile);
        let opened = stores::open_existing(&store).await?;
        Ok(Self::of(store, opened, config, json))
    }

    /// Makes the store if it is missing.
    pub(in crate::cli) async fn make(store: StoreArgs, json: bool) -> Result<Self, Failure> {
        let (store, config) = store.read()?;
        let opened = match &store.url {
            StoreUrl::Memory => stores::open_existing(&store).await?,
            _ => stores::open(&store).await?,
        };
        Ok(Self::of(store, opened, config, json))
    }

    fn of(store: StoreSettings, opened: Opened, config: Option<Config>, json: bool) -> Self {
        let kind = opened.store.capabilities().name;
        let records = Records::new(opened.store, opened.inspect);
        let (mover, sweep) = (opened.mover, opened.sweep);
        let (outbox, inbox) = (opened.outbox, opened.inbox);
        Self { records, json, kind, mover, sweep, store, outbox, inbox, config }
    }

    /// Returns what holds for an operation; the defaults where no configuration knows it.
    pub(in crate::cli) fn policy(&self, operation: &Operation) -> Policy {
        let known = self
            .config
            .as_ref()
            .and_then(|config| config.operation.iter().find(|known| known.name == *operation));
        known.map_or_else(Policy::default, |known| known.policy())
    }

    /// Returns which events go where, as far as the configuration says.
    pub(in crate::cli) fn routing(&self) -> Routing {
        Routing::of(self.config.as_ref())
    }

    /// Says whether the configuration tells whose records there are.
    fn knows_tenants(&self) -> bool {
        self.config.as_ref().is_some_and(|config| config.tenant.is_some())
    }

    fn tenant(&self, said: Option<Tenant>) -> Result<Tenant, Failure> {
        let source = self.config.as_ref().and_then(|config| config.tenant.as_ref());
        let several = source.is_some_and(|tenant| tenant.source != TenantFrom::SingleTenant);
        match said {
            Some(tenant) => Ok(tenant),
            None if several => Err(Failure::usage(
                "say whose record it is: --tenant TENANT, as `semel records list` shows it",
            )),
            None => Ok(Tenant::new(SINGLE_TENANT).expect("the word is a tenant")),
        }
    }
}

/// Which record.
#[derive(Args, Debug)]
pub(in crate::cli) struct Which {
    /// The operation
    pub(in crate::cli) operation: Operation,
    /// The key, as the caller sent it
    pub(in crate::cli) key: Key,
    /// The tenant; can be left out where the configuration says that there is only one
    #[arg(long)]
    pub(in crate::cli) tenant: Option<Tenant>,
    /// Which of several records under one key, as `semel records list` shows it
    #[arg(long, value_name = "HEX", value_parser = view::facet)]
    pub(in crate::cli) facet: Option<Facet>,
}

impl Which {
    pub(in crate::cli) async fn find(self, desk: &Desk) -> Result<Seen, Failure> {
        let assumed = self.tenant.is_none() && !desk.knows_tenants();
        let scope = Scope::new(desk.tenant(self.tenant)?, self.operation);
        match desk.records.find(&scope, &self.key, self.facet).await? {
            Found::One(seen) => Ok(*seen),
            Found::Nothing if assumed => Err(Failure::refused(format!(
                "there is no record of {} {} for the tenant {}, which is looked for where neither \
                 --tenant nor a configuration says whose it is: say --tenant TENANT, as `semel \
                 records list` shows it",
                scope.operation, self.key, scope.tenant
            ))),
            Found::Nothing => Err(Failure::refused(format!(
                "there is no record of {} {} for the tenant {}: it was never claimed, or all about \
                 it is forgotten",
                scope.operation, self.key, scope.tenant
            ))),
            Found::Several(records) => {
                let facets: Vec<_> = records
                    .iter()
                    .map(|record| record.id.facet.as_ref().map_or_else(String::new, view::hex))
                    .collect();
                Err(Failure::usage(format!(
                    "the key names several intents, one for each path or content; say which by \
                     --facet: {}",
                    facets.join(", ")
                )))
            }
        }
    }
}
