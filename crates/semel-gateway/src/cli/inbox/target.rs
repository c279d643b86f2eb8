//! Which messages of which store.

use std::sync::Arc;

use clap::Args;
use semel::inbox::{Consumer, InboxInspect, MessageId, SourceName};

use crate::{
    cli::{exit::Failure, store::StoreArgs},
    records::Records,
    stores,
};

/// An open store with an inbox.
pub(super) struct Desk {
    pub(super) inspect: Arc<dyn InboxInspect>,
    pub(super) records: Records,
    pub(super) json: bool,
}

impl Desk {
    pub(super) async fn open(store: StoreArgs, json: bool) -> Result<Self, Failure> {
        let (store, _) = store.read()?;
        let opened = stores::open_existing(&store).await?;
        let inspect = opened
            .inbox
            .ok_or_else(|| Failure::usage(format!("the store {} has no inbox", store.url)))?;
        Ok(Self { inspect, records: Records::new(opened.store, opened.inspect), json })
    }

    /// Refuses a consumer that the store knows nothing of, and names those that it knows.
    pub(super) async fn known(&self, consumer: &Consumer) -> Result<(), Failure> {
        let states = self.inspect.consumers().await?;
        if states.iter().any(|state| state.consumer == *consumer) {
            return Ok(());
        }
        let names: Vec<_> = states.iter().map(|state| state.consumer.as_str()).collect();
        let what = format!("nothing is known of a consumer {consumer}");
        Err(Failure::unknown(&what, &names, "none has had a message yet"))
    }
}

/// Which message.
#[derive(Args, Debug)]
pub(super) struct Which {
    /// The consumer
    #[arg(value_parser = consumer)]
    pub(super) consumer: Consumer,
    /// The source, as `semel inbox list` shows it
    #[arg(value_parser = source)]
    source: SourceName,
    /// The message's id in its source
    id: String,
}

impl Which {
    pub(super) fn message(&self) -> Result<MessageId, Failure> {
        message(self.source.clone(), &self.id)
    }
}

/// Names a message.
pub(super) fn message(source: SourceName, id: &str) -> Result<MessageId, Failure> {
    MessageId::new(source, id).map_err(|error| Failure::usage(error.to_string()))
}

/// Reads the name of a consumer.
pub(super) fn consumer(text: &str) -> Result<Consumer, String> {
    Consumer::new(text).map_err(|error| error.to_string())
}

/// Reads the name of a source.
pub(super) fn source(text: &str) -> Result<SourceName, String> {
    SourceName::new(text).map_err(|error| error.to_string())
}
