//! `control`: the counting can see a second effect.

use async_trait::async_trait;

use super::{Rule, Scenario};
use crate::http::{
    asking::Begun,
    drill::Drill,
    trial::{Trial, Tried, failed},
    words::effects,
};
use crate::plan::Names;

pub(crate) const RULE: Rule = Rule {
    name: "control",
    says: "Two intents are counted one each, and the same command under a new key is counted again: \
           the counting could see a duplicate.",
};

pub(super) struct Control;

#[async_trait]
impl Scenario for Control {
    fn rule(&self) -> Rule {
        RULE
    }

    fn needs(&self, _: &Drill) -> Option<String> {
        None
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let before = trial.count(&trial.intent()).await?;
        if before != 0 {
            return failed(format!("a fresh intent is counted {before} times before it was asked"));
        }
        let mut last = None;
        for what in ["the first intent", "the second intent"] {
            let Begun { names, request, answer } =
                trial.begin_plainly(what, || trial.intent()).await?;
            trial.remember(&names, &request, &answer);
            let count = trial.count_up_to(&names, 1).await?;
            last = Some(names);
            if count != 1 {
                return failed(format!(
                    "{what} was done once and is counted as {}",
                    effects(count)
                ));
            }
        }
        // The same command under a new key is a new intent, which nothing may hold back.
        let one = last.unwrap_or_else(|| trial.intent());
        let again = || Names { key: trial.key(), ..one.clone() };
        let what = "the second intent's command under a new key";
        let Begun { names: again, .. } = trial.begin_plainly(what, again).await?;
        match trial.count_up_to(&again, 2).await? {
            2 => {
                Ok("each was counted once, and the same content was counted again as something new"
                    .into())
            }
            count => failed(format!(
                "{what} ran too, and both are counted as {}: a duplicate could not be seen",
                effects(count)
            )),
        }
    }
}
