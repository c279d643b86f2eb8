//! What is tried: one file per kind of trouble.

pub(crate) mod changed;
mod content;
pub(crate) mod control;
pub(crate) mod crash;
mod elsewhere;
mod failed_first;
mod hang_up;
pub(crate) mod lasting;
mod late;
mod lost_answer;
mod missing_key;
mod odd_keys;
pub(crate) mod race;
mod replay;
mod resource;
mod storm;

use async_trait::async_trait;

use super::{
    drill::Drill,
    trial::{Trial, Tried},
};

/// A rule that an API with idempotency keys keeps, in words of its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rule {
    /// Its stable name, such as `lost-answer`.
    pub name: &'static str,
    /// What must hold, in one sentence.
    pub says: &'static str,
}

/// A way to try one rule.
#[async_trait]
pub trait Scenario: Send + Sync {
    /// The rule that is tried.
    fn rule(&self) -> Rule;

    /// Says what the plan lacks to try it; nothing if it can be tried.
    fn needs(&self, drill: &Drill) -> Option<String>;

    /// Tries it, and says in one sentence what was seen.
    ///
    /// # Errors
    ///
    /// Says why the rule is broken, or why it could not be found out.
    async fn run(&self, trial: &Trial<'_>) -> Tried;
}

/// Returns every scenario, in the order in which they are tried.
#[must_use]
pub fn all() -> &'static [&'static dyn Scenario] {
    &[
        &control::Control,
        &replay::Replay,
        &lost_answer::LostAnswer,
        &race::Race,
        &changed::ChangedAfter,
        &changed::ChangedDuring,
        &elsewhere::OtherOperation,
        &elsewhere::OtherTenant,
        &content::Reformatted,
        &content::NumberTwins,
        &hang_up::HangUp,
        &storm::Storm,
        &late::Late,
        &resource::AfterChange,
        &resource::AfterDelete,
        &odd_keys::OddKeys,
        &missing_key::MissingKey,
        &failed_first::FailedFirst,
        &crash::Crash,
        &crash::Restart,
        &lasting::Lasting,
    ]
}

/// Returns those whose rules are named and the control, or all if none is named.
pub fn wanted(only: &[String]) -> impl Iterator<Item = &'static dyn Scenario> {
    let is_wanted = |rule: Rule| {
        only.is_empty() || rule == control() || only.iter().any(|name| name == rule.name)
    };
    all().iter().copied().filter(move |one| is_wanted(one.rule()))
}

/// Returns every rule.
pub fn rules() -> impl Iterator<Item = Rule> {
    all().iter().map(|scenario| scenario.rule())
}

/// Returns the rule without which no other verdict is believed.
#[must_use]
pub fn control() -> Rule {
    control::RULE
}
