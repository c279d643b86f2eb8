//! The modelled store: one record, written by what the production functions decide.

use std::{sync::LazyLock, time::Duration};

use semel::{
    Fence, Fingerprint, IntentId, Key, Lease, Operation, Outcome, Record, Scope, State, Tenant,
    Timestamp, Token, fingerprint::PlanId,
};

use super::world::{Kept, NEVER, Ticks};

const TICK: Duration = Duration::from_secs(1);

/// The store's time in every world; all else lies before or after it.
pub const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

/// Fences lie far past the store's time, so that nothing but the last one and the floor makes them grow.
const FENCES: u64 = 1_000_000_000_000;

static ID: LazyLock<IntentId> = LazyLock::new(|| {
    let scope = Scope::new(Tenant::new("t").unwrap(), Operation::new("o").unwrap());
    scope.intent(Key::new("k").unwrap())
});

pub fn id() -> IntentId {
    ID.clone()
}

pub const fn token(name: u8) -> Token {
    Token::from_bytes([name; 16])
}

pub const fn fence(number: u8) -> Fence {
    Fence::new(FENCES + number as u64)
}

pub fn number(fence: Fence) -> u8 {
    u8::try_from(fence.get().saturating_sub(FENCES)).unwrap()
}

pub fn content(number: u8) -> Fingerprint {
    Fingerprint::new(PlanId::new([1; 8]), [number; 32])
}

pub fn outcome(by: u8) -> Outcome {
    Outcome::new(200, "").pointer("run", &by.to_string())
}

pub fn span(ticks: u8) -> Duration {
    TICK * u32::from(ticks)
}

pub fn at(ticks: Ticks) -> Timestamp {
    if ticks == NEVER {
        return Timestamp::MAX;
    }
    let now = i64::try_from(NOW.as_micros()).unwrap();
    let tick = i64::try_from(TICK.as_micros()).unwrap();
    Timestamp::from_micros(u64::try_from(now + i64::from(ticks) * tick).unwrap())
}

fn ticks(at: Timestamp) -> Ticks {
    if at == Timestamp::MAX {
        return NEVER;
    }
    let distance = |span: Duration| Ticks::try_from(span.as_secs()).unwrap();
    if at >= NOW { distance(at.since(NOW)) } else { -distance(NOW.since(at)) }
}

/// Makes the record that production code sees.
pub fn record(kept: &Kept) -> Record {
    let mut record = Record::held_by(&semel::Permit {
        id: id(),
        token: token(kept.token),
        fence: fence(kept.fence),
        incarnation: u32::from(kept.incarnation),
    });
    let outcome = kept.pointer.map(outcome);
    record.state = kept.state;
    record.fingerprint = content(kept.content);
    record.lease = Lease { renewed_at: at(kept.renewed), length: span(kept.length) };
    record.takeovers = u32::from(kept.taken_over);
    record.compare = kept.compare;
    record.resolved_by = (kept.resolved_by > 0).then_some([kept.resolved_by; 16]);
    record.pointer = outcome.as_ref().and_then(|outcome| outcome.pointer.clone());
    record.outcome = outcome.filter(|_| kept.outcome);
    record.replay_until = at(kept.replay_until);
    record.remember_until = at(kept.remember_until);
    record
}

/// Reads back what production code wrote. Names every field, so that a new one is not forgotten here.
pub fn kept(record: &Record) -> Kept {
    let Record {
        id: _,
        state,
        token,
        fence,
        fingerprint,
        lease,
        takeovers,
        compare,
        incarnation,
        created_at: _,
        claimed_at: _,
        settled_at: _,
        claimed_by: _,
        reason: _,
        resolved_by,
        outcome,
        pointer,
        replay_until,
        remember_until,
    } = record;
    Kept {
        state: *state,
        token: token.as_bytes()[0],
        fence: number(*fence),
        content: fingerprint.digest()[0],
        renewed: ticks(lease.renewed_at),
        length: u8::try_from(lease.length.as_secs()).unwrap(),
        taken_over: *takeovers > 0,
        compare: *compare,
        incarnation: u8::try_from(*incarnation).unwrap(),
        resolved_by: resolved_by.map_or(0, |id| id[0]),
        outcome: outcome.is_some(),
        pointer: pointer.as_ref().map(|pointer| pointer.id.parse().unwrap()),
        replay_until: ticks(*replay_until),
        remember_until: ticks(*remember_until),
    }
}

/// Says whether the listing of stuck records shows this one.
pub fn is_listed(kept: &Kept) -> bool {
    match kept.state {
        State::Unknown => true,
        State::Running => record(kept).lapsed(NOW),
        State::Done | State::Failed | State::Open => false,
    }
}
