//! `changed-after`, `changed-during`: other content under a used key.

use async_trait::async_trait;

use super::{Rule, Scenario, race::together};
use crate::http::{
    asking::Begun,
    drill::Drill,
    exchange::{Answer, Got, How, Request},
    judge::{Judged, is_mismatch, judge},
    trial::{Trial, Tried, broken, failed},
    words::{listed, shown},
};
use crate::plan::Names;

/// How many races of two bodies are run.
const ROUNDS: usize = 5;

/// The shortest time in which another request can be said to come meanwhile.
pub(crate) const SLOW_MIN: std::time::Duration = std::time::Duration::from_millis(100);

/// What is missing without another body.
fn changed_body(drill: &Drill) -> Result<&str, String> {
    let body = drill.plan.variants.changed.as_deref();
    body.ok_or_else(|| "the plan has no `variants.changed`".to_owned())
}

pub(crate) struct ChangedAfter;

#[async_trait]
impl Scenario for ChangedAfter {
    fn rule(&self) -> Rule {
        Rule {
            name: "changed-after",
            says: "Other content under a used key is refused and has no effect, and the first request \
                   still gets its own answer.",
        }
    }

    fn needs(&self, drill: &Drill) -> Option<String> {
        changed_body(drill).err()
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let changed = changed_body(trial.drill).map_err(crate::report::Ended::NotTried)?;
        let Begun { names, request, answer: first } = trial.begin("the first request").await?;
        let other = trial.command_with(&names, changed);
        refused(trial, &names, "the changed request", &other, &first).await?;
        trial.replays("the first request, sent again,", &request, &first).await?;
        trial.happened_once(&names, "both were sent again").await?;
        Ok("the changed request was refused, without effect; the first still gets its answer"
            .into())
    }
}

/// Demands that a request with other content than the first's is refused as a mismatch, and has no
/// effect.
pub(crate) async fn refused(
    trial: &Trial<'_>,
    names: &Names,
    what: &str,
    other: &Request,
    first: &Answer,
) -> Tried<()> {
    let got = trial.until_refused(what, other).await;
    trial.happened_once(names, what).await?;
    let (_, got) = got?;
    if is_mismatch(&trial.drill.expected, &got) {
        return Ok(());
    }
    if got.answer().is_some_and(|answer| trial.difference(first, answer).is_none()) {
        return broken(format!("{what} got the answer of another request: {}", shown(&got)));
    }
    let documented = listed(&trial.drill.expected.mismatch);
    broken(format!("{what} got {}, and {documented} is documented", shown(&got)))
}

pub(crate) struct ChangedDuring;

#[async_trait]
impl Scenario for ChangedDuring {
    fn rule(&self) -> Rule {
        Rule {
            name: "changed-during",
            says: "Of two contents that come under one key while the first still runs exactly one \
                   happens, and the other is refused or told to come again.",
        }
    }

    fn needs(&self, drill: &Drill) -> Option<String> {
        changed_body(drill).err()
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let changed = changed_body(trial.drill).map_err(crate::report::Ended::NotTried)?;
        for round in 1..=ROUNDS {
            raced(trial, changed, &format!("round {round}")).await?;
        }
        if let Some(slow) = &trial.drill.plan.variants.slow {
            meanwhile(trial, slow, changed).await?;
            return Ok(format!(
                "one content won each of {ROUNDS} races, and the changed one came in vain while the \
                 first ran"
            ));
        }
        Ok(format!("one content won each of {ROUNDS} races, and only that one happened"))
    }
}

/// Lets both contents race, half of the racers each.
async fn raced(trial: &Trial<'_>, changed: &str, round: &str) -> Tried<()> {
    let names = trial.intent();
    let bodies = [trial.command(&names), trial.command_with(&names, changed)];
    let named =
        |at: usize| (format!("{round}, {}", ["the one", "the other"][at]), bodies[at].clone());
    let racers = trial.drill.plan.bounds.racers.max(2);
    let sent: Vec<_> = (0..racers).map(|at| named(at % 2)).collect();
    let got = together(trial, &sent).await;
    let won = winner(trial, &bodies, round).await;
    trial.happened_once(&names, &format!("two contents raced in {round}")).await?;
    let (winner, answer) = won?;
    let loser = 1 - winner;
    let what = format!("{round}, the one that lost, again,");
    refused(trial, &names, &what, &bodies[loser], &answer).await?;
    for (at, got) in got.iter().enumerate() {
        racer(trial, got, (at % 2 == winner).then_some(&answer), round)?;
    }
    Ok(())
}

