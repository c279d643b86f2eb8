//! Any texts as the JSON Pointers of a fingerprint's plan: what an excluded pointer leads to does not count, and what no
//! included one leads to does not either, by the finder of `serde_json`.
//!
//! The first line is a document, every other one a pointer.

use semel::fingerprint::{Command, CommandBody, Limits, Plan, canonical_json};
use serde_json::Value;

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.lines();
    let Some(document) = lines.next() else { return };
    let pointers: Vec<&str> = lines.collect();
    let plans = (Plan::new().exclude(&pointers), Plan::new().include(&pointers));
    let (Ok(excluding), Ok(including)) = plans else {
        let refused = |pointer: &&str| !is_pointer(pointer) || pointer.is_empty();
        assert!(pointers.iter().any(refused) || pointers.len() > 256, "{text}");
        return;
    };
    assert!(pointers.iter().all(|pointer| is_pointer(pointer)));
    assert!(excluding.description().lines().count() >= 1);
    if canonical_json(document.as_bytes(), &Limits::new()).is_err() {
        return;
    }
    let Ok(value) = serde_json::from_str::<Value>(document) else { return };
    let digest = |plan: &Plan, body: &str| {
        plan.digest(&Command::new("POST", "/").body(CommandBody::Json(body.as_bytes()))).ok()
    };
    // A number is not written again as it was: only what has none is compared as a text.
    if has_number(&value) {
        return;
    }
    let mut changed = value.clone();
    for pointer in &pointers {
        if let Some(place) = changed.pointer_mut(pointer) {
            *place = Value::String("changed".into());
        }
    }
    assert_eq!(digest(&excluding, document), digest(&excluding, &changed.to_string()), "{text}");
    if let Some(covered) = pointers.iter().find(|pointer| value.pointer(pointer).is_some()) {
        let mut other = value.clone();
        if let Some(place) = other.pointer_mut(covered).filter(|place| **place != Value::Null) {
            *place = Value::Null;
            let (one, two) = (digest(&including, document), digest(&including, &other.to_string()));
            assert!(
                one.is_none() || one != two,
                "{covered} is included, and does not count: {text}"
            );
        }
    }
}

/// RFC 6901, and the bound of its length.
fn is_pointer(text: &str) -> bool {
    let escapes = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    (text.is_empty() || text.starts_with('/')) && text.len() <= 1_024 && escapes
}

fn has_number(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_number),
        Value::Number(_) => true,
        Value::Object(members) => members.values().any(has_number),
        Value::Bool(_) | Value::Null | Value::String(_) => false,
    }
}
