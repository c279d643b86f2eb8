//! `semel inbox list`, `show`, `consumers`, `parked` and `audit`: looks, and changes nothing.

use clap::{Args, ValueEnum};
use semel::{
    Timestamp,
    inbox::{Consumer, ConsumerState, MessageId, ParkedFilter, ParkedMessage, ParkedState},
};
use serde_json::json;

use super::{
    target::{Desk, Which, consumer, message, source},
    view,
};
use crate::cli::{
    exit::{Exit, Failure, say},
    show::{instant, printable, short},
    table,
};

/// Lists the messages that a consumer remembers, in the order of their names
#[derive(Args, Debug)]
pub(super) struct List {
    /// The consumer
    #[arg(value_parser = consumer)]
    consumer: Consumer,
    /// How many at most, 1 to 1,000
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// The next page: the source and the id that the last one ended with
    #[arg(long, num_args = 2, value_names = ["SOURCE", "ID"])]
    after: Option<Vec<String>>,
}

impl List {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        let after = match self.after.as_deref() {
            Some([from, id]) => Some(named(from, id)?),
            _ => None,
        };
        let had = desk.inspect.had(self.consumer.clone(), after, self.limit).await?;
        if had.is_empty() {
            desk.known(&self.consumer).await?;
        }
        let next = table::last_of_full(&had, self.limit).map(|had| &had.message);
        if desk.json {
            let messages: Vec<_> = had.iter().map(view::had).collect();
            let next = next.map(|next| json!({ "source": next.source.as_str(), "id": next.id() }));
            say(&json!({ "messages": messages, "next": next }).to_string())?;
            return Ok(Exit::Fine);
        }
        if had.is_empty() {
            say("no messages")?;
            return Ok(Exit::Fine);
        }
        let now = desk.records.now().await?;
        let mut table = table::plain(["source", "message", "standing", "since", "events"]);
        for had in &had {
            table.add_row([
                printable(had.message.source.as_str()),
                printable(had.message.id()),
                had.recorded.standing.as_str().to_owned(),
                format!("{} ago", short(now, had.recorded.at)),
                had.recorded.events.len().to_string(),
            ]);
        }
        say(&table.trim_fmt())?;
        if let Some(next) = next {
            say(&format!("\nmore: --after {:?} {:?}", next.source.as_str(), next.id()))?;
        }
        Ok(Exit::Fine)
    }
}

fn named(from: &str, id: &str) -> Result<MessageId, Failure> {
    message(source(from).map_err(Failure::usage)?, id)
}

/// Shows all that is known of one message of a consumer
#[derive(Args, Debug)]
pub(super) struct Show {
    #[command(flatten)]
    which: Which,
}

impl Show {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        let (consumer, message) = (self.which.consumer.clone(), self.which.message()?);
        let state = desk.inspect.message(consumer.clone(), message.clone()).await?;
        if state.recorded.is_none() && state.parked.is_none() && state.attempts.is_none() {
            desk.known(&consumer).await?;
            return Err(Failure::refused(format!(
                "{consumer} knows no message {message}: it was never handled, or is forgotten"
            )));
        }
        if desk.json {
            say(&view::message(&state).to_string())?;
            return Ok(Exit::Fine);
        }
        say(&table::pairs(view::lines(&state, desk.records.now().await?)))?;
        Ok(Exit::Fine)
    }
}

/// Lists the consumers: what each remembers, up to where it is, what is parked
#[derive(Args, Debug)]
pub(super) struct Consumers;

impl Consumers {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        let states = desk.inspect.consumers().await?;
        if desk.json {
            let states: Vec<_> = states.iter().map(view::consumer).collect();
            say(&json!({ "consumers": states }).to_string())?;
        } else if states.is_empty() {
            say("no consumers")?;
        } else {
            say(&consumers(&states))?;
        }
        Ok(Exit::Fine)
    }
}

