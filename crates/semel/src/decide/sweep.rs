//! What the sweep may drop. `running` and `unknown` are never swept, only reported.

use crate::{
    clock::Timestamp,
    record::{Phase, Record, State},
};

/// What the sweep does with a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sweep {
    /// The record is deleted, and the floor of the fences rises to its fence.
    Delete,
    /// The outcome is dropped, and the tombstone stays.
    Forget,
    /// Nothing.
    Keep,
}

/// Decides what the sweep does with a record at `now`.
#[must_use]
pub fn sweep(record: &Record, now: Timestamp) -> Sweep {
    match record.phase(now) {
        Phase::Absent => Sweep::Delete,
        Phase::Forgotten if record.outcome.is_some() => Sweep::Forget,
        Phase::Forgotten | Phase::Stored(_) => Sweep::Keep,
    }
}

/// Says from when on the sweep has something to do with a record; `None` for never.
#[must_use]
pub fn due_at(record: &Record) -> Option<Timestamp> {
    match record.state {
        State::Running | State::Unknown => None,
        State::Done | State::Failed if record.outcome.is_some() => {
            Some(record.replay_until.min(record.remember_until))
        }
        State::Done | State::Failed | State::Open => Some(record.remember_until),
    }
}

/// Says whether a state can ever be swept.
#[must_use]
pub const fn sweepable(state: State) -> bool {
    matches!(state, State::Done | State::Failed | State::Open)
}
