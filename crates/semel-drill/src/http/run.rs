//! One scenario after the other, each with fresh intents, each bounded in time.

use std::time::Duration;

use super::{
    drill::Drill,
    scenario::{self, Rule, Scenario},
    trial::Trial,
};
use crate::report::{Ended, Verdict};

/// How far a drill is.
#[derive(Debug)]
pub enum Progress<'v> {
    /// A rule is tried now.
    Begins {
        /// The rule.
        rule: Rule,
        /// Its place among those that are tried, from 0.
        at: usize,
        /// How many are tried.
        of: usize,
    },
    /// A rule has its verdict.
    Ended(&'v Verdict),
}

/// Tries the rules that are named, or all of them. The control is always tried: without it nothing
/// else is believed. The API's process, where the plan names one, runs while this does.
///
/// # Cancel safety
///
/// Dropping the future ends the API's process; what the API was asked stays done.
pub async fn run(drill: &Drill, only: &[String], seen: impl FnMut(Progress<'_>)) -> Vec<Verdict> {
    let scenarios: Vec<_> = scenario::wanted(only).collect();
    run_each(drill, &scenarios, seen).await
}

/// Tries these scenarios; the first must be a control, without which nothing else is believed.
///
/// # Cancel safety
///
/// As [`run`].
pub async fn run_each(
    drill: &Drill,
    scenarios: &[&dyn Scenario],
    mut seen: impl FnMut(Progress<'_>),
) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let mut hindered = match drill.process() {
        Some(process) => process.start().await.err().map(Ended::Failed),
        None => None,
    };
    for (at, scenario) in scenarios.iter().enumerate() {
        let rule = scenario.rule();
        seen(Progress::Begins { rule, at, of: scenarios.len() });
        let verdict = match &hindered {
            Some(why) => unseen(rule, why.clone()),
            None => tried(drill, *scenario, at).await,
        };
        seen(Progress::Ended(&verdict));
        if rule.name == scenario::control().name && verdict.ended != Ended::Kept {
            let why = "the control did not hold, so no count can be believed";
            hindered = Some(Ended::NotTried(why.into()));
        }
        verdicts.push(verdict);
    }
    if let Some(process) = drill.process() {
        process.kill().await;
    }
    verdicts
}

async fn tried(drill: &Drill, scenario: &dyn Scenario, at: usize) -> Verdict {
    let rule = scenario.rule();
    if let Some(missing) = scenario.needs(drill) {
        return unseen(rule, Ended::NotTried(missing));
    }
    let seed = drill.seed.wrapping_add(u64::try_from(at).unwrap_or_default());
    let trial = Trial::new(drill, seed);
    let bound = longest(drill);
    let ended = tokio::time::timeout(bound, scenario.run(&trial)).await;
    let (kept, exchanges, guilty) = trial.into_evidence();
    let effects = kept.counts.iter().map(|(names, count)| (names.intent.clone(), *count)).collect();
    if matches!(ended, Ok(Ok(_))) {
        drill.memory.keep(kept);
    }
    let (ended, seen) = match ended {
        Ok(Ok(seen)) => (Ended::Kept, seen),
        Ok(Err(ended)) => (ended, String::new()),
        Err(_) => {
            let why = format!("it did not come to an end in {} s", bound.as_secs());
            (Ended::Failed(why), String::new())
        }
    };
    Verdict { rule, seen: told(&ended, seen), ended, effects, exchanges, guilty }
}

/// The longest that one scenario may take: some wait for a lost holder several times.
fn longest(drill: &Drill) -> Duration {
    drill.patience() * 6 + drill.answer_within() * 10
}

fn unseen(rule: Rule, ended: Ended) -> Verdict {
    let seen = told(&ended, String::new());
    Verdict { rule, ended, seen, effects: Vec::new(), exchanges: Vec::new(), guilty: Vec::new() }
}

fn told(ended: &Ended, seen: String) -> String {
    match ended {
        Ended::Kept => seen,
        Ended::Broken(why) | Ended::NotTried(why) | Ended::Failed(why) => why.clone(),
    }
}
