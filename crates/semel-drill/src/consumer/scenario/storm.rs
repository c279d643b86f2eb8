//! `storm`: many aggregates, broken connections, and a broker that goes back now and then.

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

use super::{super::Consumer, delivery::Way};
use crate::http::{
    Drill, Trial, Tried,
    chance::Chance,
    scenario::{Rule, Scenario},
};

pub(super) const STORM: Rule = Rule {
    name: "storm",
    says: "When connections break and the broker goes back now and then, each of many messages has its \
           effect once.",
};

/// How many aggregates deliver at once.
const LANES: usize = 16;

/// How far the broker goes back at most.
const BACK_MAX: u64 = 3;

pub(super) struct Storm<'c>(pub(super) &'c Consumer);

#[async_trait]
impl Scenario for Storm<'_> {
    fn rule(&self) -> Rule {
        STORM
    }

    fn needs(&self, _: &Drill) -> Option<String> {
        None
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let messages = self.0.plan.bounds.storm;
        let lanes = messages.min(LANES);
        let lanes: Vec<_> = (0..lanes)
            .map(|lane| (lane, messages / lanes + usize::from(lane < messages % lanes)))
            .map(|(lane, count)| (lane, count, trial.chance()))
            .collect();
        let delivered =
            stream::iter(lanes).map(|(lane, count, chance)| deliver(trial, lane, count, chance));
        let deliveries: Vec<u32> = delivered.buffer_unordered(LANES).try_collect().await?;
        let deliveries: u32 = deliveries.iter().sum();
        Ok(format!(
            "1 effect for each of {messages} messages in {deliveries} deliveries (seed {})",
            trial.drill.seed
        ))
    }
}

/// Delivers the messages of one aggregate in their order; returns how many deliveries it took.
async fn deliver(trial: &Trial<'_>, lane: usize, count: usize, mut chance: Chance) -> Tried<u32> {
    let names = trial.lane(count);
    let mut way = Way { chance: chance.clone(), losses_of_10: 3 };
    let mut deliveries = 0;
    for at in 0..count {
        let back = if chance.below(3) == 0 { chance.below(BACK_MAX + 1) } else { 0 };
        let from = at.saturating_sub(usize::try_from(back).unwrap_or(0));
        for nth in (from..at).chain([at]).chain((back > 0).then_some(at)) {
            let what = format!("message {} of aggregate {}", nth + 1, lane + 1);
            let request = trial.command(&names[nth]);
            deliveries += trial.delivered(&what, &request, &mut way).await?;
        }
    }
    for (nth, one) in (1..).zip(&names) {
        let after = format!("the storm: message {nth} of aggregate {}", lane + 1);
        trial.happened_once(one, &after).await?;
    }
    Ok(deliveries)
}
