//! Records as people and programs read them.

use semel::{
    IntentId, Phase, Record, State, Timestamp,
    key::Facet,
    outcome::{Body, Outcome},
    store::capability::AuditRow,
};
use serde_json::{Value, json};

use crate::config::written;

/// How much of a body is shown to people.
const BODY_SHOWN: usize = 2_000;

pub(super) fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.as_bytes();
    // The library would read a sign too.
    if text.len() != 2 * N || !text.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

pub(super) fn facet(text: &str) -> Result<Facet, String> {
    unhex(text).ok_or_else(|| "a facet has 64 hexadecimal digits".into())
}

pub(super) fn resolve_id(text: &str) -> Result<[u8; 16], String> {
    unhex(text).ok_or_else(|| "an id has 32 hexadecimal digits".into())
}

/// Writes an instant of the store's time as RFC 3339 in UTC.
pub(super) fn instant(at: Timestamp) -> String {
    let micros = at.as_micros();
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000 / 1_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:03}Z")
}

/// Turns days since 1970-01-01 into a date of the Gregorian calendar, by eras of 400 years that
/// begin in March, so that the leap day is the last of its year.
const fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// Says what a record means now, in one word or two.
pub(super) fn state(record: &Record, now: Timestamp) -> &'static str {
    match record.phase(now) {
        Phase::Absent => "over",
        Phase::Forgotten => "forgotten",
        Phase::Stored(State::Running) if record.lapsed(now) => "running, lease over",
        Phase::Stored(state) => state.as_str(),
    }
}

pub(super) fn record(record: &Record, now: Timestamp) -> Value {
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

/// Keeps what was stored from steering the terminal.
pub(super) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

const fn finished(record: &Record) -> bool {
    matches!(record.state, State::Done | State::Failed)
}

const fn kept(record: &Record) -> bool {
    matches!(record.state, State::Done | State::Failed | State::Open)
}

pub(super) fn ago(at: Timestamp, now: Timestamp) -> String {
    format!("{} ({} ago)", instant(at), short(now, at))
}

fn when(at: Timestamp, now: Timestamp) -> String {
    if at >= now { format!("{} (in {})", instant(at), short(at, now)) } else { ago(at, now) }
}

/// How long it is from `earlier` to `later`, in its two largest units.
pub(super) fn short(later: Timestamp, earlier: Timestamp) -> String {
    let span = later.since(earlier);
    let coarse = match span.as_secs() {
        0 => span,
        1..60 => std::time::Duration::from_secs(span.as_secs()),
        60..86_400 => std::time::Duration::from_secs(span.as_secs() / 60 * 60),
        seconds => std::time::Duration::from_secs(seconds / 3_600 * 3_600),
    };
    written(coarse)
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
    fn instants_are_dates() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999_999, "2024-02-29T23:59:59.999Z"),
            (4_102_444_800_000_000, "2100-01-01T00:00:00.000Z"),
        ];
        for (micros, shown) in cases {
            assert_eq!(instant(Timestamp::from_micros(micros)), shown);
        }
    }

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
