//! `semel records list`, `show`, `counts` and `audit`: looks, and changes nothing.

use clap::{Args, ValueEnum};
use semel::{
    IntentId, Key, Operation, Record, State, Tenant, Timestamp,
    key::Facet,
    store::{BATCH_MAX, capability::Filter},
};
use serde_json::json;

use super::{
    target::{Desk, Which},
    view,
};
use crate::cli::{
    exit::{Exit, Failure, say},
    table,
};

/// How many records of one page there are at most, and how many audit rows.
const PAGE: i64 = BATCH_MAX as i64;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StateWord {
    Done,
    Failed,
    Open,
    Running,
    Unknown,
}

impl From<StateWord> for State {
    fn from(word: StateWord) -> Self {
        match word {
            StateWord::Done => Self::Done,
            StateWord::Failed => Self::Failed,
            StateWord::Open => Self::Open,
            StateWord::Running => Self::Running,
            StateWord::Unknown => Self::Unknown,
        }
    }
}

/// Lists records in the order of tenant, operation and key
#[derive(Args, Debug)]
pub(super) struct List {
    /// Only this tenant's
    #[arg(long)]
    tenant: Option<Tenant>,
    /// Only this operation's
    #[arg(long)]
    operation: Option<Operation>,
    /// Only in this state
    #[arg(long)]
    state: Option<StateWord>,
    /// Only running ones whose lease is over
    #[arg(long)]
    stuck: bool,
    /// How many at most
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=PAGE))]
    limit: u32,
    /// The next page: the word that the last one ended with
    #[arg(long, value_name = "PAGE", value_parser = view::after)]
    after: Option<IntentId>,
}

impl List {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        let filter = Filter {
            tenant: self.tenant,
            operation: self.operation,
            state: self.state.map(State::from),
            stuck: self.stuck,
            after: self.after,
            limit: self.limit,
        };
        let records = desk.records.list(filter).await?;
        let now = desk.records.now().await?;
        let next = table::last_of_full(&records, self.limit);
        let next = next.map(|record| view::cursor(&record.id));
        if desk.json {
            let records: Vec<_> = records.iter().map(|r| view::record(r, now)).collect();
            say(&json!({ "records": records, "next": next }).to_string())?;
        } else {
            say(&listed(&records, now))?;
            if let Some(next) = next {
                say(&format!("\nmore: --after {next}"))?;
            }
        }
        Ok(Exit::Fine)
    }
}

fn listed(records: &[Record], now: Timestamp) -> String {
    if records.is_empty() {
        return "no records".into();
    }
    let narrowed = records.iter().any(|record| record.id.facet.is_some());
    let facet = if narrowed { "facet" } else { "" };
    let mut table =
        table::plain(["tenant", "operation", "key", "state", "claimed", "status", "why", facet]);
    for record in records {
        let status = record.outcome.as_ref().map(|outcome| outcome.status.to_string());
        table.add_row([
            record.id.scope.tenant.to_string(),
            record.id.scope.operation.to_string(),
            record.id.key.to_string(),
            view::state(record, now).to_owned(),
            format!("{} ago", view::short(now, record.claimed_at)),
            status.unwrap_or_default(),
            record.reason.as_deref().map(view::printable).unwrap_or_default(),
            record.id.facet.as_ref().map(view::hex).unwrap_or_default(),
        ]);
    }
    table.trim_fmt()
}

/// Shows all that is kept of one record, and its audit
#[derive(Args, Debug)]
pub(super) struct Show {
    #[command(flatten)]
    which: Which,
}

impl Show {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        let seen = self.which.find(desk).await?;
        let audit = desk.records.audit(Some(seen.record.id.clone()), 100).await?;
        if desk.json {
            let audit: Vec<_> = audit.iter().map(view::audit).collect();
            let record = view::record(&seen.record, seen.now);
            say(&json!({ "record": record, "audit": audit }).to_string())?;
            return Ok(Exit::Fine);
        }
        say(&table::pairs(view::lines(&seen.record, seen.now)))?;
        for row in audit {
            let (at, kind) = (view::ago(row.at, seen.now), row.kind.as_str());
            let (actor, note) = (view::printable(&row.actor), view::printable(&row.note));
            say(&format!("\n{kind}, {at}, by {actor}: {note}"))?;
        }
        Ok(Exit::Fine)
    }
}

/// Counts the records by state
#[derive(Args, Debug)]
pub(super) struct CountsArgs {}

impl CountsArgs {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        let counts = desk.records.counts().await?;
        let now = desk.records.now().await?;
        let oldest = counts.oldest_running;
        if desk.json {
            let json = json!({
                "done": counts.done,
                "forgotten": counts.forgotten,
                "open": counts.open,
                "running": counts.running,
                "stuck": counts.stuck,
                "unknown": counts.unknown,
                "oldest_running": oldest.map(view::instant),
            });
            say(&json.to_string())?;
            return Ok(Exit::Fine);
        }
        let mut lines = vec![
            ("done or failed", counts.done.to_string()),
            ("forgotten", counts.forgotten.to_string()),
            ("open", counts.open.to_string()),
            ("running", counts.running.to_string()),
            ("of these, lease over", counts.stuck.to_string()),
            ("unknown", counts.unknown.to_string()),
        ];
        lines.extend(oldest.map(|at| ("oldest running", view::ago(at, now))));
        say(&table::pairs(lines))?;
        Ok(Exit::Fine)
    }
}

/// Shows who did what, newest first; of one record, or of all
#[derive(Args, Debug)]
pub(super) struct Audit {
    /// Only of this operation and the key after it
    #[arg(requires = "key")]
    operation: Option<Operation>,
    /// The key, as the caller sent it
    key: Option<Key>,
    /// The tenant; can be left out where there is only one
    #[arg(long, requires = "key")]
    tenant: Option<Tenant>,
    /// Which of several records under one key
    #[arg(long, requires = "key", value_name = "HEX", value_parser = view::facet)]
    facet: Option<Facet>,
    /// How many rows at most
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=PAGE))]
    limit: u32,
}

impl Audit {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        let (tenant, facet) = (self.tenant, self.facet);
        let id = match self.operation.zip(self.key) {
            Some((operation, key)) => {
                let which = Which { operation, key, tenant, facet };
                Some(which.find(desk).await?.record.id)
            }
            None => None,
        };
        let rows = desk.records.audit(id, self.limit).await?;
        if desk.json {
            let rows: Vec<_> = rows.iter().map(view::audit).collect();
            say(&json!({ "audit": rows }).to_string())?;
            return Ok(Exit::Fine);
        }
        if rows.is_empty() {
            say("no audit rows")?;
            return Ok(Exit::Fine);
        }
        let mut table = table::plain(["at", "what", "tenant", "operation", "key", "who", "note"]);
        for row in rows {
            table.add_row([
                view::instant(row.at),
                row.kind.as_str().to_owned(),
                row.id.scope.tenant.to_string(),
                row.id.scope.operation.to_string(),
                row.id.key.to_string(),
                view::printable(&row.actor),
                view::printable(&row.note),
            ]);
        }
        say(&table.trim_fmt())?;
        Ok(Exit::Fine)
    }
}
