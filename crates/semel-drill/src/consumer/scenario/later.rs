//! `later`, `lasting`: copies long after the message.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tokio::time::{Instant, sleep, sleep_until};

use super::super::Consumer;
use crate::{
    http::{
        Drill, Trial, Tried,
        asking::Begun,
        memory::Told,
        scenario::{Rule, Scenario, lasting::not_more},
        trial::broken,
    },
    plan::{Names, written},
    report::Ended,
};

pub(super) const LATER: Rule = Rule {
    name: "later",
    says: "A copy that comes much later, and after many other messages, which have one effect each, has no \
           effect.",
};

pub(super) const LASTING: Rule = Rule {
    name: "lasting",
    says: "At the end of the drill copies of its first messages have no effect, and nothing has happened \
           again since it was counted.",
};

/// How many others are on their way at once.
const AT_ONCE: usize = 16;

/// How often it is looked whether their effects are there.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(super) struct Later<'c>(pub(super) &'c Consumer);

#[async_trait]
impl Scenario for Later<'_> {
    fn rule(&self) -> Rule {
        LATER
    }

    fn needs(&self, drill: &Drill) -> Option<String> {
        let too_long = self.0.later() > drill.plan.bounds.patience;
        too_long
            .then(|| "`bounds.later` is longer than the drill may wait: `--patience`".to_owned())
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let Begun { names, request, .. } = trial.begin("the message").await?;
        let at = Instant::now();
        trial.happened_once(&names, "the message was acknowledged").await?;
        let others = self.0.plan.bounds.between;
        let others = stream::iter(0..others).map(|_| async {
            let names = trial.intent();
            trial.settled("another message in between", &trial.command(&names)).await?;
            Tried::Ok(names)
        });
        let between: Vec<Names> = others.buffer_unordered(AT_ONCE).try_collect().await?;
        all_happened(trial, &between).await?;
        sleep_until(at + self.0.later()).await;
        let age = at.elapsed();
        trial.copied("its late copy", &names, &request).await?;
        let (others, age) = (between.len(), written(age));
        Ok(format!("1 effect; the copy came {age} and {others} messages later, and had none"))
    }
}

/// Demands that each of many acknowledged messages has its effect once. They are waited for as long as any of
/// them still gets there: a consumer may have a queue of its own.
async fn all_happened(trial: &Trial<'_>, all: &[Names]) -> Tried<()> {
    let mut missing: Vec<usize> = (0..all.len()).collect();
    let mut moved = Instant::now();
    loop {
        let counted = stream::iter(missing.clone())
            .map(|at| async move { (at, trial.drill.effects.count(&all[at]).await) });
        let counted: Vec<_> = counted.buffer_unordered(AT_ONCE).collect().await;
        let before = missing.len();
        missing.clear();
        for (at, count) in counted {
            match count.map_err(|error| Ended::Failed(error.to_string()))? {
                0 => missing.push(at),
                1 => {}
                // Counted once more, for the record.
                _ => trial.happened_once(&all[at], "another message came in between").await?,
            }
        }
        let Some(&first) = missing.first() else { return Ok(()) };
        if missing.len() < before {
            moved = Instant::now();
        }
        if moved.elapsed() > trial.drill.effect_within() {
            trial.count_now(&all[first]).await?;
            trial.blame(missing.iter().map(|&at| all[at].key.clone()));
            return broken(format!(
                "of {} acknowledged messages in between, {} have no effect: nothing delivers them again",
                all.len(),
                missing.len()
            ));
        }
        trial.drill.memory.works_later();
        sleep(LOOK_EVERY).await;
    }
}

pub(super) struct Lasting;

#[async_trait]
impl Scenario for Lasting {
    fn rule(&self) -> Rule {
        LASTING
    }

    fn needs(&self, _: &Drill) -> Option<String> {
        None
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let kept = trial.drill.memory.kept();
        for Told { names, request, .. } in &kept.told {
            let acknowledged = trial.settled("a copy at the end of the drill", request).await;
            // The effects come first: a second one weighs more than how it was answered.
            let before = kept.counts.iter().filter(|(known, _)| known.intent == names.intent);
            let before = before.map(|(_, count)| *count).max().unwrap_or(1);
            trial.happened(names, before, "a copy at the end of the drill").await?;
            acknowledged?;
        }
        let more = not_more(trial, &kept.counts).await?;
        Ok(format!("{} first messages came again; {more}", kept.told.len()))
    }
}
