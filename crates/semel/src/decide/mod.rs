//! The decision what a repeated intent meets, and every transition of a record.
//!
//! Everything here is a pure function of what the store saw, what is asked, and the store's time: no
//! I/O, no clock, no chance. Every store calls these functions, or does in its own language what
//! they say and proves it by the conformance suite.
//!
//! ```text
//! absent ──claim──► running ──complete──► done, failed ──► forgotten ──► absent
//!                      │ └────release───► open ──claim──► running
//!                      └─lease over, somebody else claims──► running | unknown
//! unknown ──complete, release by the old permit──► done, failed, open
//! unknown ──resolve──► done, failed, open
//! ```

mod claim;
mod resolve;
mod settle;
mod sweep;
#[cfg(test)]
mod tests;

pub use claim::{Ask, Compare, Decision, Grant, OnLost, asks_first, claim, grant, lose, rewind};
pub use resolve::{Resolution, ResolveAsk, ResolveDecision, Verdict, resolve};
pub use settle::{Finish, FinishKind, ReleaseAsk, Settle, complete, release, renew};
pub use sweep::{Sweep, due_at, sweep, sweepable};

use std::time::Duration;

use crate::{clock::Timestamp, fingerprint::PlanId, outcome::Pointer};

/// An answer that is neither run nor replay. It is a decision, not an error.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Refusal {
    /// The outcome was dropped; that it was done is remembered.
    Forgotten {
        /// When it was finished, if that is recorded.
        settled_at: Option<Timestamp>,
        /// Where the resource lives.
        pointer: Option<Pointer>,
    },
    /// A holder works on it.
    InProgress {
        /// When the holder's claim was granted.
        claimed_at: Option<Timestamp>,
        /// How long its lease still lasts; zero if that is not known.
        lease_left: Duration,
        /// The holder's request, for tracing.
        claimed_by: Option<Box<str>>,
    },
    /// The record was fingerprinted by a plan that the caller no longer has, so nobody can say
    /// whether the content is the same.
    Incomparable {
        /// The plan of the record.
        plan: PlanId,
    },
    /// The same key was used with other content.
    Mismatch,
    /// The business reference was used before, by another intent.
    ReferenceExists {
        /// Where the resource lives that was made then.
        pointer: Option<Pointer>,
        /// When it was used.
        used_at: Option<Timestamp>,
    },
    /// The holder is gone and nobody can say whether the effect happened.
    Unknown {
        /// When the lost holder's claim was granted.
        claimed_at: Timestamp,
        /// The lost holder's request, for tracing.
        claimed_by: Option<Box<str>>,
    },
}

impl Refusal {
    /// Returns the stable code of this refusal.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Forgotten { .. } => "forgotten",
            Self::InProgress { .. } => "in-progress",
            Self::Incomparable { .. } => "incomparable",
            Self::Mismatch => "mismatch",
            Self::ReferenceExists { .. } => "reference-exists",
            Self::Unknown { .. } => "unknown",
        }
    }
}
