//! `semel outbox`: what an operator does with events, destinations and parked aggregates.

mod change;
mod destinations;
pub(super) mod events;
mod import;
mod parked;
pub(super) mod target;
pub(super) mod view;

use clap::{Args, Subcommand};

use self::target::Desk;
use super::{
    exit::{Exit, Failure},
    store::StoreArgs,
};

/// Lists, shows and settles the events of a store's outbox
#[derive(Args, Debug)]
pub(super) struct OutboxArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Prints JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    List(events::List),
    Show(events::Show),
    Destinations(destinations::Destinations),
    Parked(parked::ParkedArgs),
    Retry(change::Retry),
    Skip(change::Skip),
    Drop(change::DropArgs),
    Replay(change::Replay),
    Forget(change::Forget),
    Audit(destinations::Audit),
    ImportDebezium(Box<import::Import>),
}

impl OutboxArgs {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let (store, json) = (self.store, self.json);
        let open = async |store| Desk::open(store, json).await;
        match self.verb {
            Verb::List(list) => list.run(&open(store).await?).await,
            Verb::Show(show) => show.run(&open(store).await?).await,
            Verb::Destinations(destinations) => destinations.run(&open(store).await?).await,
            Verb::Parked(parked) => parked.run(&open(store).await?).await,
            Verb::Retry(retry) => retry.run(&open(store).await?).await,
            Verb::Skip(skip) => skip.run(&open(store).await?).await,
            Verb::Drop(drop) => drop.run(&open(store).await?).await,
            Verb::Replay(replay) => replay.run(&open(store).await?).await,
            Verb::Forget(forget) => forget.run(&open(store).await?).await,
            Verb::Audit(audit) => audit.run(&open(store).await?).await,
            // It needs no outbox that is open, and the right to change a table.
            Verb::ImportDebezium(import) => import.run(store, json).await,
        }
    }
}
