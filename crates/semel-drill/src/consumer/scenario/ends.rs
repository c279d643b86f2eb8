//! `crash`, `restart`: the consumer ends between a message and its copy, or in the middle of it.

use std::{pin::pin, time::Duration};

use async_trait::async_trait;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    http::{
        Drill, How, Trial, Tried,
        asking::Begun,
        process::Process,
        scenario::{
            Rule, Scenario,
            changed::{SLOW_MIN, slow_enough},
            crash::{KILLED_AT, MISSING, When, has_acted, is_done, killed, process, restarted},
        },
    },
    report::Ended,
};

pub(super) const CRASH: Rule = Rule {
    name: "crash",
    says: "When the consumer is killed before, during or after its work, the message comes again, unless it \
           or a copy was acknowledged, and has its effect once in the end.",
};

pub(super) const RESTART: Rule = Rule {
    name: "restart",
    says: "After a clean restart of the consumer an acknowledged message has its effect; a copy has none, \
           and is acknowledged.",
};

/// Says that the plan does not start the consumer.
pub(super) fn lacks_process(drill: &Drill) -> Option<String> {
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
        let takes = takes(trial, slow).await?;
        for hundredths in KILLED_AT {
            let at = takes * hundredths / 100;
            let when = format!("after {} ms", at.as_millis());
            at_work(trial, process, slow, &when, When::After(at)).await?;
        }
        copy_at_work(trial, process, slow, takes).await?;
        // Between the effect and its note lies what a consumer that notes it afterwards does twice.
        at_work(trial, process, slow, "as soon as its effect was counted", When::Effect).await?;
        Ok(format!(
            "1 effect each, after kills behind the work and {} kills at work",
            3 + KILLED_AT.len()
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
    let got = killed(trial, process, (&names, &request), &what, kill).await?;
    if got.is_some_and(|got| is_done(trial, &got)) {
        trial.not_lost(&format!("a message was acknowledged before a kill {when}"), &names).await?;
    }
    let what = format!("its copy after a kill {when}");
    trial.copied(&what, &names, &request).await?;
    trial.copied(&format!("{what}, once more"), &names, &request).await
}

/// Lets a copy come while the consumer works, and kills it: who acknowledges the copy trusts in a run that
/// has not ended.
async fn copy_at_work(
    trial: &Trial<'_>,
    process: &Process,
    slow: &str,
    takes: Duration,
) -> Tried<()> {
    let names = trial.intent();
    let request = trial.command_with(&names, slow);
    let copy = async {
        sleep(takes / 4).await;
        let mut copy = pin!(trial.send("its copy while it is at work", &request, How::Whole));
        // A copy that waits for the first meets the kill with it.
        let answered = tokio::select! {
            got = &mut copy => Some(got),
            () = sleep(takes / 2) => None,
        };
        process.kill().await;
        match answered {
            Some(got) => got,
            None => copy.await,
        }
    };
    let first = trial.send("the message, a copy of which comes", &request, How::Whole);
    let (first, copy) = tokio::join!(first, copy);
    process.start().await.map_err(Ended::Failed)?;
    if is_done(trial, &copy) {
        let what = "the copy of a message at work was acknowledged before a kill";
        trial.not_lost(what, &names).await?;
    } else if is_done(trial, &first) {
        trial.not_lost("a message was acknowledged before a kill", &names).await?;
    }
    trial.copied("its copy after the kill", &names, &request).await
}

/// Says how long the slow body takes: until it is acknowledged, or until its effect is there if that comes
/// later.
async fn takes(trial: &Trial<'_>, slow: &str) -> Tried<Duration> {
    let began = Instant::now();
    let what = "a slow message, to see how slow it is,";
    let begun = trial.begin_with(what, |names| trial.command_with(names, slow)).await?;
    let acknowledged = trial.last_took();
    if acknowledged >= SLOW_MIN {
        return Ok(acknowledged);
    }
    let within = trial.drill.effect_within();
    drop(timeout(within, has_acted(trial, &begun.names)).await);
    slow_enough(began.elapsed())
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
        trial.not_lost("the message was acknowledged before the restart", &names).await?;
        trial.copied("its copy after the restart", &names, &request).await?;
        Ok("1 effect; the copy after the restart was acknowledged, and had none".into())
    }
}
