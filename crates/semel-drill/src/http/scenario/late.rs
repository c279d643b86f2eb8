//! `late`: a retry after the outcome is no longer kept.

use std::time::Duration;

use async_trait::async_trait;

use super::{Rule, Scenario};
use crate::{
    http::{
        asking::Begun,
        drill::Drill,
        exchange::Answer,
        judge::{Judged, is_mismatch, judge},
        trial::{Trial, Tried, broken},
        words::{listed, shown},
    },
    plan::{Late as Documented, Names},
};

/// How long after the end of its life an outcome is asked for.
const MARGIN: Duration = Duration::from_millis(1500);

pub(super) struct Late;

#[async_trait]
impl Scenario for Late {
    fn rule(&self) -> Rule {
        Rule {
            name: "late",
            says: "A retry after the outcome's documented life is refused or runs anew, as documented; \
                   it never gets another request's answer.",
        }
    }

    fn needs(&self, drill: &Drill) -> Option<String> {
        let Some(life) = drill.expected.replay_for else {
            return Some("the plan has no `lifetime.replay_for`".to_owned());
        };
        (life + MARGIN > drill.patience()).then(|| {
            format!("an outcome lives {} s, longer than the drill may wait", life.as_secs())
        })
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let Begun { names: other, answer: theirs, .. } =
            trial.begin("another first request").await?;
        let Begun { names: same, answer: first, .. } = trial.begin("the first request").await?;
        trial.happened_once(&same, "the first request").await?;
        tokio::time::sleep(trial.drill.expected.replay_for.unwrap_or_default() + MARGIN).await;
        let seen = retried(trial, &same, &first).await?;
        // Another command under a key whose life is over: whatever is said, it is not the old answer.
        let new = trial.intent_with(other.key.clone());
        reused(trial, &new, &theirs).await?;
        Ok(seen)
    }
}

/// Retries the same request late.
async fn retried(trial: &Trial<'_>, names: &Names, first: &Answer) -> Tried {
    let expected = &trial.drill.expected;
    let what = "the late retry";
    let got = trial.ask(what, &trial.command(names)).await;
    let count = trial.count(names).await?;
    let answer = got.answer();
    let refused = answer.is_some_and(|answer| expected.late.contains(&answer.status));
    if refused && expected.late_retry == Documented::Refused {
        trial.happened_once(names, what).await?;
        return Ok("1 effect; the late retry was refused".into());
    }
    match judge(expected, &got) {
        // Kept longer than documented: harmless, since nothing happens and it is the same request's.
        Judged::Done(again) if count == 1 => match trial.difference(first, &again) {
            None => Ok("1 effect; the late retry still got the first answer".into()),
            Some(difference) => {
                broken(format!("{what} did nothing and is not the first answer: {difference}"))
            }
        },
        Judged::Done(_) if expected.late_retry == Documented::Runs => {
            trial.happened(names, 2, what).await?;
            Ok("the late retry ran anew, as documented".into())
        }
        Judged::Done(_) => broken(format!("{what} acted again: {count} effects")),
        _ => broken(format!(
            "{what} got {}, and {} is documented",
            shown(&got),
            match expected.late_retry {
                Documented::Refused => listed(&expected.late),
                Documented::Runs => format!("a new run with {}", listed(&expected.first)),
            }
        )),
    }
}

/// Uses a key whose life is over for another command.
async fn reused(trial: &Trial<'_>, names: &Names, first: &Answer) -> Tried<()> {
    let expected = &trial.drill.expected;
    let what = "another command under a key whose life is over";
    let got = trial.ask(what, &trial.command(names)).await;
    let count = trial.count(names).await?;
    let late = got.answer().is_some_and(|answer| expected.late.contains(&answer.status));
    match judge(expected, &got) {
        Judged::Done(answer) if count == 0 || trial.difference(first, &answer).is_none() => {
            broken(format!("{what} got the old answer: {}", shown(&got)))
        }
        Judged::Done(_) if expected.late_retry == Documented::Refused => {
            broken(format!("{what} ran, although the key is documented to be remembered"))
        }
        Judged::Done(_) => trial.happened_once(names, what).await,
        _ if late || is_mismatch(expected, &got) => trial.happened(names, 0, what).await,
        _ => broken(format!("{what} got {}", shown(&got))),
    }
}
