//! `missing-key`: a request without a key.

use async_trait::async_trait;

use super::{Rule, Scenario};
use crate::http::{
    drill::Drill,
    trial::{Trial, Tried, broken, failed},
    words::{listed, shown},
};

pub(super) struct MissingKey;

#[async_trait]
impl Scenario for MissingKey {
    fn rule(&self) -> Rule {
        Rule {
            name: "missing-key",
            says: "Where a key is required, a request without one is refused and has no effect.",
        }
    }

    fn needs(&self, drill: &Drill) -> Option<String> {
        let required = drill.expected.key.required;
        (!required).then(|| "a key is not documented to be required".to_owned())
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let names = trial.intent();
        let request = trial.keyless(&trial.drill.plan.request, &names);
        let what = "a request without a key";
        let got = trial.ask(what, &request).await;
        trial.happened(&names, 0, what).await?;
        let documented = &trial.drill.expected.missing_key;
        if got.answer().is_some_and(|answer| documented.contains(&answer.status)) {
            return Ok(format!("no effect; {what} got {got}"));
        }
        if got.answer().is_none() {
            return failed(format!("{what} got {got}"));
        }
        broken(format!("{what} got {}, and {} is documented", shown(&got), listed(documented)))
    }
}
