//! One drill: a plan, its target, and how effects are counted.

use std::time::Duration;

use super::{
    exchange::{Got, How, Request},
    memory::Memory,
    process::Process,
    program::Program,
    target::Target,
};
use crate::{
    effects::Effects,
    plan::{Drilled, Expected, Late, Plan},
};

/// How long an effect that an API answered may take until it can be counted.
const EFFECT_WITHIN: Duration = Duration::from_secs(5);

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
    /// What is drilled.
    of: Drilled,
    /// The API's process, where the plan starts it.
    process: Option<Process>,
    /// The program that each request is handed to, where it is not sent.
    program: Option<Program>,
    pub(crate) memory: Memory,
}

impl Drill {
    /// Makes a drill. A process that the plan names is not started yet: [`run`](super::run) does.
    #[must_use]
    pub fn new(plan: Plan, target: Target, effects: Effects, seed: u64) -> Self {
        let expected = plan.expected();
        let of = Drilled::Http;
        let process = plan.process.as_ref().map(|spec| Process::new(spec, &target, of));
        let memory = Memory::default();
        Self { plan, expected, target, effects, seed, of, process, program: None, memory }
    }

    /// Drills a consumer instead of an API: a request is a message, and is handed to the program if
    /// there is one.
    #[must_use]
    pub fn of_consumer(mut self, program: Option<Program>) -> Self {
        self.of = Drilled::Consumer;
        let process = self.plan.process.as_ref();
        self.process = process.map(|spec| Process::new(spec, &self.target, self.of));
        self.program = program;
        self
    }

    /// What is drilled.
    pub(crate) const fn of(&self) -> Drilled {
        self.of
    }

    /// The program that each request is handed to, where it is not sent.
    #[must_use]
    pub const fn program(&self) -> Option<&Program> {
        self.program.as_ref()
    }

    /// Sends a request, or hands it to the program.
    pub(crate) async fn send(&self, request: &Request, how: How) -> Got {
        let within = self.answer_within();
        match &self.program {
            Some(program) => {
                let handed = tokio::time::timeout(within, program.send(request, how));
                handed.await.unwrap_or(Got::TimedOut)
            }
            None => self.target.send(request, how, within).await,
        }
    }

    /// How long one answer may take.
    pub(crate) const fn answer_within(&self) -> Duration {
        self.plan.bounds.answer_wait
    }

    /// How long a lost holder, an expiry, or a definite answer is waited for.
    pub(crate) const fn patience(&self) -> Duration {
        self.plan.bounds.patience
    }

    /// How long an effect may take until it can be counted. A consumer may acknowledge a message that it
    /// only keeps, and work when it gets to it.
    pub(crate) const fn effect_within(&self) -> Duration {
        match self.of {
            Drilled::Consumer => self.patience(),
            Drilled::Http => EFFECT_WITHIN,
        }
    }

    /// How long one request is retried.
    pub(crate) fn retries_for(&self) -> Duration {
        retried_within(&self.expected, self.patience())
    }

    /// The API's process, where the plan starts it.
    pub(crate) const fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }
}

/// The patience, but not past a life after which the key is documented to be free again: a retry would
/// then rightly run.
fn retried_within(expected: &Expected, patience: Duration) -> Duration {
    let life = expected.replay_for.filter(|_| expected.late_retry == Late::Runs);
    // The key may have been used a while before the first retry.
    life.map_or(patience, |life| patience.min(life * 3 / 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retried(lifetime: &str) -> u64 {
        let plan = format!(
            "name = \"a\"\nrequest = {{ path = \"/\", body = \"{{{{intent}}}}\" }}\n\
             effects = {{ url = \"/{{{{intent}}}}\" }}\n[lifetime]\n{lifetime}\n"
        );
        let expected = Plan::parse(&plan).unwrap().expected();
        retried_within(&expected, Duration::from_mins(1)).as_secs()
    }

    #[test]
    fn nobody_retries_until_the_key_is_rightly_free_again() {
        assert_eq!(retried(""), 60);
        assert_eq!(retried("replay_for = \"20s\"\nlate = \"runs\""), 15);
        assert_eq!(retried("replay_for = \"20s\"\nlate = \"refused\"\n[answers]\nlate = 410"), 60);
        assert_eq!(retried("replay_for = \"1d\"\nlate = \"runs\""), 60);
    }
}
