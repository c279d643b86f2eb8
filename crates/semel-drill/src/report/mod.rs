//! Verdicts, and how they are shown: as a table, as JSON, as JUnit. What came from the environment and
//! what says who somebody is, is masked in all of them.

mod curl;
mod json;
mod junit;
mod table;

use std::time::Duration;

use crate::{
    http::{Exchange, Program, scenario::Rule},
    plan::{Contract, Secrets},
};

#[doc(inline)]
pub use self::{
    json::FORMAT,
    table::{Show, WIDTH_MAX, rules_page, rules_table},
};
pub(crate) use self::{junit::escaped, table::two_columns};

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
    /// The keys that the sentence speaks of, where it speaks of some among many.
    pub guilty: Vec<String>,
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

impl Ended {
    /// Returns the word that a table shows.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Broken(_) => "BROKEN",
            Self::NotTried(_) => "not tried",
            Self::Failed(_) => "failed",
        }
    }
}

impl Verdict {
    /// Returns when the last of its exchanges had ended, from its start.
    #[must_use]
    pub fn took(&self) -> Duration {
        let ends = self.exchanges.iter().map(|exchange| exchange.sent_at + exchange.took);
        ends.max().unwrap_or_default()
    }
}

/// A whole drill: what was drilled, and every verdict.
#[derive(Clone, Debug)]
pub struct Report {
    /// The name of the plan.
    pub name: String,
    /// Where the API listens.
    pub target: String,
    /// The program that each message was handed to, where none was sent.
    pub program: Option<Program>,
    /// Whose answers were expected; nobody's where a consumer was drilled.
    pub contract: Option<Contract>,
    /// What chance followed from.
    pub seed: u64,
    /// How long the drill took.
    pub took: Duration,
    /// The verdicts in the order in which they were found.
    pub verdicts: Vec<Verdict>,
    /// Whether the drill was ended before its last rule.
    pub interrupted: bool,
    /// The rules that it would have tried still, if it was interrupted.
    pub not_reached: Vec<&'static str>,
    /// What is not shown.
    pub secrets: Secrets,
}

/// What a drill comes to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// Every rule that was tried is kept, and more than the control was tried.
    Kept,
    /// A rule is broken.
    Broken,
    /// No rule is broken as far as it was found out, and something was not.
    NotFoundOut,
}

/// How many rules ended how.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Rules that hold.
    pub kept: usize,
    /// Rules that are broken.
    pub broken: usize,
    /// Rules that the plan does not let be tried.
    pub not_tried: usize,
    /// Rules of which it could not be found out.
    pub failed: usize,
}

impl Report {
    /// Counts the verdicts.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for verdict in &self.verdicts {
            *match verdict.ended {
                Ended::Kept => &mut counts.kept,
                Ended::Broken(_) => &mut counts.broken,
                Ended::NotTried(_) => &mut counts.not_tried,
                Ended::Failed(_) => &mut counts.failed,
            } += 1;
        }
        counts
    }

    /// Says what the drill comes to. A drill that tried nothing but its control has found nothing out.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let counts = self.counts();
        if counts.broken > 0 {
            Outcome::Broken
        } else if counts.failed > 0 || counts.kept < 2 || self.interrupted {
            Outcome::NotFoundOut
        } else {
            Outcome::Kept
        }
    }
}
