//! Verdicts, and how they are shown.

use crate::http::{Exchange, scenario::Rule};

/// How one rule fared.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The rule.
    pub rule: Rule,
    /// How it ended.
    pub ended: Ended,
    /// What was seen, in one sentence.
    pub seen: String,
    /// The effects that were counted, by intent, where any were.
    pub effects: Vec<(String, u64)>,
    /// Everything that was sent and answered, in order.
    pub exchanges: Vec<Exchange>,
}

/// How a rule's drill ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ended {
    /// The rule holds.
    Kept,
    /// The rule is broken; why, in one sentence.
    Broken(String),
    /// The plan does not say what is needed to try it; what is missing.
    NotTried(String),
    /// It could not be found out, such as when the API was away; why.
    Failed(String),
}
