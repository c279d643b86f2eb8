//! `semel outbox`: what an operator does with events, destinations and parked aggregates.

mod change;
mod destinations;
pub(super) mod events;
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
}

impl OutboxArgs {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let desk = Desk::open(self.store, self.json).await?;
        match self.verb {
            Verb::List(list) => list.run(&desk).await,
            Verb::Show(show) => show.run(&desk).await,
            Verb::Destinations(destinations) => destinations.run(&desk).await,
            Verb::Parked(parked) => parked.run(&desk).await,
            Verb::Retry(retry) => retry.run(&desk).await,
            Verb::Skip(skip) => skip.run(&desk).await,
            Verb::Drop(drop) => drop.run(&desk).await,
            Verb::Replay(replay) => replay.run(&desk).await,
            Verb::Forget(forget) => forget.run(&desk).await,
            Verb::Audit(audit) => audit.run(&desk).await,
        }
    }
}
