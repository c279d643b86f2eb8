//! `semel outbox retry`, `skip`, `drop`, `replay` and `forget`: says what nobody else can.
//!
//! A word only marks rows: the relay that leads the destination sends, leaves out and deletes.

use std::collections::HashSet;

use clap::Args;
use semel::outbox::{
    Destination, EventId, Lane, Parked, ParkedState, Placed,
    store::{EventFilter, LeftOut, ParkedFilter, READ_MAX, Replayed},
};
use serde_json::json;

use super::{
    target::{Desk, Which, destination, id, lane, most},
    view,
};
use crate::cli::{
    exit::{Exit, Failure, say},
    show::printable,
    signed::{Signed, Who, seen},
};

/// Which parked events.
#[derive(Args, Debug)]
struct Heads {
    /// The destination
    #[arg(value_parser = destination)]
    destination: Destination,
    /// The parked events, by their ids
    #[arg(value_name = "EVENT", value_parser = id, required_unless_present_any = ["all", "aggregate"])]
    events: Vec<EventId>,
    /// The first parked event of this aggregate, as its type, a slash and its id, as lists show it
    #[arg(long, value_name = "TYPE/ID", value_parser = lane, conflicts_with_all = ["all", "events"])]
    aggregate: Option<Lane>,
    /// Every failed event of the destination
    #[arg(long, conflicts_with = "events")]
    all: bool,
}

impl Heads {
    /// Finds the rows, each of which waits for a word.
    async fn find(&self, desk: &Desk) -> Result<Vec<Parked>, Failure> {
        desk.destination(&self.destination).await?;
        if self.events.is_empty() {
            let rows = match &self.aggregate {
                Some(lane) => self.head(desk, lane).await?.into_iter().collect(),
                None => self.failed(desk).await?,
            };
            if rows.is_empty() {
                return Err(Failure::refused("nothing that is parked there waits for a word"));
            }
            return Ok(rows);
        }
        let mut rows = Vec::new();
        for id in &self.events {
            rows.push(self.one(desk, *id).await?);
        }
        Ok(rows)
    }

    async fn one(&self, desk: &Desk, id: EventId) -> Result<Parked, Failure> {
        let filter = ParkedFilter { id: Some(id), ..self.filter() };
        let Some(row) = desk.inspect.parked(filter).await?.into_iter().next() else {
            let destination = &self.destination;
            return Err(Failure::refused(format!(
                "the event {id} is not parked for {destination}; nothing was changed"
            )));
        };
        if row.state == ParkedState::Behind
            && let Some(head) = self.head(desk, &row.placed.event.lane).await?
            && head.seq != row.seq
        {
            return Err(Failure::refused(format!(
                "the event {id} only waits behind others of its aggregate, and goes by itself: say \
                 what is to become of the first one, {}, as `semel outbox parked {} --aggregate {}` \
                 shows it; nothing was changed",
                head.placed.event.id,
                self.destination,
                view::aggregate(&row.placed.event)
            )));
        }
        Ok(row)
    }

    /// Finds the first parked row of an aggregate.
    async fn head(&self, desk: &Desk, lane: &Lane) -> Result<Option<Parked>, Failure> {
        let filter = ParkedFilter { lane: Some(lane.clone()), limit: 1, ..self.filter() };
        Ok(desk.inspect.parked(filter).await?.into_iter().next())
    }

    async fn failed(&self, desk: &Desk) -> Result<Vec<Parked>, Failure> {
        let mut rows: Vec<Parked> = Vec::new();
        loop {
            let filter = ParkedFilter {
                state: Some(ParkedState::Failed),
                after: rows.last().map(|row| row.seq),
                ..self.filter()
            };
            let page = desk.inspect.parked(filter).await?;
            if page.is_empty() {
                return Ok(rows);
            }
            rows.extend(page);
        }
    }

    fn filter(&self) -> ParkedFilter {
        let limit = most();
        let destination = Some(self.destination.clone());
        ParkedFilter { destination, limit, ..ParkedFilter::default() }
    }

    /// Marks the rows, as many at once as a store takes.
    async fn mark(
        &self,
        desk: &Desk,
        rows: &[Parked],
        state: ParkedState,
        signed: &Signed,
    ) -> Result<u64, Failure> {
        let mut marked = 0;
        for some in rows.chunks(READ_MAX) {
            let seqs = some.iter().map(|row| row.seq).collect();
            let destination = self.destination.clone();
            marked += desk.inspect.mark(destination, seqs, state, signed.actor()).await?;
        }
        Ok(marked)
    }

