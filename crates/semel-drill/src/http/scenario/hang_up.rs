//! `hang-up`: the client is gone before there is an answer.

use async_trait::async_trait;

use super::{Rule, Scenario};
use crate::http::{
    drill::Drill,
    exchange::{Got, How},
    trial::{Trial, Tried, failed},
};

/// How often it is tried with each body: how far the API is when the client goes is chance.
const ROUNDS: usize = 4;

pub(super) struct HangUp;

#[async_trait]
impl Scenario for HangUp {
    fn rule(&self) -> Rule {
        Rule {
            name: "hang-up",
            says: "When the client hangs up as soon as its request is out, its retries come to one \
                   answer, and it happens once.",
        }
    }

    fn needs(&self, _: &Drill) -> Option<String> {
        None
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let plan = &trial.drill.plan;
        let bodies = [Some(&plan.request.body), plan.variants.slow.as_ref()];
        let mut tries = 0;
        for body in bodies.into_iter().flatten() {
            for _ in 0..ROUNDS {
                let names = trial.intent();
                let request = trial.command_with(&names, body);
                let what = "the request, hung up on,";
                if let Got::Broken(why) = trial.send(what, &request, How::HangUp).await {
                    return failed(format!("{what} was not sent: {why}"));
                }
                let answer = trial.settled("the retry", &request).await;
                trial.happened_once(&names, "a client hung up and retried").await?;
                trial.replays("the second retry", &request, &answer?).await?;
                trial.happened_once(&names, "the second retry").await?;
                tries += 1;
            }
        }
        Ok(format!("1 effect for each of {tries} requests that were hung up on and retried"))
    }
}
