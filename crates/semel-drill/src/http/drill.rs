//! One drill: a plan, its target, and how effects are counted.

use std::time::Duration;

use super::{process::Process, target::Target};
use crate::{
    effects::Effects,
    plan::{Expected, Plan},
};

/// What the scenarios work with.
#[derive(Debug)]
pub struct Drill {
    /// What to ask, and what is documented.
    pub plan: Plan,
    /// The documented answers, the contract's where the plan is silent.
    pub expected: Expected,
    /// Where the API listens.
    pub target: Target,
    /// How effects are counted.
    pub effects: Effects,
    /// What every chance follows from.
    pub seed: u64,
    /// The API's process, where the plan starts it.
    process: Option<Process>,
}

impl Drill {
    /// Makes a drill. A process that the plan names is not started yet: [`run`](super::run) does.
    #[must_use]
    pub fn new(plan: Plan, target: Target, effects: Effects, seed: u64) -> Self {
        let expected = plan.expected();
        let process = plan.process.as_ref().map(|spec| Process::new(spec, &target));
        Self { plan, expected, target, effects, seed, process }
    }

    /// How long one answer may take.
    pub(super) const fn answer_within(&self) -> Duration {
        self.plan.bounds.answer_wait
    }

    /// How long a lost holder, an expiry, or a definite answer is waited for.
    pub(super) const fn patience(&self) -> Duration {
        self.plan.bounds.patience
    }

    /// The API's process, where the plan starts it.
    pub(super) const fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }
}
