//! `poison`, `fails-first`: messages that fail, for good or once.

use async_trait::async_trait;

use super::{
    super::Consumer,
    content::{ACKNOWLEDGED, ends},
    lacks,
};
use crate::{
    http::{
        Drill, Request, Trial, Tried,
        scenario::{Rule, Scenario, crash::is_done, race::at_once},
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

/// How many rounds of copies come while a first run fails.
const ROUNDS: usize = 3;

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
        no_effect(trial, &lane[0], &poison, &ended).await?;
        flowed?;
        let ended = ended?;
        flows(trial, "the next message of its aggregate", &lane[1]).await?;
        let copy = self.ended(trial, &poison).await;
        no_effect(trial, &lane[0], &poison, &copy).await?;
        copy?;
        Ok(format!("no effect; it was {ended}, and so was its copy, and others flowed"))
    }
}

impl Poison<'_> {
    /// Delivers what cannot be handled until its broker stops, and says why it did.
    async fn ended(&self, trial: &Trial<'_>, poison: &Request) -> Tried<&'static str> {
        let what = "what cannot be handled";
        let given_up_after = self.0.plan.answers.given_up_after;
        let most = given_up_after.unwrap_or_else(|| self.0.deliveries());
        match (ends(trial, what, poison, most).await, given_up_after) {
            (Err(Ended::Broken(_)), Some(_)) => Ok("given up by its broker"),
            (ended, _) => ended,
        }
    }
}

/// Demands that what cannot be handled has not even half an effect.
async fn no_effect(
    trial: &Trial<'_>,
    names: &Names,
    poison: &Request,
    ended: &Tried<&str>,
) -> Tried<()> {
    let count = trial.count(names).await?;
    // What is acknowledged when it comes first, and has one effect, is a message like others.
    let at_first = trial.deliveries_of(poison) == 1;
    match (count, ended) {
        (0, _) => Ok(()),
        (1, Ok(ACKNOWLEDGED)) if at_first => failed(format!(
            "`variants.poison` was {ACKNOWLEDGED} when it came first, and had its effect: it can be handled"
        )),
        (_, Ok(ended)) => broken(format!(
            "what cannot be handled was {ended}, and has {} all the same: what it did before it failed \
             was kept",
            effects(count)
        )),
        (_, Err(_)) => {
            broken(format!("what cannot be handled has {} all the same", effects(count)))
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
        let what = "the message whose first run fails";
        trial.settled(what, &request).await?;
        let first_was_acknowledged = trial.deliveries_of(&request) == 1;
        let acted_at_once = first_was_acknowledged && trial.count_now(&names).await? > 0;
        trial.happened_once(&names, what).await?;
        trial.copied("its copy", &names, &request).await?;
        if acted_at_once && !trial.drill.memory.has_worked_later() {
            return failed("the first run of `variants.fails_first` did not fail");
        }
        for round in 1..=ROUNDS {
            copies(trial, &by_key(body), round).await?;
        }
        if first_was_acknowledged {
            return Ok(
                "1 effect in the end; it was acknowledged before its work was done, and the work \
                       is the consumer's to repeat"
                    .into(),
            );
        }
        Ok("1 effect; the first run failed, and the next did all of it, also where copies came \
            meanwhile"
            .into())
    }
}

/// Lets copies come while the run that fails is under way: who acknowledges one of them trusts in a run that
/// has not ended.
async fn copies(trial: &Trial<'_>, body: &str, round: usize) -> Tried<()> {
    let names = trial.intent();
    let request = trial.command_with(&names, body);
    let what = format!("copies of a message whose first run fails, round {round}");
    let racers = trial.drill.plan.bounds.racers;
    let got = at_once(trial, &vec![(what.clone(), request.clone()); racers]).await;
    if got.iter().any(|got| is_done(trial, got)) {
        let what = "a copy of a message whose first run fails was acknowledged";
        trial.not_lost(what, &names).await?;
    }
    trial.copied(&format!("{what}, one more"), &names, &request).await
}
