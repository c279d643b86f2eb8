//! What a request's key is, and what its content is.

use axum::http::HeaderMap;
use serde_json::Value;

use super::Fault;

/// A key as it is looked up: who, what, key.
pub(super) type Name = (String, String, String);

/// What the API takes from the key's header.
pub(super) enum Key {
    Bad,
    Missing,
    Taken(String),
    /// The request runs, and nothing is kept.
    Unprotected,
}

pub(super) fn key(fault: Option<Fault>, headers: &HeaderMap) -> Key {
    let lines: Vec<_> = headers.get_all("idempotency-key").iter().collect();
    let (Some(first), false) = (lines.first(), fault == Some(Fault::IgnoresKeys)) else {
        let runs = matches!(fault, Some(Fault::IgnoresKeys | Fault::RunsWithoutKey));
        return if runs { Key::Unprotected } else { Key::Missing };
    };
    if fault == Some(Fault::RunsOnEmptyKeys) && first.is_empty() {
        return Key::Unprotected;
    }
    let visible = first.as_bytes().iter().all(u8::is_ascii_graphic);
    let length = if fault == Some(Fault::TruncatesKeys) { 20_000 } else { 255 };
    match first.to_str() {
        Ok(key) if visible && lines.len() == 1 && (1..=length).contains(&key.len()) => {
            Key::Taken(stored(fault, key))
        }
        _ => Key::Bad,
    }
}

fn stored(fault: Option<Fault>, key: &str) -> String {
    match fault {
        Some(Fault::FoldsCase) => key.to_ascii_lowercase(),
        Some(Fault::TruncatesKeys) => key.chars().take(64).collect(),
        _ => key.to_owned(),
    }
}

/// Names an intent.
pub(super) fn name(
    fault: Option<Fault>,
    tenant: &str,
    operation: &str,
    key: &str,
    body: &[u8],
) -> Name {
    let tenant = if fault == Some(Fault::ForgetsTenant) { "all" } else { tenant };
    let operation = if fault == Some(Fault::ForgetsOperation) { "any" } else { operation };
    let key = match fault {
        Some(Fault::ContentIsIdentity) => format!("{key} {}", content(fault, body)),
        _ => key.to_owned(),
    };
    (tenant.to_owned(), operation.to_owned(), key)
}

/// The content as far as it is compared.
pub(super) fn content(fault: Option<Fault>, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body).into_owned();
    match fault {
        Some(Fault::ForgetsContent) => String::new(),
        Some(Fault::RawBytes) => text,
        _ => {
            let mut value: Value = serde_json::from_slice(body).unwrap_or(Value::String(text));
            if fault == Some(Fault::Doubles) {
                doubled(&mut value);
            }
            // Its members are sorted by name.
            value.to_string()
        }
    }
}

fn doubled(value: &mut Value) {
    match value {
        Value::Number(number) => *value = Value::from(number.as_f64()),
        Value::Object(members) => members.values_mut().for_each(doubled),
        Value::Array(items) => items.iter_mut().for_each(doubled),
        Value::Bool(_) | Value::Null | Value::String(_) => {}
    }
}
