//! `storm`: many clients that lose answers, and retry until they know.

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

use super::{Rule, Scenario};
use crate::http::{
    chance::{Backoff, Chance},
    drill::Drill,
    exchange::{Answer, Got, How},
    judge::{Judged, judge},
    trial::{Trial, Tried, broken, failed},
    words::shown,
};

/// How many clients are under way at once.
const CLIENTS: usize = 16;

/// How many answers one client loses at most.
const LOSSES_MAX: u32 = 5;

pub(super) struct Storm;

#[async_trait]
impl Scenario for Storm {
    fn rule(&self) -> Rule {
        Rule {
            name: "storm",
            says: "When many clients lose answers and retry until they know, each intent happens once, \
                   and each keeps its one answer.",
        }
    }

    fn needs(&self, _: &Drill) -> Option<String> {
        None
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let intents = trial.drill.plan.bounds.storm;
        let clients: Vec<_> = (1..=intents).map(|number| (number, trial.chance())).collect();
        let asked = stream::iter(clients).map(|(number, chance)| client(trial, number, chance));
        let requests: Vec<u32> = asked.buffer_unordered(CLIENTS).try_collect().await?;
        let requests: u32 = requests.iter().sum();
        Ok(format!(
            "1 effect for each of {intents} intents in {requests} requests (seed {})",
            trial.drill.seed
        ))
    }
}

/// One client, which keeps its key until it knows; returns how often it asked.
async fn client(trial: &Trial<'_>, number: usize, mut chance: Chance) -> Tried<u32> {
    let names = trial.intent();
    let request = trial.command(&names);
    let (mut asked, mut losses) = (0, 0);
    let mut backoff = Backoff::new(chance.clone());
    let mut lost: Vec<Answer> = Vec::new();
    let began = tokio::time::Instant::now();
    let known = loop {
        let how = match chance.below(10) {
            0..3 if losses < LOSSES_MAX => How::HangUp,
            3..6 if losses < LOSSES_MAX => How::Swallow,
            _ => How::Whole,
        };
        losses += u32::from(how != How::Whole);
        asked += 1;
        let got = trial.send(&format!("client {number}, try {asked}"), &request, how).await;
        let mut pause = None;
        match (judge(&trial.drill.expected, &got), &got) {
            (Judged::Done(answer), _) => break answer,
            (Judged::Later(after), _) => pause = after,
            (Judged::Nothing, Got::Swallowed(answer)) => lost.push(answer.clone()),
            (Judged::Nothing, _) => {}
            _ => return broken(format!("client {number} got {} for a plain retry", shown(&got))),
        }
        let wait = backoff.next(pause);
        if began.elapsed() + wait > trial.drill.retries_for() {
            let why = format!("client {number} has no answer after {asked} tries: {}", shown(&got));
            return if got.said().is_some() { broken(why) } else { failed(why) };
        }
        tokio::time::sleep(wait).await;
    };
    let replayed = trial.replays(&format!("client {number}, once more,"), &request, &known).await;
    trial.happened_once(&names, &format!("client {number} lost {losses} answers")).await?;
    replayed?;
    let first = &trial.drill.expected.first;
    for answer in lost.iter().filter(|answer| first.contains(&answer.status)) {
        if let Some(difference) = trial.difference(&known, answer) {
            return broken(format!(
                "an answer that client {number} lost was another: {difference}"
            ));
        }
    }
    Ok(asked + 1)
}