    /// Finds what is parked behind rows by now, of each in order.
    async fn behind(&self, desk: &Desk, rows: &[Parked]) -> Result<Vec<Parked>, Failure> {
        let heads: HashSet<u64> = rows.iter().map(|row| row.seq).collect();
        let lanes: HashSet<_> = rows.iter().map(|row| row.placed.event.lane.clone()).collect();
        let lane = Some(&lanes).filter(|lanes| lanes.len() == 1);
        let lane = lane.and_then(|lanes| lanes.iter().next().cloned());
        let mut filter = ParkedFilter { lane, ..self.filter() };
        let mut found = Vec::new();
        loop {
            let page = desk.inspect.parked(filter.clone()).await?;
            let Some(last) = page.last().map(|row| row.seq) else { return Ok(found) };
            let is_behind =
                |row: &Parked| lanes.contains(&row.placed.event.lane) && !heads.contains(&row.seq);
            found.extend(page.into_iter().filter(is_behind));
            filter.after = Some(last);
        }
    }
}

/// Tells what was marked.
fn marked(
    desk: &Desk,
    marked: u64,
    state: ParkedState,
    behind: Option<usize>,
) -> Result<Exit, Failure> {
    let word = state.as_str();
    let more = behind.map(|behind| format!(", with {behind} behind by now")).unwrap_or_default();
    say(&if desk.json {
        let mut told = json!({ "result": "marked", "word": word, "rows": marked });
        if let Some(behind) = behind {
            told["behind"] = behind.into();
        }
        told.to_string()
    } else {
        format!("{marked} marked: {word}{more}; the relay does the rest")
    })?;
    if marked == 0 {
        return Err(Failure::refused("what was parked is gone; nothing was changed"));
    }
    Ok(Exit::Fine)
}

fn events(count: usize) -> String {
    if count == 1 { "this event".into() } else { format!("these {count} events") }
}

fn shown(rows: &[Parked]) -> String {
    seen(rows, |row| {
        let event = &row.placed.event;
        let (aggregate, kind) = (view::aggregate(event), printable(&event.kind));
        format!("{}  {aggregate}  {kind}  {}", event.id, printable(&row.why))
    })
}

/// Has parked events sent again; with them their aggregates go on
#[derive(Args, Debug)]
pub(super) struct Retry {
    #[command(flatten)]
    heads: Heads,
    #[command(flatten)]
    signed: Signed,
}

impl Retry {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        let rows = self.heads.find(desk).await?;
        let count = self.heads.mark(desk, &rows, ParkedState::Retry, &self.signed).await?;
        marked(desk, count, ParkedState::Retry, None)
    }
}

/// Leaves parked events out: the destination never gets them, and their aggregates go on behind them
#[derive(Args, Debug)]
pub(super) struct Skip {
    #[command(flatten)]
    heads: Heads,
    #[command(flatten)]
    who: Who,
}

impl Skip {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        self.who.can_answer()?;
        let rows = self.heads.find(desk).await?;
        let what = format!("Never send {} {}?", self.heads.destination, events(rows.len()));
        self.who.confirm(desk.json, &shown(&rows), &what)?;
        let count = self.heads.mark(desk, &rows, ParkedState::Skip, &self.who.signed).await?;
        marked(desk, count, ParkedState::Skip, None)
    }
}

/// Leaves parked events out with everything that is parked behind them by then; the audit names each
#[derive(Args, Debug)]
pub(super) struct DropArgs {
    #[command(flatten)]
    heads: Heads,
    #[command(flatten)]
    who: Who,
}

impl DropArgs {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        self.who.can_answer()?;
        let rows = self.heads.find(desk).await?;
        let behind = self.heads.behind(desk, &rows).await?;
        let (destination, named) = (&self.heads.destination, events(rows.len()));
        let (seen, what) = match behind.len() {
            0 => (shown(&rows), format!("Never send {destination} {named}?")),
            more => (
                format!("{}\n\nparked behind:\n{}", shown(&rows), shown(&behind)),
                format!(
                    "Never send {destination} {named} and {more} behind, {} in all?",
                    rows.len() + more
                ),
            ),
        };
        self.who.confirm(desk.json, &seen, &what)?;
        let count = self.heads.mark(desk, &rows, ParkedState::Drop, &self.who.signed).await?;
        marked(desk, count, ParkedState::Drop, Some(behind.len()))
    }
}

/// Has events sent again that a destination had, each aggregate's in order; only what is still kept. What
/// was skipped or dropped stays left out, and what is not routed there is not sent
#[derive(Args, Debug)]
pub(super) struct Replay {
    /// The destination
    #[arg(value_parser = destination)]
    destination: Destination,
    #[command(flatten)]
    which: Which,
    /// Sends what was skipped or dropped too
    #[arg(long)]
    with_left_out: bool,
    #[command(flatten)]
    who: Who,
}

