//! Drilling anybody's consumer of messages: does a message that is delivered again act twice?
//!
//! A consumer that messages are pushed to is an API whose key is the message's id, so it is asked by the
//! machinery of [`http`](crate::http). What differs is what its answers mean. A broker takes nothing from
//! an answer but "acknowledged", "refused for good" or "deliver it again": so no answer is held against
//! another here, and what is not acknowledged is delivered until it is.

mod scenario;

use std::{path::Path, time::Duration};

#[doc(inline)]
pub use self::scenario::rules;
use crate::{
    effects::{Effects, EffectsError},
    http::{Drill, Program, Progress, Target, run_each, scenario::Scenario},
    plan::{ConsumerPlan, Names},
    report::Verdict,
};

/// A consumer under drill.
#[derive(Debug)]
pub struct Consumer {
    plan: ConsumerPlan,
    drill: Drill,
    /// Where the state of an aggregate stands, if the plan says.
    state: Option<Effects>,
}

impl Consumer {
    /// Where nobody listens: the target of a plan whose messages go to a program.
    pub const NOBODY: &str = "http://127.0.0.1:9";

    /// Opens what counts. Nobody is asked yet.
    ///
    /// # Errors
    /// The database or the URL that counts is none, or TLS cannot be set up.
    pub fn open(
        plan: ConsumerPlan,
        target: Target,
        ca: Option<&Path>,
        seed: u64,
    ) -> Result<Self, EffectsError> {
        let pushed = plan.pushed();
        let wait = plan.bounds.answer_wait;
        let effects = Effects::open(&pushed.effects, &target, ca, wait)?;
        let state = plan.ordered.as_ref().and_then(|ordered| ordered.state.as_ref());
        let state = state.map(|spec| Effects::open(spec, &target, ca, wait)).transpose()?;
        let (start, folder) = (plan.message.command.clone(), plan.message.folder.clone());
        let program = (!start.is_empty()).then_some(Program { start, folder });
        let drill = Drill::new(pushed, target, effects, seed).of_consumer(program);
        Ok(Self { drill, plan, state })
    }

    /// Returns the drill of the requests that push its messages.
    #[must_use]
    pub const fn drill(&self) -> &Drill {
        &self.drill
    }

    /// Returns every way to try a rule of it, in the order in which they are tried.
    #[must_use]
    pub fn scenarios(&self) -> Vec<Box<dyn Scenario + '_>> {
        scenario::all(self)
    }

    /// Tries the rules that are named and the control, or all if none is named.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the consumer's process; what it was sent stays done.
    pub async fn run(&self, only: &[String], seen: impl FnMut(Progress<'_>)) -> Vec<Verdict> {
        let all = self.scenarios();
        let wanted = |name: &str| {
            only.is_empty() || name == scenario::CONTROL.name || only.iter().any(|one| one == name)
        };
        let chosen: Vec<_> =
            all.iter().map(Box::as_ref).filter(|one| wanted(one.rule().name)).collect();
        run_each(&self.drill, &chosen, seen).await
    }

    /// How old a message is when its late copy comes.
    const fn later(&self) -> Duration {
        self.plan.bounds.later
    }

    /// How often a message that cannot be handled is delivered.
    const fn deliveries(&self) -> usize {
        self.plan.bounds.deliveries
    }

    /// Reads the state of an aggregate.
    async fn state(&self, aggregate: &str) -> Option<Result<u64, EffectsError>> {
        let state = self.state.as_ref()?;
        let intent = aggregate.to_owned();
        let names = Names { aggregate: Some(intent.clone()), intent, ..Names::default() };
        Some(state.count_settled(&names).await)
    }
}
