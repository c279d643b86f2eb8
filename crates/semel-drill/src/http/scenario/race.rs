//! `race`: equals that come at the same moment.

use async_trait::async_trait;
use futures_util::future::join_all;

use super::{Rule, Scenario};
use crate::http::{
    drill::Drill,
    exchange::{Answer, Got, Request},
    judge::{Judged, judge},
    trial::{Trial, Tried, broken, failed},
    words::shown,
};

/// How many races are run: a narrow window is not hit at once.
const ROUNDS: usize = 5;

pub(crate) struct Race;

#[async_trait]
impl Scenario for Race {
    fn rule(&self) -> Rule {
        Rule {
            name: "race",
            says: "Of equal requests that come at the same moment one runs; the others get its answer, \
                   or are told to come again.",
        }
    }

    fn needs(&self, _: &Drill) -> Option<String> {
        None
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let racers = trial.drill.plan.bounds.racers;
        let mut answered = 0;
        for round in 1..=ROUNDS {
            let names = trial.intent();
            let request = trial.command(&names);
            let what = format!("round {round}");
            let got = together(trial, &vec![(what.clone(), request.clone()); racers]).await;
            let winners = answers(trial, &got);
            let retry = trial.settled(&format!("{what}, the retry"), &request).await;
            trial.happened_once(&names, &format!("{racers} equals at once in {what}")).await?;
            let retry = retry?;
            answered += winners?.into_iter().try_fold(0, |count, answer| {
                match trial.difference(&retry, &answer) {
                    None => Ok(count + 1),
                    Some(difference) => {
                        broken(format!("in {what} the answers differ: in one {difference}"))
                    }
                }
            })?;
        }
        let answered = match answered {
            all if all == ROUNDS * racers => "all got the one answer".to_owned(),
            some => format!("{some} got the one answer, the others were told to come again"),
        };
        Ok(format!("1 effect in each of {ROUNDS} rounds of {racers}; {answered}"))
    }
}

/// Sends requests at the same moment, each on a connection of its own.
pub(crate) async fn at_once(trial: &Trial<'_>, requests: &[(String, Request)]) -> Vec<Got> {
    let connections = join_all(requests.iter().map(|_| trial.connect())).await;
    let sent = connections.into_iter().zip(requests);
    let sent = sent.map(|(connection, (what, request))| trial.send_on(connection, what, request));
    join_all(sent).await
}

/// Sends requests at the same moment, and asks again for those that were told nothing.
pub(crate) async fn together(trial: &Trial<'_>, requests: &[(String, Request)]) -> Vec<Got> {
    let got = at_once(trial, requests).await;
    // What got no answer says nothing, and neither does an error where plain requests meet them too.
    let again = got.into_iter().zip(requests).map(|(got, (what, request))| async move {
        trial.without_error(&format!("{what}, again"), request, got).await
    });
    join_all(again).await
}

/// The answers of those that were told that it was done. All others must have been told to come again.
fn answers(trial: &Trial<'_>, got: &[Got]) -> Tried<Vec<Answer>> {
    let mut answers = Vec::new();
    for got in got {
        match judge(&trial.drill.expected, got) {
            Judged::Done(answer) => answers.push(answer),
            Judged::Later(_) => {}
            Judged::Nothing if got.answer().is_none() => {
                return failed(format!("one of the equals got {got}"));
            }
            _ => {
                return broken(format!(
                    "one of the equals got {}, which is neither the answer nor documented as \"come again\"",
                    shown(got)
                ));
            }
        }
    }
    Ok(answers)
}
