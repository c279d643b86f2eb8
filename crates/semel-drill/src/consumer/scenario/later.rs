//! `later`, `lasting`: copies long after the message.

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tokio::time::{Instant, sleep_until};

use super::super::Consumer;
use crate::{
    http::{
        Drill, Trial, Tried,
        asking::Begun,
        memory::Told,
        scenario::{Rule, Scenario, lasting::not_more},
    },
    plan::written,
};

pub(super) const LATER: Rule = Rule {
    name: "later",
    says: "A copy that comes much later, and after many other messages, has no effect.",
};

pub(super) const LASTING: Rule = Rule {
    name: "lasting",
    says: "At the end of the drill copies of its first messages have no effect, and nothing has happened \
           again since it was counted.",
};

/// How many others are on their way at once.
const AT_ONCE: usize = 16;

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
            trial.settled("another message in between", &trial.command(&names)).await.map(drop)
        });
        let between: Vec<()> = others.buffer_unordered(AT_ONCE).try_collect().await?;
        sleep_until(at + self.0.later()).await;
        let age = at.elapsed();
        trial.copied("its late copy", &names, &request).await?;
        let (others, age) = (between.len(), written(age));
        Ok(format!("1 effect; the copy came {age} and {others} messages later, and had none"))
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
