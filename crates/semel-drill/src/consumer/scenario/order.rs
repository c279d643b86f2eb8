//! `out-of-order`: a message that comes behind a later one of its aggregate.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep};

use super::{super::Consumer, lacks};
use crate::{
    http::{
        Drill, Trial, Tried,
        scenario::{Rule, Scenario},
        trial::{broken, failed},
    },
    plan::LateMessage,
};

pub(super) const OUT_OF_ORDER: Rule = Rule {
    name: "out-of-order",
    says: "A message behind a later one of its aggregate has its effect once or is skipped, as documented, \
           and neither it nor an old copy overwrites what the later one said.",
};

pub(super) struct OutOfOrder<'c>(pub(super) &'c Consumer);

#[async_trait]
impl Scenario for OutOfOrder<'_> {
    fn rule(&self) -> Rule {
        OUT_OF_ORDER
    }

    fn needs(&self, _: &Drill) -> Option<String> {
        lacks(self.0.plan.ordered.is_some(), "[ordered]")
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let late = self.0.plan.ordered.as_ref().map_or(LateMessage::Applied, |order| order.late);
        let lane = trial.lane(3);
        let deliveries = [
            ("message 1", 0),
            ("message 3, before 2,", 2),
            ("message 2, behind 3,", 1),
            ("a copy of message 1 behind 3", 0),
            ("a copy of message 2 behind 3", 1),
        ];
        for (what, at) in deliveries {
            trial.settled(what, &trial.command(&lane[at])).await?;
        }
        let of_late = u64::from(late == LateMessage::Applied);
        for (at, times) in [(0, 1), (2, 1), (1, of_late)] {
            let after = format!("1, 3, 2 and copies came: message {}", at + 1);
            trial.happened(&lane[at], times, &after).await?;
        }
        let kept =
            self.newest_is_kept(trial, lane[0].aggregate.as_deref().unwrap_or_default(), 3).await?;
        let became = match late {
            LateMessage::Applied => "has its effect",
            LateMessage::Skipped => "was skipped",
        };
        Ok(format!("the message behind a later one {became}{kept}"))
    }
}

impl OutOfOrder<'_> {
    /// Demands that the state of an aggregate is that of its newest message; says so if it is known.
    async fn newest_is_kept(&self, trial: &Trial<'_>, aggregate: &str, newest: u64) -> Tried {
        let began = Instant::now();
        loop {
            let state = match self.0.state(aggregate).await {
                None => return Ok(String::new()),
                Some(Ok(state)) => state,
                Some(Err(error)) => return failed(format!("`ordered.state`: {error}")),
            };
            if state == newest {
                return Ok(format!("; the state is still that of message {newest}"));
            }
            if began.elapsed() > trial.drill.effect_within() {
                return broken(format!(
                    "the state of the aggregate is that of message {state}, and {newest} was the latest: an \
                     older one overwrote it"
                ));
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
}
