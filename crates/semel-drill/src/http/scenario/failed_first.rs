//! `failed-first`: the operation itself refuses, for good.

use async_trait::async_trait;

use super::{Rule, Scenario};
use crate::{
    http::{
        drill::Drill,
        trial::{Trial, Tried, broken, failed},
        words::shown,
    },
    report::Ended,
};

const MISSING: &str = "the plan has no `variants.refused`";

pub(super) struct FailedFirst;

#[async_trait]
impl Scenario for FailedFirst {
    fn rule(&self) -> Rule {
        Rule {
            name: "failed-first",
            says: "A request that the operation refuses for good is refused again when it is retried, \
                   and has no effect.",
        }
    }

    fn needs(&self, drill: &Drill) -> Option<String> {
        drill.plan.variants.refused.is_none().then(|| MISSING.to_owned())
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let body = trial.drill.plan.variants.refused.as_ref();
        let body = body.ok_or_else(|| Ended::NotTried(MISSING.into()))?;
        let names = trial.intent();
        let request = trial.command_with(&names, body);
        let first = trial.ask("the request that is refused", &request).await;
        let refusal = first.answer().filter(|answer| (400..500).contains(&answer.status));
        let Some(refusal) = refusal else {
            return failed(format!(
                "`variants.refused` got {}, which is no refusal",
                shown(&first)
            ));
        };
        trial.happened(&names, 0, "a refused request").await?;
        let again = trial.ask("its retry", &request).await;
        trial.happened(&names, 0, "the retry of a refused request").await?;
        match again.answer() {
            Some(answer) if answer.status == refusal.status => {
                Ok(format!("no effect; both were refused with {}", refusal.status))
            }
            None => failed(format!("the retry of a refused request got {again}")),
            _ => broken(format!(
                "the request was refused with {}, and its retry got {}",
                refusal.status,
                shown(&again)
            )),
        }
    }
}
