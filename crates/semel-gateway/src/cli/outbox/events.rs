//! `semel outbox list` and `show`: events that are still kept.

use clap::Args;
use semel::{
    Timestamp,
    outbox::{
        Destination, EventId, OutboxAudit, OutboxAuditKind, Parked, Placed, Pos,
        store::{DestinationState, EventFilter, ParkedFilter, READ_MAX},
    },
};
use serde_json::{Value, json};

use super::{
    target::{Desk, Routing, Which, id, most},
    view,
};
use crate::cli::{
    exit::{Exit, Failure, say},
    show::{printable, short},
    table,
};

/// Lists events that are still kept, in the order of their positions
#[derive(Args, Debug)]
pub(super) struct List {
    #[command(flatten)]
    which: Which,
    /// How many at most, 1 to 10,000
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// The next page: the position that the last one ended with
    #[arg(long, value_name = "POSITION")]
    after: Option<u64>,
}

impl List {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        let now = desk.records.now().await?;
        let mut filter = self.which.filter(now, self.limit);
        filter.after = self.after.map(Pos);
        let events = desk.inspect.events(filter).await?;
        let next = table::last_of_full(&events, self.limit).map(|placed| placed.pos.0);
        if desk.json {
            let events: Vec<_> = events.iter().map(view::event).collect();
            say(&json!({ "events": events, "next": next }).to_string())?;
            return Ok(Exit::Fine);
        }
        say(&listed(&events, now))?;
        if let Some(next) = next {
            say(&format!("\nmore: --after {next}"))?;
        }
        Ok(Exit::Fine)
    }
}

fn listed(events: &[Placed], now: Timestamp) -> String {
    if events.is_empty() {
        return "no events".into();
    }
    let mut table = table::plain(["event", "aggregate", "type", "appended", "intent"]);
    for placed in events {
        let event = &placed.event;
        table.add_row([
            event.id.to_string(),
            view::aggregate(event),
            printable(&event.kind),
            format!("{} ago", short(now, placed.at)),
            event.intent.as_ref().map(ToString::to_string).unwrap_or_default(),
        ]);
    }
    table.trim_fmt()
}

/// Shows all that is kept of one event, and where it stands on its way to each destination
#[derive(Args, Debug)]
pub(super) struct Show {
    /// The event
    #[arg(value_parser = id)]
    event: EventId,
}

impl Show {
    pub(super) async fn run(self, desk: &Desk) -> Result<Exit, Failure> {
        let kept = kept(desk, self.event).await?;
        let known = Deliveries::of(desk, self.event).await?;
        let parked = || known.parked.first().map(|parked| parked.placed.clone());
        let Some(placed) = kept.or_else(parked) else {
            return Err(Failure::refused(format!(
                "there is no event {}: it was never committed, or is no longer kept",
                self.event
            )));
        };
        if desk.json {
            let deliveries = known.told(&placed);
            say(&json!({ "event": view::event(&placed), "deliveries": deliveries }).to_string())?;
            return Ok(Exit::Fine);
        }
        say(&table::pairs(view::lines(&placed, known.now)))?;
        for state in &known.states {
            let standing = known.standing(&placed, state).sentence(known.now);
            say(&format!("\n{}: {standing}", state.destination))?;
        }
        Ok(Exit::Fine)
    }
}

/// Reads an event that is kept, or else the copy of one that is parked.
pub(in crate::cli) async fn find(desk: &Desk, id: EventId) -> Result<Option<Placed>, Failure> {
    match kept(desk, id).await? {
        Some(placed) => Ok(Some(placed)),
        None => Ok(parked(desk, id).await?.into_iter().next().map(|parked| parked.placed)),
    }
}

async fn kept(desk: &Desk, id: EventId) -> Result<Option<Placed>, Failure> {
    let filter = EventFilter { id: Some(id), limit: 1, ..EventFilter::default() };
    Ok(desk.inspect.events(filter).await?.into_iter().next())
}

async fn parked(desk: &Desk, id: EventId) -> Result<Vec<Parked>, Failure> {
    let filter = ParkedFilter { id: Some(id), limit: 1_000, ..ParkedFilter::default() };
    Ok(desk.inspect.parked(filter).await?)
}

/// All that is known of one event's way.
pub(in crate::cli) struct Deliveries {
    pub(in crate::cli) states: Vec<DestinationState>,
    parked: Vec<Parked>,
    /// What operators said lately, the newest first.
    said: Vec<OutboxAudit>,
    routing: Routing,
    now: Timestamp,
}

/// What operators said of an event to a destination.
enum Word<'a> {
    /// To leave it out.
    LeftOut(&'a OutboxAudit),
    /// Nothing that is still kept, or something that was said of many together.
    Unknown,
    /// Nothing that left it out.
    Sent,
}

