//! `control`: the counting can see a second effect, and what is new has one.

use async_trait::async_trait;

use crate::{
    http::{
        Drill, Trial, Tried,
        asking::Begun,
        scenario::{Rule, Scenario},
        trial::{broken, failed},
        words::effects,
    },
    plan::Names,
};

/// Without it no other verdict is believed.
pub(in crate::consumer) const CONTROL: Rule = Rule {
    name: "control",
    says: "Two messages are counted one each, and the next message of the second one's aggregate, with the \
           same content, is counted again: the counting could see a duplicate, and nothing new is taken for \
           a copy.",
};

pub(super) struct Control;

#[async_trait]
impl Scenario for Control {
    fn rule(&self) -> Rule {
        CONTROL
    }

    fn needs(&self, _: &Drill) -> Option<String> {
        None
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let before = trial.count(&trial.intent()).await?;
        if before != 0 {
            return failed(format!("a fresh intent is counted {before} times before it was sent"));
        }
        first(trial).await?;
        let names = second(trial).await?;
        next(trial, &names).await?;
        Ok("each was counted once, and the same content was counted again as something new".into())
    }
}

/// Nothing was counted yet: if this is not, the counting is as suspect as the consumer.
async fn first(trial: &Trial<'_>) -> Tried<()> {
    let what = "the first message";
    let Begun { names, request, answer } = trial.begin_plainly(what, || trial.intent()).await?;
    trial.remember(&names, &request, &answer);
    match trial.count_up_to(&names, 1).await? {
        1 => Ok(()),
        count => {
            failed(format!("{what} was acknowledged once and is counted as {}", effects(count)))
        }
    }
}

/// What is counted moves: an effect that is missing is missing.
async fn second(trial: &Trial<'_>) -> Tried<Names> {
    let what = "the second message";
    let Begun { names, request, answer } = trial.begin_plainly(what, || trial.intent()).await?;
    trial.remember(&names, &request, &answer);
    match trial.count_up_to(&names, 1).await? {
        1 => Ok(names),
        0 => broken(format!(
            "{what} was acknowledged and has no effect, as the first had: it is lost"
        )),
        count => {
            failed(format!("{what} was acknowledged once and is counted as {}", effects(count)))
        }
    }
}

/// A new id, and the next place in its aggregate: by whichever of the two a consumer knows its messages, this
/// one is new.
async fn next(trial: &Trial<'_>, second: &Names) -> Tried<()> {
    let what = "the next message of its aggregate, with the same content,";
    let named = || Names { key: trial.key(), sequence: Some("2".to_owned()), ..second.clone() };
    let Begun { names, .. } = trial.begin_plainly(what, named).await?;
    match trial.count_up_to(&names, 2).await? {
        2 => Ok(()),
        1 => broken(format!(
            "{what} came under an id of its own, was acknowledged, and added no effect: it was taken for a \
             copy, and is lost, or else what is counted stays the same by itself"
        )),
        count => {
            failed(format!("{what} was acknowledged, and both are counted as {}", effects(count)))
        }
    }
}
