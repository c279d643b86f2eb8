//! `crash`, `restart`: the API dies, or is deployed anew, between the first request and its retry.

use std::time::Duration;

use async_trait::async_trait;

use super::{Rule, Scenario, changed::took};
use crate::{
    http::{
        asking::Begun,
        drill::Drill,
        exchange::{Got, How, Request},
        judge::{Judged, judge},
        process::Process,
        trial::{Trial, Tried, broken},
        words::{effects, shown},
    },
    plan::Names,
    report::Ended,
};

/// Where in its run a slow request meets the crash, in hundredths: most APIs save the answer last.
pub(crate) const KILLED_AT: [u32; 5] = [20, 50, 80, 90, 97];

/// How often it is looked whether the effect is there.
const LOOK_EVERY: Duration = Duration::from_millis(2);

pub(crate) const MISSING: &str = "the plan has no `[process]`";

pub(crate) fn process(drill: &Drill) -> Result<&Process, Ended> {
    drill.process().ok_or_else(|| Ended::NotTried(MISSING.into()))
}

pub(crate) struct Crash;

#[async_trait]
impl Scenario for Crash {
    fn rule(&self) -> Rule {
        Rule {
            name: "crash",
            says: "When the API is killed after its answer or while it works, a retry after its \
                   restart never acts a second time, comes to an answer, and gets what was answered \
                   before.",
        }
    }

    fn needs(&self, drill: &Drill) -> Option<String> {
        drill.process().is_none().then(|| MISSING.to_owned())
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let process = process(trial.drill)?;
        after_the_answer(trial, process).await?;
        let Some(slow) = &trial.drill.plan.variants.slow else {
            return Ok(
                "1 effect; what was answered before the kill was replayed (no `variants.slow`: \
                       it was not killed at work)"
                    .into(),
            );
        };
        let takes = took(trial, slow).await?;
        let mut seen = Vec::new();
        for hundredths in KILLED_AT {
            let at = takes * hundredths / 100;
            let what = format!("after {} ms", at.as_millis());
            seen.push(at_work(trial, process, slow, &what, When::After(at)).await?);
        }
        // Between the effect and its answer lies what an API that saves the answer afterwards loses.
        let what = "as soon as its effect was counted";
        seen.push(at_work(trial, process, slow, what, When::Effect).await?);
        Ok(format!("replayed after a kill behind the answer; killed at work: {}", seen.join(", ")))
    }
}

/// Kills the API right after it sent its answer, which nobody got.
async fn after_the_answer(trial: &Trial<'_>, process: &Process) -> Tried<()> {
    let what = "the request before the kill, whose answer is lost,";
    let begun = trial.begin_lost(what).await;
    restarted(process).await?;
    let Begun { names, request, answer: lost } = begun?;
    let replayed = trial.replays("the retry after the kill", &request, &lost).await;
    trial.happened_once(&names, "a kill behind the answer, and a retry").await?;
    replayed.map(drop)
}

/// When an API is killed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// So long after it was asked.
    After(Duration),
    /// Once it has acted, and before it has answered.
    Effect,
}

/// Kills the API while it works, and says what the retry came to.
async fn at_work(
    trial: &Trial<'_>,
    process: &Process,
    slow: &str,
    when: &str,
    kill: When,
) -> Tried {
    let names = trial.intent();
    let request = trial.command_with(&names, slow);
    let what = format!("the slow request, killed {when},");
    killed(trial, process, (&names, &request), &what, kill).await?;
    let after = trial.until_definite("the retry after the kill", &request).await;
    let count = trial.count(&names).await?;
    if count > 1 {
        return broken(format!("the retry after a kill {when} acted again: {}", effects(count)));
    }
    match after {
        Ok((Judged::Done(answer), _)) => {
            trial.happened_once(&names, &format!("a kill {when}, and a retry")).await?;
            trial.replays("the second retry after the kill", &request, &answer).await?;
            trial.happened_once(&names, "the second retry after the kill").await?;
            Ok(format!("done {when}"))
        }
        Ok((Judged::Unknown, _)) => Ok(format!("unknown {when}, {}", effects(count))),
        // Nobody acts twice, but nobody ever learns whether it was done.
        Ok((_, got)) => broken(format!("the retry after a kill {when} got {}", shown(&got))),
        Err(ended) => Err(ended),
    }
}

/// Sends a request, kills the API meanwhile, and starts it again; returns what was got before that.
pub(crate) async fn killed(
    trial: &Trial<'_>,
    process: &Process,
    (names, request): (&Names, &Request),
    what: &str,
    kill: When,
) -> Tried<Option<Got>> {
    let got = match kill {
        When::After(at) => {
            let killed = async {
                tokio::time::sleep(at).await;
                process.kill().await;
            };
            let (got, ()) = tokio::join!(trial.send(what, request, How::Whole), killed);
            Some(got)
        }
        When::Effect => {
            let got = tokio::select! {
                got = trial.send(what, request, How::Whole) => Some(got),
                () = has_acted(trial, names) => None,
            };
            // What was answered as done may still be done.
            if got.as_ref().is_some_and(|got| is_done(trial, got)) {
                let within = trial.drill.effect_within();
                drop(tokio::time::timeout(within, has_acted(trial, names)).await);
            }
            process.kill().await;
            got
        }
    };
    process.start().await.map_err(Ended::Failed)?;
    Ok(got)
}

/// Says whether an answer says that it was done.
pub(crate) fn is_done(trial: &Trial<'_>, got: &Got) -> bool {
    matches!(judge(&trial.drill.expected, got), Judged::Done(_))
}

/// Waits until the effect of an intent can be counted.
pub(crate) async fn has_acted(trial: &Trial<'_>, names: &Names) {
    while trial.drill.effects.count(names).await.is_ok_and(|count| count == 0) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

pub(crate) async fn restarted(process: &Process) -> Tried<()> {
    process.kill().await;
    process.start().await.map_err(Ended::Failed)
}

pub(crate) struct Restart;

#[async_trait]
impl Scenario for Restart {
    fn rule(&self) -> Rule {
        Rule {
            name: "restart",
            says: "A retry after a clean restart of the API gets the first answer, and has no effect.",
        }
    }

    fn needs(&self, drill: &Drill) -> Option<String> {
        drill.process().is_none().then(|| MISSING.to_owned())
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let process = process(trial.drill)?;
        let Begun { names, request, answer: first } = trial.begin("the first request").await?;
        process.stop().await.map_err(Ended::Failed)?;
        process.start().await.map_err(Ended::Failed)?;
        let replayed = trial.replays("the retry after the restart", &request, &first).await;
        trial.happened_once(&names, "a restart and a retry").await?;
        replayed?;
        Ok(format!("1 effect; the retry after the restart got the first {} again", first.status))
    }
}