/// Sends both contents again until one is answered as done, and says which.
async fn winner(trial: &Trial<'_>, bodies: &[Request; 2], round: &str) -> Tried<(usize, Answer)> {
    let mut backoff = trial.backoff();
    let began = tokio::time::Instant::now();
    loop {
        let (mut waits, mut answered) = (false, true);
        let mut last = [String::new(), String::new()];
        for (at, name) in ["the one", "the other"].into_iter().enumerate() {
            let what = format!("{round}, {name}, again");
            let got = trial.send(&what, &bodies[at], How::Whole).await;
            match judge(&trial.drill.expected, &got) {
                Judged::Done(answer) => return Ok((at, answer)),
                Judged::Later(_) | Judged::Nothing => {
                    waits = true;
                    answered &= got.said().is_some();
                }
                _ => {}
            }
            last[at] = shown(&got);
        }
        let [one, other] = &last;
        let why = format!(
            "in {round} neither content was answered as done: in the end the one got {one}, and the \
             other {other}"
        );
        if !waits {
            return broken(why);
        }
        let wait = backoff.next(None);
        if began.elapsed() + wait > trial.drill.patience() {
            return if answered { broken(why) } else { failed(why) };
        }
        tokio::time::sleep(wait).await;
    }
}

/// Judges one racer's answer; `answer` is the winner's if it sent the winner's content.
fn racer(trial: &Trial<'_>, got: &Got, answer: Option<&Answer>, round: &str) -> Tried<()> {
    match (judge(&trial.drill.expected, got), answer) {
        (Judged::Later(_), _) | (Judged::Mismatch, None) => Ok(()),
        (Judged::Done(got), Some(answer)) => match trial.difference(&got, answer) {
            None => Ok(()),
            Some(difference) => broken(format!(
                "in {round} the retry is not the answer of the winner: {difference}"
            )),
        },
        (Judged::Done(_), None) => {
            broken(format!("in {round} the content that lost was answered as done"))
        }
        _ if got.answer().is_none() => failed(format!("in {round} a racer got {got}")),
        _ => broken(format!("in {round} a racer got {}", shown(got))),
    }
}

/// Sends the changed content while a slow one runs.
async fn meanwhile(trial: &Trial<'_>, slow: &str, changed: &str) -> Tried<()> {
    let takes = took(trial, slow).await?;
    let names = trial.intent();
    let (request, other) = (trial.command_with(&names, slow), trial.command_with(&names, changed));
    let first = trial.ask("the slow request", &request);
    let second = async {
        tokio::time::sleep(takes / 3).await;
        trial.ask("the changed request meanwhile", &other).await
    };
    let (first, second) = tokio::join!(first, second);
    trial.happened_once(&names, "a changed request came while the first ran").await?;
    match judge(&trial.drill.expected, &second) {
        Judged::Mismatch | Judged::Later(_) => {}
        Judged::Done(_) => {
            return broken("a changed request was answered as done while the first ran");
        }
        _ if second.answer().is_none() => {
            return failed(format!("a changed request got {second} while the first ran"));
        }
        _ => {
            return broken(format!("a changed request got {} while the first ran", shown(&second)));
        }
    }
    if first.answer().is_none() {
        return failed(format!("the slow request got {first}"));
    }
    let Judged::Done(first) = judge(&trial.drill.expected, &first) else {
        return broken(format!("the slow request got {} because another came", shown(&first)));
    };
    trial.replays("the slow request, sent again,", &request, &first).await?;
    refused(trial, &names, "the changed request afterwards", &other, &first).await
}

/// Says how long the slow body takes.
pub(crate) async fn took(trial: &Trial<'_>, slow: &str) -> Tried<std::time::Duration> {
    let what = "a slow request, to see how slow it is,";
    trial.begin_with(what, |names| trial.command_with(names, slow)).await?;
    slow_enough(trial.last_took())
}

/// Demands that others can come while the slow body is at work.
pub(crate) fn slow_enough(took: std::time::Duration) -> Tried<std::time::Duration> {
    if took >= SLOW_MIN {
        return Ok(took);
    }
    failed(format!("`variants.slow` took only {} ms: nothing can come meanwhile", took.as_millis()))
}
