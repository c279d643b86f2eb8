//! `semel outbox destinations` and `audit`: how far each destination is, and what was said about it.

use std::time::Duration;

use clap::Args;
use semel::outbox::{Destination, store::DestinationState};
use serde_json::json;

use super::{
    target::{Desk, destination},
    view,
};
use crate::{
    cli::{
        exit::{Exit, Failure, say},
        show::{instant, printable},
        table,
    },
    config::{span, written},
};

/// Lists the destinations: who leads each, the age of the oldest event that it lacks (lag), what is
/// parked, and how many aggregates wait for an operator (failed), which lag does not count
#[derive(Args, Debug)]
pub(super) struct Destinations {
    #[command(flatten)]
    bounds: Bounds,
}

/// How old something may be.
#[derive(Args, Debug)]
struct Bounds {
    /// Exits with 1 if a destination lacks an event that is older and waits for no operator
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    lag_max: Option<Duration>,
    /// Exits with 1 if an event that waits for an operator is older
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    failed_max: Option<Duration>,
}

impl Destinations {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        let (states, _) = desk.destinations().await?;
        if desk.json {
            let states: Vec<_> = states.iter().map(view::destination).collect();
            say(&json!({ "destinations": states }).to_string())?;
        } else if states.is_empty() {
            say("no destinations: no relay ever led one")?;
        } else {
            let header = [
                "destination",
                "leader",
                "lag",
                "waiting",
                "parked",
                "aggregates",
                "oldest parked",
                "failed",
            ];
            let mut table = table::plain(header);
            for state in &states {
                table.add_row(view::destination_row(state));
            }
            say(&table.trim_fmt())?;
        }
        let late: Vec<_> = states.iter().flat_map(|state| late(state, &self.bounds)).collect();
        if late.is_empty() {
            return Ok(Exit::Fine);
        }
        Err(Failure::refused(late.join("; ")))
    }
}

/// Says what of a destination is older than it may be.
fn late(state: &DestinationState, bounds: &Bounds) -> Vec<String> {
    let mut late = Vec::new();
    let destination = &state.destination;
    if bounds.lag_max.is_some_and(|max| state.lag() > max) {
        late.push(format!("the destination {destination} lags by {}", written(state.lag())));
    }
    let failed = state.oldest_failed.map(|oldest| state.now.since(oldest));
    if let Some(age) = failed.filter(|age| bounds.failed_max.is_some_and(|max| *age > max)) {
        let (lanes, age) = (state.failed_lanes, written(age));
        let says = if lanes == 1 { "aggregate waits" } else { "aggregates wait" };
        late.push(format!(
            "{lanes} {says} for an operator at the destination {destination}, with an event of {age} ago"
        ));
    }
    late
}

fn duration(text: &str) -> Result<Duration, String> {
    span(text).ok_or_else(|| "write a duration, such as 30s or 5m".into())
}

/// Shows who said what, newest first; about one destination, or about all
#[derive(Args, Debug)]
pub(super) struct Audit {
    /// Only about this one
    #[arg(value_parser = destination)]
    destination: Option<Destination>,
    /// How many rows at most, 1 to 10,000
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

impl Audit {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        let rows = desk.inspect.outbox_audit(self.destination, self.limit).await?;
        if desk.json {
            let rows: Vec<_> = rows.iter().map(view::audit).collect();
            say(&json!({ "audit": rows }).to_string())?;
            return Ok(Exit::Fine);
        }
        if rows.is_empty() {
            say("no audit rows")?;
            return Ok(Exit::Fine);
        }
        let mut table = table::plain(["at", "what", "destination", "event", "rows", "who", "note"]);
        for row in rows {
            table.add_row([
                instant(row.at),
                row.kind.as_str().to_owned(),
                row.destination.to_string(),
                row.event.map(|id| id.to_string()).unwrap_or_default(),
                row.rows.to_string(),
                printable(&row.actor),
                printable(&row.note),
            ]);
        }
        say(&table.trim_fmt())?;
        Ok(Exit::Fine)
    }
}
