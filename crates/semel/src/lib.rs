//! Engine of Semel: claims, permits, outcomes and the decision what a repeated intent meets.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test may fail by panicking")
)]

pub mod fingerprint;
