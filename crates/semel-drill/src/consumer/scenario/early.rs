//! `early-ack`: what is acknowledged is done, or kept where no kill takes it.

use async_trait::async_trait;
use futures_util::future::try_join_all;

use super::ends::lacks_process;
use crate::http::{
    Drill, Trial, Tried,
    process::Process,
    scenario::{
        Rule, Scenario,
        crash::{process, restarted},
    },
};

pub(super) const EARLY_ACK: Rule = Rule {
    name: "early-ack",
    says: "When the consumer is killed right after it acknowledged messages, each of them has its effect all \
           the same, though none comes again.",
};

/// How many messages are acknowledged before each kill: alone nothing is older than the last one, and of many
/// some wait for those before them.
const ACKNOWLEDGED: [usize; 3] = [1, 1, 8];

pub(super) struct EarlyAck;

#[async_trait]
impl Scenario for EarlyAck {
    fn rule(&self) -> Rule {
        EARLY_ACK
    }

    fn needs(&self, drill: &Drill) -> Option<String> {
        lacks_process(drill)
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let process = process(trial.drill)?;
        let plan = &trial.drill.plan;
        // What works longer has more to lose.
        let slow = plan.variants.slow.as_ref().map(|slow| (slow, 1));
        let plain = ACKNOWLEDGED.into_iter().map(|count| (&plan.request.body, count));
        let (mut kills, mut messages) = (0, 0);
        for (body, count) in slow.into_iter().chain(plain) {
            killed_behind(trial, process, body, count).await?;
            kills += 1;
            messages += count;
        }
        Ok(format!(
            "1 effect for each of {messages} messages that were acknowledged before {kills} kills"
        ))
    }
}

/// Kills the consumer as soon as it has acknowledged so many messages, and delivers none of them again before
/// its effect is there.
async fn killed_behind(
    trial: &Trial<'_>,
    process: &Process,
    body: &str,
    count: usize,
) -> Tried<()> {
    let messages: Vec<_> = (1..=count)
        .map(|nth| {
            let names = trial.intent();
            let request = trial.command_with(&names, body);
            let what = match count {
                1 => "the message before a kill".to_owned(),
                _ => format!("message {nth} of {count} before a kill"),
            };
            (what, names, request)
        })
        .collect();
    let sent = messages.iter().map(|(what, _, request)| trial.settled(what, request));
    let acknowledged = try_join_all(sent).await;
    restarted(process).await?;
    acknowledged?;
    for (what, names, _) in &messages {
        trial.not_lost(&format!("{what} was acknowledged"), names).await?;
    }
    Ok(())
}
