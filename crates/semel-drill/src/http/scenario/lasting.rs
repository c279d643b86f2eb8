//! `lasting`: what was true when it was judged is true at the end of the drill.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::{Rule, Scenario};
use crate::{
    http::{
        drill::Drill,
        memory::{Kept, Told},
        trial::{Trial, Tried, broken},
        words::effects,
    },
    plan::Names,
};

/// How old the oldest answer is at least when it is asked for again.
const AGE_MIN: Duration = Duration::from_secs(3);

pub(crate) struct Lasting;

#[async_trait]
impl Scenario for Lasting {
    fn rule(&self) -> Rule {
        Rule {
            name: "lasting",
            says: "At the end of the drill the first answers of its start are still replayed, and \
                   nothing has happened again since it was counted.",
        }
    }

    fn needs(&self, _: &Drill) -> Option<String> {
        None
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let kept = trial.drill.memory.kept();
        let asked = asked_again(trial, &kept).await?;
        Ok(format!("{asked}; {}", not_more(trial, &kept.counts).await?))
    }
}

/// Demands that no effect has come to those that were counted before.
pub(crate) async fn not_more(trial: &Trial<'_>, counts: &[(Names, u64)]) -> Tried {
    for (names, before) in counts {
        // An effect may come to be seen late, but never one more than there are to be.
        let count = trial.count_now(names).await?;
        if count > *before {
            return broken(format!(
                "{} had {} when it was counted first, and has {} now",
                names.intent,
                effects(*before),
                effects(count)
            ));
        }
    }
    Ok(format!("the effects of {} intents did not become more", counts.len()))
}

/// Asks for the first answers again, if they are documented to be kept so long.
async fn asked_again(trial: &Trial<'_>, Kept { counts, told }: &Kept) -> Tried {
    let Some(oldest) = told.iter().map(|told| told.at).min() else {
        return Ok("there was no answer to ask for again".into());
    };
    let least = AGE_MIN.min(trial.drill.patience());
    tokio::time::sleep_until(oldest + least).await;
    let age = oldest.elapsed();
    let life = trial.drill.expected.replay_for;
    if life.is_some_and(|life| Instant::now() + AGE_MIN > oldest + life) {
        return Ok("the first answers are not documented to be kept so long".into());
    }
    let what = format!("a retry {} s after the first request", age.as_secs());
    for Told { names, request, answer, .. } in told {
        let replayed = trial.replays(&what, request, answer).await;
        // The effects come first: a second one weighs more than how it was answered.
        let before = counts.iter().filter(|(known, _)| known.intent == names.intent);
        let before = before.map(|(_, count)| *count).max();
        trial.happened(names, before.unwrap_or(1), &what).await?;
        replayed?;
    }
    Ok(format!("{} first answers were replayed after {} s", told.len(), age.as_secs()))
}
