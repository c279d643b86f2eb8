//! `crash`, `restart`: the consumer ends between a message and its copy, or in the middle of it.

use std::time::Duration;

use async_trait::async_trait;

use crate::{
    http::{
        Drill, Trial, Tried,
        asking::Begun,
        process::Process,
        scenario::{
            Rule, Scenario,
            changed::took,
            crash::{KILLED_AT, MISSING, When, killed, process, restarted},
        },
    },
    report::Ended,
};

pub(super) const CRASH: Rule = Rule {
    name: "crash",
    says: "When the consumer is killed before, during or after its work, the message comes again and has \
           its effect once in the end.",
};

pub(super) const RESTART: Rule = Rule {
    name: "restart",
    says: "A copy after a clean restart of the consumer has no effect, and is acknowledged.",
};

fn lacks_process(drill: &Drill) -> Option<String> {
    drill.process().is_none().then(|| MISSING.to_owned())
}

pub(super) struct Crash;

#[async_trait]
impl Scenario for Crash {
    fn rule(&self) -> Rule {
        CRASH
    }

    fn needs(&self, drill: &Drill) -> Option<String> {
        lacks_process(drill)
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let process = process(trial.drill)?;
        let what = "the message before the kill, whose acknowledgement is lost,";
        let begun = trial.begin_lost(what).await;
        restarted(process).await?;
        let Begun { names, request, .. } = begun?;
        trial.copied("its copy after the kill", &names, &request).await?;
        let plain = trial.drill.plan.request.body.clone();
        at_work(trial, process, &plain, "at once", When::After(Duration::ZERO)).await?;
        let Some(slow) = &trial.drill.plan.variants.slow else {
            return Ok("1 effect each, after kills behind the work and right at its start (no \
                       `variants.slow`: it was not killed at work)"
                .into());
        };
        let takes = took(trial, slow).await?;
        for hundredths in KILLED_AT {
            let at = takes * hundredths / 100;
            let when = format!("after {} ms", at.as_millis());
            at_work(trial, process, slow, &when, When::After(at)).await?;
        }
        // Between the effect and its note lies what a consumer that notes it afterwards does twice.
        at_work(trial, process, slow, "as soon as its effect was counted", When::Effect).await?;
        Ok(format!(
            "1 effect each, after kills behind the work and {} kills at work",
            2 + KILLED_AT.len()
        ))
    }
}

/// Kills the consumer while it works, and lets the message come again.
async fn at_work(
    trial: &Trial<'_>,
    process: &Process,
    body: &str,
    when: &str,
    kill: When,
) -> Tried<()> {
    let names = trial.intent();
    let request = trial.command_with(&names, body);
    let what = format!("the message, its consumer killed {when},");
    killed(trial, process, (&names, &request), &what, kill).await?;
    let what = format!("its copy after a kill {when}");
    trial.copied(&what, &names, &request).await?;
    trial.copied(&format!("{what}, once more"), &names, &request).await
}

pub(super) struct Restart;

#[async_trait]
impl Scenario for Restart {
    fn rule(&self) -> Rule {
        RESTART
    }

    fn needs(&self, drill: &Drill) -> Option<String> {
        lacks_process(drill)
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let process = process(trial.drill)?;
        let Begun { names, request, .. } = trial.begin("the message").await?;
        process.stop().await.map_err(Ended::Failed)?;
        process.start().await.map_err(Ended::Failed)?;
        trial.copied("its copy after the restart", &names, &request).await?;
        Ok("1 effect; the copy after the restart was acknowledged, and had none".into())
    }
}
