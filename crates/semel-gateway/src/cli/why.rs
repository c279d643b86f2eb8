//! `semel why`: the chain from a request to its record, its events, their deliveries and effects.

use std::{collections::HashSet, pin::Pin};

use clap::Args;
use semel::{
    IntentId, Key, Operation, Tenant, Timestamp,
    inbox::Had,
    outbox::{EventId, Placed, store::EventFilter},
};
use serde_json::{Value, json};

use super::{
    exit::{Exit, Failure, say},
    inbox::view as inbox_view,
    outbox::{
        events::{Deliveries, find},
        target::Desk as OutboxDesk,
        view as outbox_view,
    },
    records::{
        target::{Desk, Which},
        view as record_view,
    },
    show::{ago, printable, short},
    store::StoreArgs,
};

/// How many events a chain shows.
const EVENTS_MAX: u32 = 200;

/// How many events a chain goes back to find where it begins.
const BACK_MAX: usize = 32;

/// Tells why something ran and what came of it: the record of a request, its events, where each was
/// sent, and what the consumers of this store did with it
#[derive(Args, Debug)]
pub(super) struct Why {
    #[command(flatten)]
    store: StoreArgs,
    /// Prints JSON
    #[arg(long)]
    json: bool,
    /// The id of an event or of a message; or an operation, with a key after it
    what: String,
    /// The key, as the caller sent it
    key: Option<Key>,
    /// The tenant; can be left out where the configuration says that there is only one
    #[arg(long, requires = "key")]
    tenant: Option<Tenant>,
}

impl Why {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let desk = Desk::open(self.store, self.json).await?;
        let now = desk.records.now().await?;
        let mut chain = Chain { desk: &desk, now, seen: HashSet::new(), lines: Vec::new() };
        let told = match self.key {
            Some(key) => {
                let operation = Operation::new(&self.what).map_err(|error| {
                    Failure::usage(format!("{:?} is no operation: {error}", self.what))
                })?;
                let which = Which { operation, key, tenant: self.tenant, facet: None };
                chain.intent(which.find(&desk).await?.record.id).await?
            }
            None => chain.named(&self.what).await?,
        };
        if self.json {
            say(&told.to_string())?;
        } else {
            say(&chain.lines.join("\n"))?;
        }
        Ok(Exit::Fine)
    }
}

/// A chain as far as it was followed.
struct Chain<'d> {
    desk: &'d Desk,
    now: Timestamp,
    seen: HashSet<EventId>,
    /// What people read, a line each.
    lines: Vec<String>,
}

type Told<'a> = Pin<Box<dyn Future<Output = Result<Value, Failure>> + Send + 'a>>;

