//! Events, parked rows and destinations as people and programs read them.

use semel::{
    IntentId, Timestamp,
    outbox::{Event, OutboxAudit, Parked, Placed, store::DestinationState},
};
use serde_json::{Value, json};

use crate::cli::show::{ago, hex, instant, printable, short};

/// How much of a payload is shown to people, in characters.
const PAYLOAD_SHOWN: usize = 2_000;

pub(in crate::cli) fn event(placed: &Placed) -> Value {
    let event = &placed.event;
    let headers: Vec<_> = event.headers.iter().map(|(name, value)| json!([name, value])).collect();
    json!({
        "id": event.id.to_string(),
        "aggregatetype": event.lane.kind(),
        "aggregateid": event.lane.id(),
        "type": event.kind,
        "at": instant(placed.at),
        "pos": placed.pos.0,
        "aggregate_version": event.version,
        "headers": headers,
        "trace": event.trace,
        "intent": event.intent.as_ref().map(intent),
        "cause": event.cause.as_ref().map(|cause| cause.as_str()),
        "payload_bytes": event.payload.as_ref().map(|payload| payload.len()),
        "payload": text(event),
        "unreadable": placed.unreadable,
    })
}

pub(in crate::cli) fn intent(id: &IntentId) -> Value {
    json!({
        "tenant": id.scope.tenant.as_str(),
        "operation": id.scope.operation.as_str(),
        "key": id.key.as_str(),
        "facet": id.facet.as_ref().map(hex),
    })
}

fn text(event: &Event) -> Option<&str> {
    std::str::from_utf8(event.payload.as_deref()?).ok()
}

/// What an operator needs to see of an event, a line each.
pub(in crate::cli) fn lines(placed: &Placed, now: Timestamp) -> Vec<(&'static str, String)> {
    let event = &placed.event;
    let mut lines = vec![
        ("event", event.id.to_string()),
        ("aggregate", aggregate(event)),
        ("type", printable(&event.kind)),
        ("appended", ago(placed.at, now)),
        ("position", placed.pos.0.to_string()),
    ];
    let mut more = |name, value: Option<String>| lines.extend(value.map(|value| (name, value)));
    more("version", event.version.map(|version| version.to_string()));
    more("intent", event.intent.as_ref().map(ToString::to_string));
    more("cause", event.cause.as_ref().map(|cause| printable(cause.as_str())));
    more("trace", event.trace.as_deref().map(printable));
    more("unreadable", placed.unreadable.as_deref().map(printable));
    for (name, value) in &event.headers {
        lines.push(("header", printable(&format!("{name}: {value}"))));
    }
    lines.push(("payload", payload(placed)));
    lines
}

fn payload(placed: &Placed) -> String {
    let event = &placed.event;
    match (&event.payload, text(event)) {
        (None, _) if placed.unreadable.is_some() => "none, or none that can be shown".into(),
        (None, _) => "none: a tombstone".into(),
        (Some(_), Some(text)) if text.chars().count() <= PAYLOAD_SHOWN => printable(text),
        (Some(bytes), _) => {
            format!("{} bytes; --json shows a payload that is text", bytes.len())
        }
    }
}

/// Names an aggregate so that it can be asked for: the first slash parts its type from its id.
pub(in crate::cli) fn aggregate(event: &Event) -> String {
    printable(&event.lane.to_string())
}

pub(in crate::cli) fn parked(parked: &Parked) -> Value {
    json!({
        "destination": parked.destination.as_str(),
        "seq": parked.seq,
        "state": parked.state.as_str(),
        "attempts": parked.attempts,
        "why": parked.why,
        "parked_at": instant(parked.parked_at),
        "event": event(&parked.placed),
    })
}

pub(super) fn destination(state: &DestinationState) -> Value {
    let leader = state.leader.as_ref();
    json!({
        "destination": state.destination.as_str(),
        "leader": leader.map(|(owner, _)| owner),
        "lease_ends_at": leader.map(|(_, ends)| instant(*ends)),
        "epoch": state.epoch.0,
        "generation": state.generation,
        "waiting": state.waiting,
        "oldest": state.oldest_lacked().map(instant),
        "lag_seconds": state.oldest_lacked().map(|_| state.lag().as_secs()),
        "parked": state.parked,
        "parked_lanes": state.parked_lanes,
        "oldest_parked": state.oldest_parked.map(instant),
        "failed_lanes": state.failed_lanes,
        "oldest_failed": state.oldest_failed.map(instant),
    })
}

pub(super) fn destination_row(state: &DestinationState) -> [String; 8] {
    let age = |at: Option<Timestamp>| at.map(|at| short(state.now, at)).unwrap_or_default();
    let leader = match &state.leader {
        Some((owner, ends)) if *ends >= state.now => printable(owner),
        Some((owner, _)) => format!("{}, lease over", printable(owner)),
        None => "nobody".into(),
    };
    let counted = u64::from(DestinationState::WAITING_MAX);
    let more = if state.waiting >= counted { " or more" } else { "" };
    [
        state.destination.to_string(),
        leader,
        age(state.oldest_lacked()),
        format!("{}{more}", state.waiting),
        state.parked.to_string(),
        state.parked_lanes.to_string(),
        age(state.oldest_parked),
        state.failed_lanes.to_string(),
    ]
}

pub(super) fn audit(row: &OutboxAudit) -> Value {
    json!({
        "at": instant(row.at),
        "kind": row.kind.as_str(),
        "destination": row.destination.as_str(),
        "event": row.event.map(|id| id.to_string()),
        "rows": row.rows,
        "actor": row.actor,
        "note": row.note,
    })
}
