//! `poison`, `fails-first`: messages that fail, for good or once.

use async_trait::async_trait;

use super::{super::Consumer, content::ends, lacks};
use crate::{
    http::{
        Drill, Trial, Tried,
        scenario::{Rule, Scenario},
        trial::{broken, failed},
        words::effects,
    },
    plan::{Names, by_key},
    report::Ended,
};

pub(super) const POISON: Rule = Rule {
    name: "poison",
    says: "A message that can never be handled has no effect, does not come for ever, and holds up nobody \
           for ever.",
};

pub(super) const FAILS_FIRST: Rule = Rule {
    name: "fails-first",
    says: "A message whose first run fails half-way has its whole effect once when it comes again.",
};

fn variant<'b>(body: Option<&'b String>, setting: &str) -> Result<&'b str, Ended> {
    let missing = || Ended::NotTried(format!("the plan has no `{setting}`"));
    body.map(String::as_str).ok_or_else(missing)
}

pub(super) struct Poison<'c>(pub(super) &'c Consumer);

#[async_trait]
impl Scenario for Poison<'_> {
    fn rule(&self) -> Rule {
        POISON
    }

    fn needs(&self, _: &Drill) -> Option<String> {
        lacks(self.0.plan.variants.poison.is_some(), "variants.poison")
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let body = by_key(variant(self.0.plan.variants.poison.as_ref(), "variants.poison")?);
        let lane = trial.lane(2);
        let poison = trial.command_with(&lane[0], &body);
        let others = trial.lane(1);
        let (ended, flowed) = tokio::join!(
            self.ended(trial, &poison),
            flows(trial, "a message of another aggregate meanwhile", &others[0]),
        );
        match trial.count(&lane[0]).await? {
            0 => {}
            1 => return failed("`variants.poison` was handled: it had its effect"),
            count => {
                return broken(format!(
                    "what cannot be handled has {} all the same",
                    effects(count)
                ));
            }
        }
        flowed?;
        let ended = ended?;
        flows(trial, "the next message of its aggregate", &lane[1]).await?;
        self.ended(trial, &poison).await?;
        Ok(format!("no effect; it was {ended}, and so was its copy, and others flowed"))
    }
}

impl Poison<'_> {
    /// Delivers what cannot be handled until its broker stops, and says why it did.
    async fn ended(&self, trial: &Trial<'_>, poison: &crate::http::Request) -> Tried<&'static str> {
        let what = "what cannot be handled";
        let given_up_after = self.0.plan.answers.given_up_after;
        let most = given_up_after.unwrap_or_else(|| self.0.deliveries());
        match (ends(trial, what, poison, most).await, given_up_after) {
            (Err(Ended::Broken(_)), Some(_)) => Ok("given up by its broker"),
            (ended, _) => ended,
        }
    }
}

/// Demands that a message is acknowledged, and has its effect once.
async fn flows(trial: &Trial<'_>, what: &str, names: &Names) -> Tried<()> {
    trial.copied(what, names, &trial.command(names)).await
}

pub(super) struct FailsFirst<'c>(pub(super) &'c Consumer);

#[async_trait]
impl Scenario for FailsFirst<'_> {
    fn rule(&self) -> Rule {
        FAILS_FIRST
    }

    fn needs(&self, _: &Drill) -> Option<String> {
        lacks(self.0.plan.variants.fails_first.is_some(), "variants.fails_first")
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let body = variant(self.0.plan.variants.fails_first.as_ref(), "variants.fails_first")?;
        let names = trial.intent();
        let request = trial.command_with(&names, &by_key(body));
        trial.copied("the message whose first run fails", &names, &request).await?;
        let first_was_acknowledged = trial.deliveries_of(&request) == 1;
        trial.copied("its copy", &names, &request).await?;
        if first_was_acknowledged {
            return failed("the first run of `variants.fails_first` did not fail");
        }
        Ok("1 effect; the first run failed, and the next did all of it".into())
    }
}