impl Chain<'_> {
    /// Begins where an event or a message of this id came from.
    async fn named(&mut self, text: &str) -> Result<Value, Failure> {
        if let Ok(id) = text.parse()
            && let Some(placed) = self.placed(id).await?
        {
            return self.whole(placed).await;
        }
        let effects = self.effects(text, 0).await?;
        if effects.is_empty() {
            return Err(Failure::refused(format!(
                "nothing is known of {:?}: no event and no message of this store has that id; for a \
                 request write the operation and then the key",
                printable(text)
            )));
        }
        Ok(json!({ "effects": effects }))
    }

    /// Tells all from where an event came from down to it.
    async fn whole(&mut self, placed: Placed) -> Result<Value, Failure> {
        let mut way = self.way_back(placed).await?;
        let Some(first) = way.pop() else { return Ok(Value::Null) };
        let mut told = match first.event.intent.clone() {
            Some(intent) => self.intent(intent).await?,
            None => self.event(first, 0).await?,
        };
        // What another store's consumer published is known here by its cause alone.
        let mut then = Vec::new();
        while let Some(placed) = way.pop() {
            if !self.seen.contains(&placed.event.id) {
                let depth = then.len() + 2;
                then.push(self.event(placed, depth).await?);
            }
        }
        if !then.is_empty() {
            told["then"] = Value::from(then);
        }
        Ok(told)
    }

    /// Goes back from event to event as far as their causes are known; the first of all comes last.
    async fn way_back(&self, placed: Placed) -> Result<Vec<Placed>, Failure> {
        let mut way = vec![placed];
        while let Some(last) = way.last().filter(|_| way.len() <= BACK_MAX) {
            let Some(before) =
                last.event.cause.as_ref().and_then(|cause| caused_by(cause.as_str()))
            else {
                break;
            };
            match self.placed(before).await? {
                Some(placed) => way.push(placed),
                None => break,
            }
        }
        Ok(way)
    }

    async fn placed(&self, id: EventId) -> Result<Option<Placed>, Failure> {
        let Some(desk) = self.outbox() else { return Ok(None) };
        find(&desk, id).await
    }

    fn outbox(&self) -> Option<OutboxDesk> {
        let outbox = self.desk.outbox.as_ref()?;
        let (records, json) = (self.desk.records.clone(), self.desk.json);
        let routing = self.desk.routing();
        Some(OutboxDesk { inspect: outbox.inspect.clone(), records, json, routing })
    }

    /// Tells an intent: its record, and every event that is an effect of it.
    async fn intent(&mut self, id: IntentId) -> Result<Value, Failure> {
        let seen = self.desk.records.read(id.clone()).await?;
        let state = match &seen {
            Some(seen) => {
                let state = record_view::state(&seen.record, self.now);
                format!("{state}, claimed {}", ago(seen.record.claimed_at, self.now))
            }
            None => "not recorded, or forgotten".to_owned(),
        };
        self.line(0, &format!("intent {id}: {state}"));
        let events = match self.outbox() {
            None => Vec::new(),
            Some(desk) => {
                let filter = EventFilter {
                    intent: Some(id.clone()),
                    limit: EVENTS_MAX,
                    ..EventFilter::default()
                };
                desk.inspect.events(filter).await?
            }
        };
        let mut told = Vec::new();
        for placed in events {
            told.push(self.event(placed, 1).await?);
        }
        let record = seen.map(|seen| record_view::record(&seen.record, self.now));
        Ok(json!({ "intent": outbox_view::intent(&id), "record": record, "events": told }))
    }

    /// Tells an event: where it was sent, who had it, and what they published in turn.
    fn event(&mut self, placed: Placed, depth: usize) -> Told<'_> {
        Box::pin(async move {
            let id = placed.event.id;
            let most = usize::try_from(EVENTS_MAX).unwrap_or(usize::MAX);
            if self.seen.len() >= most || !self.seen.insert(id) {
                self.line(depth, &format!("event {id}: told above, or more than is shown"));
                return Ok(json!({ "event": { "id": id.to_string() }, "told": false }));
            }
            let (aggregate, kind) =
                (outbox_view::aggregate(&placed.event), printable(&placed.event.kind));
            let at = ago(placed.at, self.now);
            self.line(depth, &format!("event {id}: {kind} of {aggregate}, appended {at}"));
            let mut deliveries = Vec::new();
            if let Some(desk) = self.outbox() {
                let known = Deliveries::of(&desk, id).await?;
                for state in &known.states {
                    let standing = known.standing(&placed, state).sentence(self.now);
                    self.line(depth + 1, &format!("destination {}: {standing}", state.destination));
                }
                deliveries = known.told(&placed);
            }
            let effects = self.effects(&id.to_string(), depth + 1).await?;
            let event = outbox_view::event(&placed);
            Ok(json!({ "event": event, "deliveries": deliveries, "effects": effects }))
        })
    }

    /// Tells what consumers did with a message of this id.
    async fn effects(&mut self, id: &str, depth: usize) -> Result<Vec<Value>, Failure> {
        let Some(inbox) = self.desk.inbox.clone() else { return Ok(Vec::new()) };
        let mut told = Vec::new();
        for had in inbox.chain(id.into()).await? {
            told.push(self.effect(&had, depth).await?);
        }
        Ok(told)
    }

    async fn effect(&mut self, had: &Had, depth: usize) -> Result<Value, Failure> {
        let (standing, at) = (had.recorded.standing.as_str(), short(self.now, had.recorded.at));
        let message = printable(&had.message.to_string());
        self.line(depth, &format!("consumer {} had {message}: {standing}, {at} ago", had.consumer));
        let mut events = Vec::new();
        for id in &had.recorded.events {
            match self.placed(*id).await? {
                Some(placed) => events.push(self.event(placed, depth + 1).await?),
                None => self.line(depth + 1, &format!("event {id}: no longer kept")),
            }
        }
        let mut effect = inbox_view::had(had);
        effect["events"] = Value::from(events);
        Ok(effect)
    }

    fn line(&mut self, depth: usize, text: &str) {
        self.lines.push(format!("{}{text}", "  ".repeat(depth)));
    }
}

/// Returns the event that a cause names: itself, or as the message that it became.
fn caused_by(cause: &str) -> Option<EventId> {
    let (kind, rest) = cause.split_once(':')?;
    match kind {
        "event" => rest.parse().ok(),
        "message" => rest.rsplit([' ', '/', ':']).next()?.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_leads_back_to_the_event_it_names() {
        let id = "01890a5d-ac96-774b-bcce-b302099a8057";
        let named: EventId = id.parse().unwrap();
        for cause in [format!("event:{id}"), format!("message:kafka:orders {id}")] {
            assert_eq!(caused_by(&cause), Some(named), "{cause}");
        }
        for cause in ["request:order-7", "message:kafka:orders 7", "event:7", ""] {
            assert_eq!(caused_by(cause), None, "{cause}");
        }
    }
}