fn consumers(states: &[ConsumerState]) -> String {
    let header = ["consumer", "remembered", "attempted", "failed", "oldest failed", "positions"];
    let mut table = table::plain(header);
    for state in states {
        let positions: Vec<_> =
            state.positions.iter().map(|(log, at)| printable(&format!("{log} at {at}"))).collect();
        let oldest = state.oldest_failed.map(|at| format!("{} ago", short(state.now, at)));
        let more = if state.remembered >= 10_000 { " or more" } else { "" };
        table.add_row([
            state.consumer.to_string(),
            format!("{}{more}", state.remembered),
            state.attempted.to_string(),
            state.failed.to_string(),
            oldest.unwrap_or_default(),
            positions.join(", "),
        ]);
    }
    table.trim_fmt()
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StateWord {
    Failed,
    Retry,
    Skipped,
}

impl From<StateWord> for ParkedState {
    fn from(word: StateWord) -> Self {
        match word {
            StateWord::Failed => Self::Failed,
            StateWord::Retry => Self::Retry,
            StateWord::Skipped => Self::Skipped,
        }
    }
}

/// Lists parked messages: `failed` ones wait for a word by retry, skip or drop
#[derive(Args, Debug)]
pub(super) struct ParkedArgs {
    /// Only of this consumer
    #[arg(value_parser = consumer)]
    consumer: Option<Consumer>,
    /// Only in this state
    #[arg(long)]
    state: Option<StateWord>,
    /// How many at most, 1 to 1,000
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// The next page: consumer, source and id that the last one ended with
    #[arg(long, num_args = 3, value_names = ["CONSUMER", "SOURCE", "ID"])]
    after: Option<Vec<String>>,
}

impl ParkedArgs {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        let after = match self.after.as_deref() {
            Some([who, from, id]) => {
                Some((consumer(who).map_err(Failure::usage)?, named(from, id)?))
            }
            _ => None,
        };
        let state = self.state.map(ParkedState::from);
        let filter = ParkedFilter { consumer: self.consumer, state, after, limit: self.limit };
        let rows = desk.inspect.parked(filter).await?;
        let next = table::last_of_full(&rows, self.limit)
            .map(|row| [row.consumer.as_str(), row.message.source.as_str(), row.message.id()]);
        if desk.json {
            let rows: Vec<_> = rows.iter().map(view::parked).collect();
            say(&json!({ "parked": rows, "next": next }).to_string())?;
            return Ok(Exit::Fine);
        }
        say(&listed(&rows, desk.records.now().await?))?;
        if let Some([who, from, id]) = next {
            say(&format!("\nmore: --after {who:?} {from:?} {id:?}"))?;
        }
        Ok(Exit::Fine)
    }
}

fn listed(rows: &[ParkedMessage], now: Timestamp) -> String {
    if rows.is_empty() {
        return "nothing is parked".into();
    }
    let header = ["consumer", "source", "message", "state", "attempts", "parked", "why"];
    let mut table = table::plain(header);
    for row in rows {
        table.add_row([
            row.consumer.to_string(),
            printable(row.message.source.as_str()),
            printable(row.message.id()),
            row.state.as_str().to_owned(),
            row.attempts.to_string(),
            format!("{} ago", short(now, row.parked_at)),
            printable(&row.why),
        ]);
    }
    table.trim_fmt()
}

/// Shows who said what, and messages that came with other content, newest first
#[derive(Args, Debug)]
pub(super) struct Audit {
    /// Only of this consumer
    #[arg(value_parser = consumer)]
    consumer: Option<Consumer>,
    /// How many rows at most, 1 to 1,000
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
}

impl Audit {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        let rows = desk.inspect.inbox_audit(self.consumer, self.limit).await?;
        if desk.json {
            let rows: Vec<_> = rows.iter().map(view::audit).collect();
            say(&json!({ "audit": rows }).to_string())?;
            return Ok(Exit::Fine);
        }
        if rows.is_empty() {
            say("no audit rows")?;
            return Ok(Exit::Fine);
        }
        let mut table =
            table::plain(["at", "what", "consumer", "source", "message", "who", "note"]);
        for row in rows {
            table.add_row([
                instant(row.at),
                row.kind.as_str().to_owned(),
                row.consumer.to_string(),
                printable(row.message.source.as_str()),
                printable(row.message.id()),
                printable(&row.actor),
                printable(&row.note),
            ]);
        }
        say(&table.trim_fmt())?;
        Ok(Exit::Fine)
    }
}
