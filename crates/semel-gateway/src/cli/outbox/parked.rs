//! `semel outbox parked`: what waits beside the cursor of a destination.

use std::collections::HashSet;

use clap::{Args, ValueEnum};
use semel::{
    Timestamp,
    outbox::{Destination, EventId, Lane, Parked, ParkedState, store::ParkedFilter},
};
use serde_json::json;

use super::{
    target::{Desk, destination, id, lane, most},
    view,
};
use crate::cli::{
    exit::{Exit, Failure, say},
    show::{printable, short},
    table,
};

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StateWord {
    Aside,
    Behind,
    Drop,
    Failed,
    Retry,
    Skip,
}

impl StateWord {
    /// Returns the state of a row as it is stored; one that is aside is behind nothing.
    const fn stored(self) -> Option<ParkedState> {
        match self {
            Self::Aside => None,
            Self::Behind => Some(ParkedState::Behind),
            Self::Drop => Some(ParkedState::Drop),
            Self::Failed => Some(ParkedState::Failed),
            Self::Retry => Some(ParkedState::Retry),
            Self::Skip => Some(ParkedState::Skip),
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
            state: self.state.and_then(StateWord::stored),
            id: self.event,
            after: self.after,
            limit: self.limit,
        };
        let is_aside = matches!(self.state, Some(StateWord::Aside));
        let rows =
            if is_aside { aside(desk, filter).await? } else { desk.inspect.parked(filter).await? };
        let next = table::last_of_full(&rows, self.limit).map(|row| row.seq);
        if desk.json {
            let rows: Vec<_> = rows.iter().map(view::parked).collect();
            say(&json!({ "parked": rows, "next": next }).to_string())?;
            return Ok(Exit::Fine);
        }
        say(&listed(&rows, from_start || is_aside, desk.records.now().await?))?;
        if let Some(next) = next {
            say(&format!("\nmore: --after {next}"))?;
        }
        Ok(Exit::Fine)
    }
}

/// Finds the rows that are the first of their aggregates and wait for nobody.
async fn aside(desk: &Desk, filter: ParkedFilter) -> Result<Vec<Parked>, Failure> {
    let (limit, after) = (usize::try_from(filter.limit).unwrap_or(usize::MAX), filter.after);
    // What is before the page that was asked for has aggregates of which it shows no first row.
    let mut all = ParkedFilter { id: None, limit: most(), after: None, ..filter.clone() };
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    loop {
        let rows = desk.inspect.parked(all.clone()).await?;
        let Some(last) = rows.last().map(|row| row.seq) else { return Ok(found) };
        for row in rows {
            let of = (row.destination.clone(), row.placed.event.lane.clone());
            let is_head = seen.insert(of) && row.state == ParkedState::Behind;
            let is_asked = filter.id.is_none_or(|id| row.placed.event.id == id);
            if is_head && is_asked && after.is_none_or(|after| row.seq > after) {
                found.push(row);
            }
            if found.len() == limit {
                return Ok(found);
            }
        }
        all.after = Some(last);
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
