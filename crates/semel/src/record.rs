//! What a store keeps for an intent, and the proof that a claim of it was granted.

use std::{fmt, time::Duration};

use crate::{
    clock::Timestamp,
    fingerprint::{Fingerprint, PlanId},
    key::IntentId,
    outcome::{Outcome, Pointer},
};

/// The random 128-bit name of one claim, made by the caller before it asks.
///
/// Whoever knows the token can finish the claim, so `Debug` shows only its beginning.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Token([u8; 16]);

impl Token {
    /// Makes a token of its bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({:02x}{:02x}…)", self.0[0], self.0[1])
    }
}

/// A number that only grows from claim to claim of one key, for systems downstream that compare it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Fence(u64);

impl Fence {
    /// Makes a fence of its number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the fence of the next claim: the largest of the last one + 1, the floor + 1 and the
    /// store's time in microseconds.
    #[must_use]
    pub fn next(last: Option<Self>, floor: Self, now: Timestamp) -> Self {
        let last = last.unwrap_or_default().0.max(floor.0);
        Self(last.saturating_add(1).max(now.as_micros()))
    }
}

/// Proof of a claim. Every write after the claim carries it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Permit {
    /// The intent that was claimed.
    pub id: IntentId,
    /// The claim's own name.
    pub token: Token,
    /// The number to show downstream.
    pub fence: Fence,
    /// How often the intent was taken up again with other content, after a run that had no effect.
    pub incarnation: u32,
}

/// Until when a holder may be believed alive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lease {
    /// When the lease was granted or last renewed, in the store's time.
    pub renewed_at: Timestamp,
    /// How long it lasts from then.
    pub length: Duration,
}

impl Lease {
    /// Returns when the lease is over.
    #[must_use]
    pub fn ends_at(&self) -> Timestamp {
        self.renewed_at.after(self.length)
    }
}

/// The state a record is stored in. What it means at a given time is its [`Phase`].
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum State {
    /// The operation ended in success, and its outcome is final.
    Done,
    /// The operation ended in a final failure, which is an outcome too.
    Failed,
    /// No run had an effect; the next claim is granted.
    Open,
    /// A holder works on it, or worked until it was lost.
    Running,
    /// The holder is gone and nobody can say whether the effect happened.
    Unknown,
}

impl State {
    /// Returns the word for this state.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Open => "open",
            Self::Running => "running",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the state that a word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Done, Self::Failed, Self::Open, Self::Running, Self::Unknown]
            .into_iter()
            .find(|state| state.as_str() == word)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a record means at one instant of the store's time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
    /// As if no record existed: what was remembered is over.
    Absent,
    /// The outcome was dropped; that it was finished is still remembered.
    Forgotten,
    /// The stored state holds.
    Stored(State),
}

/// What a store keeps for an intent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Record {
    /// The intent.
    pub id: IntentId,
    /// The stored state.
    pub state: State,
    /// The token of the last claim; kept in every state to recognise repeats.
    pub token: Token,
    /// The fence of the last claim.
    pub fence: Fence,
    /// What was asked by the last claim that was granted.
    pub fingerprint: Fingerprint,
    /// The lease of the last claim.
    pub lease: Lease,
    /// How often a lost holder was replaced since the intent was first claimed or cleanly released.
    pub takeovers: u32,
    /// Whether an `open` record still compares fingerprints, because some run may have had effect.
    pub compare: bool,
    /// See [`Permit::incarnation`].
    pub incarnation: u32,
    /// When the intent was first claimed.
    pub created_at: Timestamp,
    /// When the last claim was granted.
    pub claimed_at: Timestamp,
    /// When the state last left `running`; for tracing.
    pub settled_at: Option<Timestamp>,
    /// The caller's name for the request that claimed it, for tracing.
    pub claimed_by: Option<Box<str>>,
    /// Why the record is `unknown` or `open`, as a short stable code.
    pub reason: Option<Box<str>>,
    /// The id of the resolution that ended the last claim, if an operator or reconciler did.
    pub resolved_by: Option<[u8; 16]>,
    /// The outcome, while it is kept.
    pub outcome: Option<Outcome>,
    /// The pointer of the outcome; survives in the tombstone.
    pub pointer: Option<Pointer>,
    /// Until when the outcome is replayed (`done`, `failed`).
    pub replay_until: Timestamp,
    /// Until when the record is remembered at all (`done`, `failed`, `open`).
    pub remember_until: Timestamp,
}

impl Record {
    /// Makes a record that is held by `permit`: what a statement may assume that itself compares token,
    /// fence and state. The rest is empty.
    #[must_use]
    pub fn held_by(permit: &Permit) -> Self {
        Self {
            id: permit.id.clone(),
            state: State::Running,
            token: permit.token,
            fence: permit.fence,
            fingerprint: Fingerprint::new(PlanId::new([0; 8]), [0; 32]),
            lease: Lease { renewed_at: Timestamp::default(), length: Duration::ZERO },
            takeovers: 0,
            compare: false,
            incarnation: permit.incarnation,
            created_at: Timestamp::default(),
            claimed_at: Timestamp::default(),
            settled_at: None,
            claimed_by: None,
            reason: None,
            resolved_by: None,
            outcome: None,
            pointer: None,
            replay_until: Timestamp::MAX,
            remember_until: Timestamp::MAX,
        }
    }

    /// Returns what this record means at `now`, whether or not the sweep has come.
    #[must_use]
    pub fn phase(&self, now: Timestamp) -> Phase {
        match self.state {
            State::Running | State::Unknown => Phase::Stored(self.state),
            _ if now >= self.remember_until => Phase::Absent,
            State::Open => Phase::Stored(State::Open),
            State::Done | State::Failed if now >= self.replay_until => Phase::Forgotten,
            // What was dropped stays so, also where a promoted standby's clock is behind.
            State::Done | State::Failed if self.outcome.is_none() => Phase::Forgotten,
            State::Done | State::Failed => Phase::Stored(self.state),
        }
    }

    /// Returns whether the lease is over at `now`.
    #[must_use]
    pub fn lapsed(&self, now: Timestamp) -> bool {
        now >= self.lease.ends_at()
    }

    /// Returns the permit of the last claim.
    #[must_use]
    pub fn permit(&self) -> Permit {
        Permit {
            id: self.id.clone(),
            token: self.token,
            fence: self.fence,
            incarnation: self.incarnation,
        }
    }
}
