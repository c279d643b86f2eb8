//! Which events of which store.

use std::{collections::HashMap, sync::Arc};

use clap::Args;
use semel::{
    Operation, Timestamp,
    outbox::{
        Destination, EventId, Lane, OutboxInspect,
        store::{DestinationState, EventFilter, READ_MAX},
    },
};

use crate::{
    cli::{
        exit::Failure,
        show::{Moment, moment},
        store::StoreArgs,
    },
    config::Config,
    records::Records,
    stores,
};

/// An open store with an outbox.
pub(in crate::cli) struct Desk {
    pub(in crate::cli) inspect: Arc<dyn OutboxInspect>,
    pub(in crate::cli) records: Records,
    pub(in crate::cli) json: bool,
    pub(in crate::cli) routing: Routing,
}

/// Which events go to a destination, as far as a configuration says.
#[derive(Clone, Default)]
pub(in crate::cli) struct Routing {
    types: HashMap<Destination, Vec<String>>,
}

impl Routing {
    pub(in crate::cli) fn of(config: Option<&Config>) -> Self {
        let named = config.into_iter().flat_map(|config| &config.destination);
        Self { types: named.map(|one| (one.name.clone(), one.types.clone())).collect() }
    }

    /// Says whether the events of an aggregate go there; nothing if no configuration names it.
    pub(super) fn takes(&self, destination: &Destination, lane: &Lane) -> Option<bool> {
        let types = self.types.get(destination)?;
        Some(types.is_empty() || types.iter().any(|kind| kind == lane.kind()))
    }
}

impl Desk {
    pub(in crate::cli) async fn open(store: StoreArgs, json: bool) -> Result<Self, Failure> {
        let (store, config) = store.read()?;
        let opened = stores::open_existing(&store).await?;
        let outbox = opened
            .outbox
            .ok_or_else(|| Failure::usage(format!("the store {} has no outbox", store.url)))?;
        let records = Records::new(opened.store, opened.inspect);
        let routing = Routing::of(config.as_ref());
        Ok(Self { inspect: outbox.inspect, records, json, routing })
    }

    /// Returns every destination, and the store's time.
    pub(in crate::cli) async fn destinations(
        &self,
    ) -> Result<(Vec<DestinationState>, Timestamp), Failure> {
        let states = self.inspect.destinations().await?;
        let now = match states.first() {
            Some(state) => state.now,
            None => self.records.now().await?,
        };
        Ok((states, now))
    }

    /// Returns a destination that is known.
    pub(super) async fn destination(
        &self,
        name: &Destination,
    ) -> Result<DestinationState, Failure> {
        let states = self.inspect.destinations().await?;
        if let Some(state) = states.iter().find(|state| state.destination == *name) {
            return Ok(state.clone());
        }
        let names: Vec<_> = states.iter().map(|state| state.destination.as_str()).collect();
        let what = format!("there is no destination {name}");
        Err(Failure::unknown(&what, &names, "no relay ever led one"))
    }
}

/// As many as a store gives at once.
pub(super) fn most() -> u32 {
    u32::try_from(READ_MAX).unwrap_or(u32::MAX)
}

/// Which events.
#[derive(Args, Debug)]
pub(super) struct Which {
    /// Only this one
    #[arg(long, value_name = "ID", value_parser = id)]
    pub(super) event: Option<EventId>,
    /// Only of this aggregate, as its type, a slash and its id, as lists show it
    #[arg(long, value_name = "TYPE/ID", value_parser = lane)]
    pub(super) aggregate: Option<Lane>,
    /// Only effects of this operation
    #[arg(long)]
    pub(super) operation: Option<Operation>,
    /// Only appended since then: how long ago, such as 2h, or an instant in UTC
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub(super) since: Option<Moment>,
    /// Only appended before then
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub(super) until: Option<Moment>,
}

impl Which {
    /// Says whether it names all events.
    pub(super) const fn is_all(&self) -> bool {
        self.event.is_none()
            && self.aggregate.is_none()
            && self.operation.is_none()
            && self.since.is_none()
            && self.until.is_none()
    }

    pub(super) fn filter(&self, now: Timestamp, limit: u32) -> EventFilter {
        EventFilter {
            id: self.event,
            lane: self.aggregate.clone(),
            operation: self.operation.clone(),
            from: self.since.map(|since| since.instant(now)),
            until: self.until.map(|until| until.instant(now)),
            limit,
            ..EventFilter::default()
        }
    }
}

/// Reads the id of an event.
pub(in crate::cli) fn id(text: &str) -> Result<EventId, String> {
    text.parse().map_err(|_| "the id of an event is a UUID".into())
}

/// Reads the name of a destination.
pub(super) fn destination(text: &str) -> Result<Destination, String> {
    Destination::new(text).map_err(|error| error.to_string())
}

/// Reads an aggregate. The first slash parts its type from its id; one in the type itself is written as
/// [`view::aggregate`](super::view::aggregate) shows it.
pub(super) fn lane(text: &str) -> Result<Lane, String> {
    let (kind, id) = text.split_once('/').ok_or("write the type, a slash and the id")?;
    let kind = kind.replace("%2F", "/").replace("%25", "%");
    Lane::new(kind, id).map_err(|error| error.to_string())
}
