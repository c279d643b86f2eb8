//! Any bytes as a JSON body: no panic, one canonical form, and the same texts taken as by `serde_json`.
//!
//! The first byte chooses the plan; the rest is the body.

use std::sync::LazyLock;

use semel::fingerprint::{
    Command, CommandBody, FingerprintError, Limits, Plan, PlanError, canonical_json,
};
use serde_json::Value;

static PLANS: LazyLock<Vec<Plan>> = LazyLock::new(|| plans().expect("the plans are right"));

fn plans() -> Result<Vec<Plan>, PlanError> {
    Ok(vec![
        Plan::new().exclude(["/a", "/b/0", "/b/2/a", "/a~1b", "/~0"])?,
        Plan::new().include(["/a", "/b/1", "/c/a/b"])?,
        Plan::new().include(["/a", "/b"])?.exclude(["/a/a", "/b/0"])?.secret("s", &[7; 32])?,
        Plan::new().limits(Limits::new().depth(3).members(5).number_digits(21).exponent_digits(2)),
    ])
}

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    let Some((choice, body)) = data.split_first() else { return };
    compare_with_serde(body);
    let plan = &PLANS[usize::from(*choice) % PLANS.len()];
    let digest = |body| plan.digest(&Command::new("POST", "/").body(CommandBody::Json(body)));
    let digested = digest(body);
    let canonical = plan.canonical_json(body);
    assert_eq!(digested.is_ok(), canonical.is_ok());
    let Ok(whole) = canonical_json(body, &Limits::new()) else { return };
    if let Ok(first) = digested {
        let again = digest(&whole).expect("the canonical form is in the limits of the text");
        assert_eq!(first, again, "{}", String::from_utf8_lossy(&whole));
    }
}

fn compare_with_serde(body: &[u8]) {
    let canonical = canonical_json(body, &Limits::new());
    let value = serde_json::from_slice::<Value>(body);
    match (canonical, value) {
        (Ok(canonical), value) => {
            assert_eq!(canonical_json(&canonical, &Limits::new()).as_ref(), Ok(&canonical));
            match (value, serde_json::from_slice::<Value>(&canonical)) {
                (Ok(one), Ok(other)) => assert!(alike(&one, &other), "{one} {other}"),
                (Err(one), Err(_)) => {
                    assert!(one.to_string().contains("number out of range"), "{one}");
                }
                (one, other) => {
                    // One spelling of a number at the very end of the range may round to infinity.
                    let error = one.err().or_else(|| other.err()).map(|error| error.to_string());
                    assert!(error.is_some_and(|error| error.contains("number out of range")));
                }
            }
        }
        (Err(error), Ok(_)) => assert!(
            matches!(
                error,
                FingerprintError::DuplicateMember { .. }
                    | FingerprintError::NumberExponent { .. }
                    | FingerprintError::NumberTooLong { .. }
                    | FingerprintError::TooDeep { .. }
            ),
            "{error}"
        ),
        (Err(_), Err(_)) => {}
    }
}

/// Compares values as a peer that reads doubles, with a rounding error now and then.
fn alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            let double = |number: &serde_json::Number| number.as_f64().unwrap_or(f64::NAN);
            let (one, other) = (double(one), double(other));
            (one - other).abs() <= one.abs() * 1e-14 + f64::MIN_POSITIVE
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| alike(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let found = |(name, value): (&String, _)| {
                other.get(name).is_some_and(|other| alike(value, other))
            };
            one.len() == other.len() && one.iter().all(found)
        }
        (one, other) => one == other,
    }
}
