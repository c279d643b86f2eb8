//! The decision as a table.
//!
//! The tables state every answer once more, in words of their own, and never ask the functions that
//! they check. Their text lies in `tests/testdata/`, to be read by people.

mod claim;
mod resolve;
mod settle;

use std::time::Duration;

use crate::{
    clock::Timestamp,
    fingerprint::{Fingerprint, PlanId},
    key::{IntentId, Key, Operation, Scope, Tenant},
    outcome::Outcome,
    record::{Fence, Lease, Record, State, Token},
};

const LEASE: Duration = Duration::from_secs(30);
const REPLAY: Duration = Duration::from_secs(100);
const REMEMBER: Duration = Duration::from_secs(200);
const OWN: Token = Token::from_bytes([1; 16]);
const OTHER: Token = Token::from_bytes([2; 16]);
const FENCE: Fence = Fence::new(7);

/// The time at which every table is judged.
const NOW: Timestamp = Timestamp::from_micros(1_000_000_000_000);

fn before(span: Duration) -> Timestamp {
    let micros = u64::try_from(span.as_micros()).unwrap();
    Timestamp::from_micros(NOW.as_micros() - micros)
}

fn id() -> IntentId {
    let scope = Scope::new(Tenant::new("acme").unwrap(), Operation::new("pay").unwrap());
    scope.intent(Key::new("k").unwrap())
}

fn by_plan(plan: u8, digest: u8) -> Fingerprint {
    Fingerprint::new(PlanId::new([plan; 8]), [digest; 32])
}

/// A record that `OWN` claimed ten seconds ago with content 1 of plan 1.
fn record(state: State) -> Record {
    let claimed_at = before(Duration::from_secs(10));
    let ended = matches!(state, State::Done | State::Failed);
    let over = state != State::Running;
    let kept = ended || state == State::Open;
    Record {
        id: id(),
        state,
        token: OWN,
        fence: FENCE,
        fingerprint: by_plan(1, 1),
        lease: Lease { renewed_at: claimed_at, length: LEASE },
        takeovers: 0,
        compare: false,
        incarnation: 0,
        created_at: claimed_at,
        claimed_at,
        settled_at: over.then_some(claimed_at),
        claimed_by: Some("request-1".into()),
        reason: None,
        resolved_by: None,
        outcome: ended.then(|| Outcome::new(201, "x").pointer("payment", "7")),
        pointer: ended.then(|| Outcome::new(201, "x").pointer("payment", "7").pointer).flatten(),
        replay_until: if ended { NOW.after(REPLAY) } else { Timestamp::MAX },
        remember_until: if kept { NOW.after(REMEMBER) } else { Timestamp::MAX },
    }
}

/// Compares a table with its golden, and says how to look at the difference.
#[track_caller]
fn golden(name: &str, golden: &str, made: &str) {
    let differs = golden.lines().zip(made.lines()).find(|(golden, made)| golden != made);
    assert!(golden == made, "{name} differs at {differs:?}; the table is now:\n{made}");
}