impl Deliveries {
    /// Reads them after the event itself: what is told of destinations must be as new as it is, or newer.
    pub(in crate::cli) async fn of(desk: &Desk, id: EventId) -> Result<Self, Failure> {
        let (states, now) = desk.destinations().await?;
        let parked = parked(desk, id).await?;
        let said = desk.inspect.outbox_audit(None, most()).await?;
        Ok(Self { states, parked, said, routing: desk.routing.clone(), now })
    }

    fn word(&self, destination: &Destination, id: EventId) -> Word<'_> {
        let mut is_sure = true;
        for row in self.said.iter().filter(|row| row.destination == *destination) {
            match row.kind {
                OutboxAuditKind::Drop | OutboxAuditKind::Skip if row.event == Some(id) => {
                    return if is_sure { Word::LeftOut(row) } else { Word::Unknown };
                }
                OutboxAuditKind::Forget => return Word::Sent,
                OutboxAuditKind::Replay | OutboxAuditKind::Retry if row.event == Some(id) => {
                    return Word::Sent;
                }
                // Of many together: it may have been one of them.
                OutboxAuditKind::Replay if row.event.is_none() => is_sure = false,
                _ => {}
            }
        }
        // What was said before that is not at hand.
        if self.said.len() < READ_MAX { Word::Sent } else { Word::Unknown }
    }

    pub(in crate::cli) fn standing(
        &self,
        placed: &Placed,
        state: &DestinationState,
    ) -> Standing<'_> {
        let destination = &state.destination;
        if let Some(row) = self.parked.iter().find(|row| row.destination == *destination) {
            return Standing::Parked(row);
        }
        let word = self.word(destination, placed.event.id);
        if let Word::LeftOut(said) = word {
            return Standing::LeftOut(said);
        }
        let takes = self.routing.takes(destination, &placed.event.lane);
        let passed = state.oldest.is_none_or(|oldest| placed.at < oldest);
        match takes {
            Some(false) => Standing::NotRouted,
            Some(true) if passed => Standing::Sent { is_sure: matches!(word, Word::Sent) },
            None if passed => Standing::Passed,
            Some(true) | None => Standing::Waiting,
        }
    }

    pub(in crate::cli) fn told(&self, placed: &Placed) -> Vec<Value> {
        let one = |state: &DestinationState| {
            let standing = self.standing(placed, state);
            let row = match &standing {
                Standing::Parked(row) => Some(view::parked(row)),
                _ => None,
            };
            let said = match &standing {
                Standing::LeftOut(said) => Some(view::audit(said)),
                _ => None,
            };
            json!({
                "destination": state.destination.as_str(),
                "standing": standing.word(),
                "parked": row,
                "said": said,
            })
        };
        self.states.iter().map(one).collect()
    }
}

/// Where an event stands on its way to one destination.
pub(in crate::cli) enum Standing<'a> {
    /// An operator had it left out.
    LeftOut(&'a OutboxAudit),
    /// The configuration does not send it there.
    NotRouted,
    /// It is parked.
    Parked(&'a Parked),
    /// The destination is past it, and no configuration at hand says whether it was sent there.
    Passed,
    /// The destination is past it, and is sent such events.
    Sent {
        /// Whether it is known that no operator had it left out.
        is_sure: bool,
    },
    /// It waits, or is on its way.
    Waiting,
}

impl Standing<'_> {
    const fn word(&self) -> &'static str {
        match self {
            Standing::LeftOut(_) => "left-out",
            Standing::NotRouted => "not-routed",
            Standing::Parked(_) => "parked",
            Standing::Passed => "passed",
            Standing::Sent { .. } => "sent",
            Standing::Waiting => "waiting",
        }
    }

    pub(in crate::cli) fn sentence(&self, now: Timestamp) -> String {
        match self {
            Standing::LeftOut(said) => {
                let (word, at) = (said.kind.as_str(), short(now, said.at));
                let (who, note) = (printable(&said.actor), printable(&said.note));
                format!("left out: {word} by {who}, {at} ago: {note}")
            }
            Standing::NotRouted => {
                "not routed: the configuration sends no events of this type there".into()
            }
            Standing::Parked(row) => {
                let why = if row.why.is_empty() {
                    String::new()
                } else {
                    format!(": {}", printable(&row.why))
                };
                let (state, since) = (row.state.as_str(), short(now, row.parked_at));
                let attempts = match row.attempts {
                    1 => "1 attempt".to_owned(),
                    many => format!("{many} attempts"),
                };
                format!("parked for {since} ({state}, {attempts}){why}")
            }
            Standing::Passed => "passed: it has the event, or is not sent events of this type; \
                the configuration of its relay tells which"
                .into(),
            Standing::Sent { is_sure: true } => "sent: it has the event".into(),
            Standing::Sent { is_sure: false } => {
                "sent: it has the event, unless an operator had it left out".into()
            }
            Standing::Waiting => "waiting, or on its way".into(),
        }
    }
}
