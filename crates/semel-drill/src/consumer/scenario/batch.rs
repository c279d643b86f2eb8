//! `rewind`, `batch`: what was had comes again together with what is new.

use async_trait::async_trait;

use super::{super::Consumer, lacks};
use crate::{
    http::{
        Drill, Trial, Tried,
        scenario::{Rule, Scenario},
    },
    plan::Names,
    report::Ended,
};

pub(super) const REWIND: Rule = Rule {
    name: "rewind",
    says: "When the broker goes back and delivers from an earlier message on, each message has its effect \
           once, the new ones behind it too.",
};

pub(super) const BATCH: Rule = Rule {
    name: "batch",
    says: "Of a batch in which some messages come again, each has its effect once.",
};

/// How many messages there are, and how many come before the broker goes back.
const MESSAGES: usize = 8;
const BEFORE: usize = 6;

pub(super) struct Rewind;

#[async_trait]
impl Scenario for Rewind {
    fn rule(&self) -> Rule {
        REWIND
    }

    fn needs(&self, _: &Drill) -> Option<String> {
        None
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let lane = trial.lane(MESSAGES);
        for (nth, names) in (1..).zip(&lane[..BEFORE]) {
            trial.settled(&format!("message {nth}"), &trial.command(names)).await?;
        }
        for (nth, names) in (1..).zip(&lane).skip(2) {
            let what = format!("message {nth} after the broker went back to 3");
            trial.settled(&what, &trial.command(names)).await?;
        }
        for names in &lane {
            trial.happened_once(names, "the broker went back").await?;
        }
        Ok(format!("1 effect for each of {MESSAGES} messages, of which 4 came again"))
    }
}

pub(super) struct Batch<'c>(pub(super) &'c Consumer);

#[async_trait]
impl Scenario for Batch<'_> {
    fn rule(&self) -> Rule {
        BATCH
    }

    fn needs(&self, _: &Drill) -> Option<String> {
        lacks(self.0.plan.batch.is_some(), "[batch]")
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let missing = || Ended::NotTried("the plan has no `[batch]`".into());
        let batch = self.0.plan.batch.as_ref().ok_or_else(missing)?;
        let lane = trial.lane(5);
        let method = &trial.drill.plan.request.method;
        let twice: Vec<_> = [&lane[4], &lane[4]].into_iter().cloned().collect();
        let batches: [(&str, &[Names]); 4] = [
            ("the batch of 1, 2 and 3", &lane[..3]),
            ("the batch of 2, 3 and 4", &lane[1..4]),
            ("the batch of 2, 3 and 4 again", &lane[1..4]),
            ("the batch of 5 and its copy", &twice),
        ];
        for (what, messages) in batches {
            // The names of one message stand for the whole: each item has its own.
            let request = trial.keyless(&batch.request(method, messages), &messages[0]);
            let acknowledged = trial.settled(what, &request).await;
            for names in messages {
                trial.happened_once(names, what).await?;
            }
            acknowledged?;
        }
        Ok("1 effect for each of 5 messages in 4 batches, in which 6 came again".into())
    }
}
