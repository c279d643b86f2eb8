//! `replay`: the same key and the same bytes again.

use async_trait::async_trait;

use super::{Rule, Scenario};
use crate::http::{
    asking::Begun,
    compare,
    drill::Drill,
    trial::{Trial, Tried, broken},
};

pub(super) struct Replay;

#[async_trait]
impl Scenario for Replay {
    fn rule(&self) -> Rule {
        Rule {
            name: "replay",
            says: "The same request with the same key has no second effect and gets the first answer \
                   again.",
        }
    }

    fn needs(&self, _: &Drill) -> Option<String> {
        None
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let expected = &trial.drill.expected;
        let Begun { names, request, answer: first } = trial.begin("the first request").await?;
        trial.remember(&names, &request, &first);
        if compare::is_marked(expected, &first) {
            return broken("the first answer is marked as a replay");
        }
        for what in ["the retry", "the second retry"] {
            // The effects come first: a second one weighs more than how it was answered.
            let again = trial.settled(what, &request).await;
            trial.happened_once(&names, what).await?;
            let again = again?;
            if let Some(difference) = trial.difference(&first, &again) {
                return broken(format!("{what} is not the first answer again: {difference}"));
            }
            if let Some(lacks) = compare::unmarked(expected, &again) {
                return broken(format!("{what} is the first answer again, but {lacks}"));
            }
        }
        Ok(format!("1 effect; two retries got the first {} again", first.status))
    }
}
