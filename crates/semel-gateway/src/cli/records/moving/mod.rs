//! `semel records close`, `open`, `export` and `import`: moves the records of one store to another.
//!
//! An export is lines of JSON: one that says what it is, one for each record in the order of their
//! names, one for each row of the audit, and one that ends it, by which a file that was cut is known.

mod export;
mod import;
mod line;
mod source;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use semel::{
    State,
    store::{capability::AuditRow, moving::Closed},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

pub(super) use self::{export::Export, import::Import};
use super::target::Desk;
use crate::cli::exit::{Exit, Failure, say};

/// Closes the store: whatever would write a record is refused until it is opened again
#[derive(Args, Debug)]
pub(super) struct Close {
    #[command(flatten)]
    running: Running,
}

impl Close {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        let closed = desk.mover.standing().await?.closed;
        match closed {
            None => self.running.close(desk).await?,
            // What was cut short is ended.
            Some(why) => desk.mover.close(why).await?,
        }
        told(desk, Some(closed.unwrap_or(Closed::Away)))
    }
}

/// Opens a closed store again: for a move that is given up. An import that came to its end has done so
#[derive(Args, Debug)]
pub(super) struct Open {}

impl Open {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        desk.mover.open().await?;
        told(desk, None)
    }
}

fn told(desk: &Desk, closed: Option<Closed>) -> Result<Exit, Failure> {
    let url = &desk.store.url;
    say(&match closed {
        _ if desk.json => {
            json!({ "store": url.to_string(), "closed": closed.map(Closed::as_str) }).to_string()
        }
        None => format!("{url} is open"),
        Some(Closed::Arriving) => format!("{url} is closed until all records are in it"),
        Some(Closed::Away) => format!("{url} is closed: what would write a record is refused"),
    })?;
    Ok(Exit::Fine)
}

/// What is done about runs that are under way.
#[derive(Args, Clone, Copy, Debug)]
struct Running {
    /// Although runs are under way, which cannot end in a closed store: where they were moved to, their keys
    /// are in progress until their leases are over, and then as their operations say
    #[arg(long)]
    allow_running: bool,
}

impl Running {
    /// Closes an open store, unless somebody is at work in it.
    async fn close(self, desk: &Desk) -> Result<(), Failure> {
        self.look(desk).await?;
        desk.mover.close(Closed::Away).await?;
        // One that began between the look and the close.
        if let Err(refused) = self.look(desk).await {
            desk.mover.open().await?;
            return Err(refused);
        }
        Ok(())
    }

    async fn look(self, desk: &Desk) -> Result<(), Failure> {
        let counts = desk.records.counts().await?;
        let live = counts.running.saturating_sub(counts.stuck);
        if live == 0 || self.allow_running {
            return Ok(());
        }
        let runs = if live == 1 { "1 run is".to_owned() } else { format!("{live} runs are") };
        Err(Failure::refused(format!(
            "{runs} under way, and could not end in a closed store: stop whoever uses the store and wait \
             until they have ended, or say --allow-running"
        )))
    }
}

/// How many records there are in which stored state.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
struct Tally {
    done: u64,
    failed: u64,
    open: u64,
    running: u64,
    unknown: u64,
}

impl Tally {
    fn count(&mut self, state: State) {
        *match state {
            State::Done => &mut self.done,
            State::Failed => &mut self.failed,
            State::Open => &mut self.open,
            State::Running => &mut self.running,
            State::Unknown => &mut self.unknown,
        } += 1;
    }

    const fn total(&self) -> u64 {
        self.done + self.failed + self.open + self.running + self.unknown
    }
}

/// Reads the whole audit, which is bounded.
async fn audit(desk: &Desk) -> Result<Vec<AuditRow>, Failure> {
    let (mut rows, mut from) = (Vec::new(), Some(0));
    while let Some(at) = from {
        let page = desk.mover.trail(at).await?;
        rows.extend(page.rows);
        from = page.next;
    }
    Ok(rows)
}

/// Says how many records there are, and how many rows of the audit.
fn records(count: u64) -> String {
    if count == 1 { "1 record".to_owned() } else { format!("{count} records") }
}

fn rows(count: u64) -> String {
    if count == 1 { "1 row of the audit".to_owned() } else { format!("{count} rows of the audit") }
}

/// Shows on a terminal how far it is.
struct Bar(ProgressBar);

impl Bar {
    fn of(desk_is_json: bool, records: u64, what: &'static str) -> Self {
        if desk_is_json {
            return Self(ProgressBar::hidden());
        }
        // Hidden by itself where the standard error is no terminal.
        let bar = ProgressBar::new(records).with_message(what);
        let style = "{msg} {wide_bar} {human_pos} of {human_len}, {per_sec}, {eta} left";
        bar.set_style(ProgressStyle::with_template(style).expect("the template is well formed"));
        Self(bar)
    }

    fn pass(&self, records: usize) {
        self.0.inc(u64::try_from(records).unwrap_or(u64::MAX));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
