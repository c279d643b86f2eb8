//! `semel inbox`: what an operator does with the messages of consumers.

mod change;
mod list;
mod target;
pub(super) mod view;

use clap::{Args, Subcommand};

use self::target::Desk;
use super::{
    exit::{Exit, Failure},
    store::StoreArgs,
};

/// Lists, shows and settles the messages of a store's inbox
#[derive(Args, Debug)]
pub(super) struct InboxArgs {
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
    List(list::List),
    Show(list::Show),
    Consumers(list::Consumers),
    Parked(list::ParkedArgs),
    Retry(change::Retry),
    Skip(change::Skip),
    Drop(change::DropArgs),
    Audit(list::Audit),
}

impl InboxArgs {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let desk = Desk::open(self.store, self.json).await?;
        match self.verb {
            Verb::List(list) => list.run(&desk).await,
            Verb::Show(show) => show.run(&desk).await,
            Verb::Consumers(consumers) => consumers.run(&desk).await,
            Verb::Parked(parked) => parked.run(&desk).await,
            Verb::Retry(retry) => retry.run(&desk).await,
            Verb::Skip(skip) => skip.run(&desk).await,
            Verb::Drop(drop) => drop.run(&desk).await,
            Verb::Audit(audit) => audit.run(&desk).await,
        }
    }
}
