//! `semel records`: what an operator does with the records of a store.

mod change;
mod list;
mod moving;
mod outcome;
mod prepared;
pub(super) mod target;
pub(super) mod view;

use clap::{Args, Subcommand};

use self::target::Desk;
use super::{
    exit::{Exit, Failure},
    store::StoreArgs,
};

/// Lists, shows, settles and moves the records of a store
#[derive(Args, Debug)]
pub(super) struct RecordsArgs {
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
    Counts(list::CountsArgs),
    Audit(list::Audit),
    Prepared(prepared::PreparedArgs),
    Lapse(change::Lapse),
    Resolve(change::Resolve),
    Release(change::Release),
    Close(moving::Close),
    Open(moving::Open),
    Export(moving::Export),
    Import(moving::Import),
}

impl RecordsArgs {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let desk = match &self.verb {
            Verb::Import(import) => import.desk(self.store, self.json).await?,
            Verb::List(_)
            | Verb::Show(_)
            | Verb::Counts(_)
            | Verb::Audit(_)
            | Verb::Close(_)
            | Verb::Export(_) => Desk::look(self.store, self.json).await?,
            _ => Desk::open(self.store, self.json).await?,
        };
        match self.verb {
            Verb::List(list) => list.run(&desk).await,
            Verb::Show(show) => show.run(&desk).await,
            Verb::Counts(counts) => counts.run(&desk).await,
            Verb::Audit(audit) => audit.run(&desk).await,
            Verb::Lapse(lapse) => lapse.run(&desk).await,
            Verb::Resolve(resolve) => resolve.run(&desk).await,
            Verb::Prepared(prepared) => prepared.run(&desk).await,
            Verb::Release(release) => release.run(&desk).await,
            Verb::Close(close) => close.run(&desk).await,
            Verb::Open(open) => open.run(&desk).await,
            Verb::Export(export) => export.run(&desk).await,
            Verb::Import(import) => import.run(&desk).await,
        }
    }
}