impl Replay {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        self.who.can_answer()?;
        if self.which.is_all() {
            return Err(Failure::usage(
                "say which events: --event, --aggregate, --operation, --since or --until",
            ));
        }
        let state = desk.destination(&self.destination).await?;
        let limit = most();
        // What is appended from now on goes by itself.
        let mut filter = self.which.filter(state.now, limit);
        filter.until = Some(filter.until.map_or(state.now, |until| until.min(state.now)));
        let named = self.count(desk, filter.clone()).await?;
        if named.found == 0 {
            return Err(Failure::refused("no such event is kept; nothing was changed"));
        }
        if named.found == named.not_routed {
            return Err(Failure::refused(format!(
                "the configuration routes none of these {} events to {}; nothing was changed",
                named.found, self.destination
            )));
        }
        let what = format!("Send them to {} again?", self.destination);
        self.who.confirm(desk.json, &named.shown(), &what)?;
        let replayed = self.replay(desk, filter).await?;
        say(&if desk.json {
            json!({
                "result": "replayed",
                "events": named.found,
                "not_routed": named.not_routed,
                "rows": replayed.parked,
                "left_out": replayed.left_out,
            })
            .to_string()
        } else {
            named.told(replayed)
        })?;
        Ok(Exit::Fine)
    }

    /// Asks for all of them, as many at once as a store takes.
    async fn replay(&self, desk: &Desk, mut filter: EventFilter) -> Result<Replayed, Failure> {
        let left_out = if self.with_left_out { LeftOut::Goes } else { LeftOut::Stays };
        let mut replayed = Replayed::default();
        loop {
            let (destination, actor) = (self.destination.clone(), self.who.signed.actor());
            let some = desk.inspect.replay(destination, filter.clone(), left_out, actor).await?;
            replayed.parked += some.parked;
            replayed.left_out += some.left_out;
            if some.rest.is_none() {
                return Ok(replayed);
            }
            filter.after = some.rest;
        }
    }

    async fn count(&self, desk: &Desk, mut filter: EventFilter) -> Result<Named, Failure> {
        let mut named = Named::default();
        loop {
            let page = desk.inspect.events(filter.clone()).await?;
            let Some(last) = page.last().map(|placed| placed.pos) else { return Ok(named) };
            named.found += page.len();
            let takes = |placed: &Placed| {
                let takes = desk.routing.takes(&self.destination, &placed.event.lane);
                takes.unwrap_or(true) || placed.is_of_no_kind()
            };
            named.not_routed += page.iter().filter(|placed| !takes(placed)).count();
            filter.after = Some(last);
        }
    }
}

/// What a replay names.
#[derive(Default)]
struct Named {
    found: usize,
    /// As far as a configuration says.
    not_routed: usize,
}

impl Named {
    fn shown(&self) -> String {
        match self.not_routed {
            0 => format!("{} events", self.found),
            not_routed => {
                format!("{} events, of which {not_routed} are not routed there", self.found)
            }
        }
    }

    fn told(&self, replayed: Replayed) -> String {
        let mut told = format!("\n{} are sent again by the relay", replayed.parked);
        if self.not_routed > 0 {
            told += ", but for what is not routed there";
        }
        if replayed.left_out > 0 {
            told += &format!(
                "\n{} were skipped or dropped, and stay left out: --with-left-out sends them too",
                replayed.left_out
            );
        }
        told
    }
}

/// Forgets a destination that nobody leads, with its cursor and its parked events: it holds no event
/// up any more
#[derive(Args, Debug)]
pub(super) struct Forget {
    /// The destination
    #[arg(value_parser = destination)]
    destination: Destination,
    #[command(flatten)]
    who: Who,
}

impl Forget {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        self.who.can_answer()?;
        let state = desk.destination(&self.destination).await?;
        let led = state.leader.as_ref().filter(|(_, ends)| *ends >= state.now);
        if let Some((owner, _)) = led {
            return Err(Failure::refused(format!(
                "the destination {} is led by {}: take it out of the configuration, and end or restart \
                 the relay first; nothing was changed",
                self.destination,
                printable(owner)
            )));
        }
        let shown = format!("{} events wait, {} are parked", state.waiting, state.parked);
        let what = format!("Forget {} and all that is parked for it?", self.destination);
        self.who.confirm(desk.json, &shown, &what)?;
        let forgotten =
            desk.inspect.forget(self.destination.clone(), self.who.signed.actor()).await?;
        if !forgotten {
            return Err(Failure::refused("the destination is gone; nothing was changed"));
        }
        say(&if desk.json {
            json!({ "result": "forgotten", "parked": state.parked }).to_string()
        } else {
            "\nforgotten".to_owned()
        })?;
        Ok(Exit::Fine)
    }
}
