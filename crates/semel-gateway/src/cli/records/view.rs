//! Records as people and programs read them.

use semel::{
    IntentId, Phase, Record, State, Timestamp,
    key::Facet,
    outcome::{Body, Outcome},
    store::capability::AuditRow,
};
use serde_json::{Value, json};

pub(super) use crate::cli::show::{ago, hex, instant, printable, short, unhex, when};

/// How much of a body is shown to people.
const BODY_SHOWN: usize = 2_000;

pub(super) fn facet(text: &str) -> Result<Facet, String> {
    unhex(text).ok_or_else(|| "a facet has 64 hexadecimal digits".into())
}

pub(super) fn resolve_id(text: &str) -> Result<[u8; 16], String> {
    unhex(text).ok_or_else(|| "an id has 32 hexadecimal digits".into())
}

/// Says what a record means now, in one word or two.
pub(in crate::cli) fn state(record: &Record, now: Timestamp) -> &'static str {
    match record.phase(now) {
        Phase::Absent => "over",
        Phase::Forgotten => "forgotten",
        Phase::Stored(State::Running) if record.lapsed(now) => "running, lease over",
        Phase::Stored(state) => state.as_str(),
    }
}

pub(in crate::cli) fn record(record: &Record, now: Timestamp) -> Value {
    json!({
        "tenant": record.id.scope.tenant.as_str(),
        "operation": record.id.scope.operation.as_str(),
        "key": record.id.key.as_str(),
        "facet": record.id.facet.as_ref().map(hex),
        "state": record.state.as_str(),
        "now": state(record, now),
        "fence": record.fence.get(),
        "incarnation": record.incarnation,
        "takeovers": record.takeovers,
        "fingerprint": record.fingerprint.to_string(),
        "reason": record.reason,
        "claimed_by": record.claimed_by,
        "resolved_by": record.resolved_by.map(hex),
        "created_at": instant(record.created_at),
        "claimed_at": instant(record.claimed_at),
        "settled_at": record.settled_at.map(instant),
        "lease_ends_at": instant(record.lease.ends_at()),
        "replay_until": finished(record).then(|| instant(record.replay_until)),
        "remember_until": kept(record).then(|| instant(record.remember_until)),
        "pointer": record.pointer.as_ref().map(|p| format!("{}/{}", p.kind, p.id)),
        "outcome": record.outcome.as_ref().map(outcome),
    })
}

fn outcome(outcome: &Outcome) -> Value {
    let headers: Vec<_> = outcome
        .headers
        .iter()
        .map(|header| json!([header.name, String::from_utf8_lossy(&header.value)]))
        .collect();
    let (kept, bytes, text) = match &outcome.body {
        Body::Kept(body) => (true, body.len(), std::str::from_utf8(body).ok()),
        Body::NotKept => (false, 0, None),
    };
    json!({
        "status": outcome.status,
        "headers": headers,
        "body_kept": kept,
        "body_bytes": bytes,
        "body": text,
    })
}

pub(super) fn audit(row: &AuditRow) -> Value {
    json!({
        "at": instant(row.at),
        "kind": row.kind.as_str(),
        "tenant": row.id.scope.tenant.as_str(),
        "operation": row.id.scope.operation.as_str(),
        "key": row.id.key.as_str(),
        "facet": row.id.facet.as_ref().map(hex),
        "actor": row.actor,
        "note": row.note,
    })
}

/// What an operator needs to see before deciding, a line each.
pub(super) fn lines(record: &Record, now: Timestamp) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("intent", record.id.to_string()),
        ("state", state(record, now).to_owned()),
        ("fence", record.fence.get().to_string()),
        ("claimed", ago(record.claimed_at, now)),
        ("lease ends", when(record.lease.ends_at(), now)),
    ];
    let mut more = |name, value: Option<String>| lines.extend(value.map(|value| (name, value)));
    more("facet", record.id.facet.as_ref().map(hex));
    more(
        "first claimed",
        (record.created_at != record.claimed_at).then(|| ago(record.created_at, now)),
    );
    more("taken over", (record.takeovers > 0).then(|| format!("{} times", record.takeovers)));
    more("claimed by", record.claimed_by.as_deref().map(Into::into));
    more("settled", record.settled_at.map(|at| ago(at, now)));
    more("reason", record.reason.as_deref().map(Into::into));
    more("resolved by", record.resolved_by.map(hex));
    more("replayed until", finished(record).then(|| when(record.replay_until, now)));
    more("remembered until", kept(record).then(|| when(record.remember_until, now)));
    more("pointer", record.pointer.as_ref().map(|p| format!("{} {}", p.kind, p.id)));
    if let Some(outcome) = &record.outcome {
        lines.push(("status", outcome.status.to_string()));
        for header in &outcome.headers {
            let value = String::from_utf8_lossy(&header.value).into_owned();
            lines.push(("header", printable(&format!("{}: {value}", header.name))));
        }
        lines.push(("body", body(&outcome.body)));
    }
    lines
}

fn body(body: &Body) -> String {
    match body {
        Body::NotKept => "not kept".into(),
        Body::Kept(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if text.chars().count() <= BODY_SHOWN => printable(text),
            _ => format!("{} bytes; --json shows a body that is text", bytes.len()),
        },
    }
}

const fn finished(record: &Record) -> bool {
    matches!(record.state, State::Done | State::Failed)
}

const fn kept(record: &Record) -> bool {
    matches!(record.state, State::Done | State::Failed | State::Open)
}

/// Where the next page starts, as one word.
pub(super) fn cursor(id: &IntentId) -> String {
    let parts = [id.scope.tenant.as_str(), id.scope.operation.as_str(), id.key.as_str()];
    let facet = id.facet.as_ref().map(hex).unwrap_or_default();
    hex(format!("{}\0{facet}", parts.join("\0")))
}

/// Reads a word that [`cursor`] wrote.
pub(super) fn after(text: &str) -> Result<IntentId, String> {
    let wrong = || "a page begins with the word that `semel records list` ended with".to_owned();
    if !text.bytes().all(|digit| digit.is_ascii_hexdigit()) || !text.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let bytes: Option<Vec<u8>> = (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect();
    let plain = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(wrong)?;
    let mut parts = plain.split('\0');
    let mut part = || parts.next().ok_or_else(wrong);
    let tenant = semel::Tenant::new(part()?).map_err(|_| wrong())?;
    let operation = semel::Operation::new(part()?).map_err(|_| wrong())?;
    let key = semel::Key::new(part()?).map_err(|_| wrong())?;
    let narrowed = part()?;
    if parts.next().is_some() {
        return Err(wrong());
    }
    let id = semel::Scope::new(tenant, operation).intent(key);
    if narrowed.is_empty() {
        return Ok(id);
    }
    Ok(id.narrowed(unhex(narrowed).ok_or_else(wrong)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_starts_where_the_last_one_ended() {
        let id = semel::Scope::new("a b".parse().unwrap(), "p.c".parse().unwrap())
            .intent("k\\0".parse().unwrap());
        assert_eq!(after(&cursor(&id)), Ok(id.clone()));
        let narrowed = id.narrowed([7; 32]);
        assert_eq!(after(&cursor(&narrowed)), Ok(narrowed));
        for bad in ["", "0", "zz", "00", "é0", "+1"] {
            assert!(after(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_sign_is_no_hexadecimal_digit() {
        assert!(facet(&"07".repeat(32)).is_ok());
        assert!(facet(&"+7".repeat(32)).is_err());
        assert!(resolve_id(&"+7".repeat(16)).is_err());
    }
}
