//! `semel outbox parked`: what waits beside the cursor of a destination.

use clap::{Args, ValueEnum};
use semel::{
    Timestamp,
    outbox::{Destination, EventId, Lane, Parked, ParkedState, store::ParkedFilter},
};
use serde_json::json;

use super::{
    target::{Desk, destination, id, lane},
    view,
};
use crate::cli::{
    exit::{Exit, Failure, say},
    show::{printable, short},
    table,
};

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StateWord {
    Behind,
    Drop,
    Failed,
    Retry,
    Skip,
}

impl From<StateWord> for ParkedState {
    fn from(word: StateWord) -> Self {
        match word {
            StateWord::Behind => Self::Behind,
            StateWord::Drop => Self::Drop,
            StateWord::Failed => Self::Failed,
            StateWord::Retry => Self::Retry,
            StateWord::Skip => Self::Skip,
        }
    }
}

/// Lists parked events in their order: `failed` ones wait for a word by retry, skip or drop, those
/// `behind` them go by themselves then
#[derive(Args, Debug)]
pub(super) struct ParkedArgs {
    /// Only of this destination
    #[arg(value_parser = destination)]
    destination: Option<Destination>,
    /// Only of this aggregate, as its type, a slash and its id
    #[arg(long, value_name = "TYPE/ID", value_parser = lane)]
    aggregate: Option<Lane>,
    /// Only in this state
    #[arg(long)]
    state: Option<StateWord>,
    /// Only this event
    #[arg(long, value_name = "ID", value_parser = id)]
    event: Option<EventId>,
    /// How many at most
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// The next page: the number that the last one ended with
    #[arg(long, value_name = "NUMBER")]
    after: Option<u64>,
}

impl ParkedArgs {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        let filter = ParkedFilter {
            destination: self.destination,
            lane: self.aggregate,
            state: self.state.map(ParkedState::from),
            id: self.event,
            after: self.after,
            limit: self.limit,
        };
        let rows = desk.inspect.parked(filter).await?;
        let next = table::last_of_full(&rows, self.limit).map(|row| row.seq);
        if desk.json {
            let rows: Vec<_> = rows.iter().map(view::parked).collect();
            say(&json!({ "parked": rows, "next": next }).to_string())?;
            return Ok(Exit::Fine);
        }
        say(&listed(&rows, desk.records.now().await?))?;
        if let Some(next) = next {
            say(&format!("\nmore: --after {next}"))?;
        }
        Ok(Exit::Fine)
    }
}

fn listed(rows: &[Parked], now: Timestamp) -> String {
    if rows.is_empty() {
        return "nothing is parked".into();
    }
    let header =
        ["destination", "event", "aggregate", "type", "state", "attempts", "parked", "why"];
    let mut table = table::plain(header);
    for row in rows {
        let event = &row.placed.event;
        table.add_row([
            row.destination.to_string(),
            event.id.to_string(),
            view::aggregate(event),
            printable(&event.kind),
            row.state.as_str().to_owned(),
            row.attempts.to_string(),
            format!("{} ago", short(now, row.parked_at)),
            printable(&row.why),
        ]);
    }
    table.trim_fmt()
}
