//! `lost-answer`: the effect happened, and the client never heard of it.

use async_trait::async_trait;

use super::{Rule, Scenario};
use crate::http::{
    asking::Begun,
    drill::Drill,
    trial::{Trial, Tried, broken},
};

pub(super) struct LostAnswer;

#[async_trait]
impl Scenario for LostAnswer {
    fn rule(&self) -> Rule {
        Rule {
            name: "lost-answer",
            says: "When the answer is lost after the effect, the retry gets that very answer, and \
                   nothing happens twice.",
        }
    }

    fn needs(&self, _: &Drill) -> Option<String> {
        None
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let what = "the first request, whose answer is lost,";
        let Begun { names, request, answer: lost } = trial.begin_lost(what).await?;
        let retry = trial.settled("the retry", &request).await;
        trial.happened_once(&names, "an answer was lost and retried").await?;
        let retry = retry?;
        if let Some(difference) = trial.difference(&lost, &retry) {
            return broken(format!("the retry is not the answer that was lost: {difference}"));
        }
        trial.replays("the second retry", &request, &retry).await?;
        trial.happened_once(&names, "the second retry").await?;
        Ok(format!("1 effect; the retry got the {} that was lost", lost.status))
    }
}
