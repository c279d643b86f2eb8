//! `semel outbox parked`: what waits beside the cursor of a destination.

use std::collections::HashSet;

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

/// Lists parked events in their order: `failed` ones wait for a word by retry, skip or drop; those that
/// are `aside` are sent again by themselves until the destination takes them, unless a word leaves them
/// out; what is `behind` them goes by itself then
#[derive(Args, Debug)]
pub(super) struct ParkedArgs {
    /// Only of this destination
    #[arg(value_parser = destination)]
    destination: Option<Destination>,
    /// Only of this aggregate, as its type, a slash and its id, as lists show it
    #[arg(long, value_name = "TYPE/ID", value_parser = lane)]
    aggregate: Option<Lane>,
    /// Only in this state
    #[arg(long)]
    state: Option<StateWord>,
    /// Only this event
    #[arg(long, value_name = "ID", value_parser = id)]
    event: Option<EventId>,
    /// How many at most, 1 to 10,000
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// The next page: the number that the last one ended with
    #[arg(long, value_name = "NUMBER")]
    after: Option<u64>,
}

impl ParkedArgs {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        // Only of a list from its beginning the first of an aggregate is known to have none before it.
        let from_start = self.state.is_none() && self.event.is_none() && self.after.is_none();
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
        say(&listed(&rows, from_start, desk.records.now().await?))?;
        if let Some(next) = next {
            say(&format!("\nmore: --after {next}"))?;
        }
        Ok(Exit::Fine)
    }
}

fn listed(rows: &[Parked], from_start: bool, now: Timestamp) -> String {
    if rows.is_empty() {
        return "nothing is parked".into();
    }
    let header =
        ["destination", "event", "aggregate", "type", "state", "attempts", "parked", "why"];
    let mut table = table::plain(header);
    let mut seen = HashSet::new();
    for row in rows {
        let event = &row.placed.event;
        let is_head = seen.insert((&row.destination, &event.lane)) && from_start;
        let state = match row.state {
            ParkedState::Behind if is_head => "aside",
            state => state.as_str(),
        };
        table.add_row([
            row.destination.to_string(),
            event.id.to_string(),
            view::aggregate(event),
            printable(&event.kind),
            state.to_owned(),
            row.attempts.to_string(),
            format!("{} ago", short(now, row.parked_at)),
            printable(&row.why),
        ]);
    }
    table.trim_fmt()
}
