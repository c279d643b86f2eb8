//! Messages and consumers as people and programs read them.

use semel::{
    Timestamp,
    inbox::{ConsumerState, Had, InboxAudit, MessageState, ParkedMessage, Recorded},
};
use serde_json::{Value, json};

use crate::cli::show::{ago, instant, printable, short};

/// How much of a text is shown to people, in characters.
const TEXT_SHOWN: usize = 2_000;

pub(super) fn consumer(state: &ConsumerState) -> Value {
    let positions: Vec<_> = state
        .positions
        .iter()
        .map(|(log, at)| json!({ "log": log.as_str(), "offset": at }))
        .collect();
    json!({
        "consumer": state.consumer.as_str(),
        "remembered": state.remembered,
        "positions": positions,
        "failed": state.failed,
        "retry": state.retry,
        "oldest_failed": state.oldest_failed.map(instant),
        "attempted": state.attempted,
    })
}

pub(in crate::cli) fn had(had: &Had) -> Value {
    json!({
        "consumer": had.consumer.as_str(),
        "source": had.message.source.as_str(),
        "id": had.message.id(),
        "recorded": recorded(&had.recorded),
    })
}

fn recorded(recorded: &Recorded) -> Value {
    let answer = recorded.answer.as_deref();
    json!({
        "standing": recorded.standing.as_str(),
        "at": instant(recorded.at),
        "fingerprint": recorded.fingerprint.to_string(),
        "answer_bytes": answer.map(<[u8]>::len),
        "answer": answer.and_then(|answer| std::str::from_utf8(answer).ok()),
        "events": recorded.events.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

pub(super) fn parked(parked: &ParkedMessage) -> Value {
    let headers: Vec<_> = parked
        .headers
        .iter()
        .map(|(name, value)| json!([name, String::from_utf8_lossy(value)]))
        .collect();
    let payload = parked.payload.as_deref();
    json!({
        "consumer": parked.consumer.as_str(),
        "source": parked.message.source.as_str(),
        "id": parked.message.id(),
        "state": parked.state.as_str(),
        "attempts": parked.attempts,
        "why": parked.why,
        "parked_at": instant(parked.parked_at),
        "sent_at": parked.sent_at.map(instant),
        "key": parked.key.as_deref().map(String::from_utf8_lossy),
        "position": parked.position.as_ref().map(|position| {
            json!({ "log": position.log.as_str(), "offset": position.offset })
        }),
        "headers": headers,
        "payload_bytes": payload.map(<[u8]>::len),
        "payload": payload.and_then(|payload| std::str::from_utf8(payload).ok()),
    })
}

pub(super) fn message(state: &MessageState) -> Value {
    json!({
        "recorded": state.recorded.as_ref().map(recorded),
        "parked": state.parked.as_ref().map(parked),
        "attempts": state.attempts.map(|attempts| {
            json!({ "count": attempts.count, "first_at": instant(attempts.first_at) })
        }),
    })
}

/// What an operator needs to see of a message, a line each.
pub(super) fn lines(state: &MessageState, now: Timestamp) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(recorded) = &state.recorded {
        lines.push(("standing", recorded.standing.as_str().to_owned()));
        lines.push(("at", ago(recorded.at, now)));
        lines.push(("fingerprint", recorded.fingerprint.to_string()));
        lines.extend(recorded.answer.as_deref().map(|answer| ("answer", text(answer))));
        lines.extend(recorded.events.iter().map(|id| ("event", id.to_string())));
    }
    if let Some(attempts) = state.attempts.filter(|attempts| attempts.count > 0) {
        let since = short(now, attempts.first_at);
        lines.push(("attempts", format!("{}, the first {since} ago", attempts.count)));
    }
    if let Some(parked) = &state.parked {
        let since = ago(parked.parked_at, now);
        lines.push(("parked", format!("{since}: {}", parked.state.as_str())));
        lines.push(("why", printable(&parked.why)));
        lines.extend(parked.position.as_ref().map(|position| {
            ("position", printable(&format!("{} at {}", position.log, position.offset)))
        }));
        for (name, value) in &parked.headers {
            let shown = format!("{name}: {}", String::from_utf8_lossy(value));
            lines.push(("header", printable(&shown)));
        }
        let payload = parked.payload.as_deref();
        lines.push(("payload", payload.map_or_else(|| "none: a tombstone".into(), text)));
    }
    lines
}

fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.chars().count() <= TEXT_SHOWN => printable(text),
        _ => format!("{} bytes; --json shows what is text", bytes.len()),
    }
}

pub(super) fn audit(row: &InboxAudit) -> Value {
    json!({
        "at": instant(row.at),
        "kind": row.kind.as_str(),
        "consumer": row.consumer.as_str(),
        "source": row.message.source.as_str(),
        "id": row.message.id(),
        "actor": row.actor,
        "note": row.note,
    })
}
