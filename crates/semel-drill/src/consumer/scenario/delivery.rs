//! How a broker delivers: until it is acknowledged.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{
    http::{
        How, Request, Trial, Tried,
        chance::{Backoff, Chance},
        judge::{Judged, judge},
        trial::{broken, failed},
        words::{effects, shown},
    },
    plan::{Names, written},
};

/// How many times one message is lost on the way at most.
const LOSSES_MAX: u32 = 3;

/// How what is delivered fares on its way.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) chance: Chance,
    /// Of ten deliveries, how many lose their answer, and as many are cut short.
    pub(super) losses_of_10: u64,
}

impl Way {
    fn next(&mut self, losses: u32) -> How {
        match self.chance.below(10) {
            nth if losses >= LOSSES_MAX || nth >= 2 * self.losses_of_10 => How::Whole,
            nth if nth < self.losses_of_10 => How::HangUp,
            _ => How::Swallow,
        }
    }
}

impl Trial<'_> {
    /// Names the messages of one aggregate, in their order.
    pub(super) fn lane(&self, count: usize) -> Vec<Names> {
        let aggregate = self.intent().intent;
        let named = (1..=count).map(|sequence| Names {
            aggregate: Some(aggregate.clone()),
            sequence: Some(sequence.to_string()),
            ..self.intent()
        });
        named.collect()
    }

    /// Demands that a message that was acknowledged has its effect, though it never comes again.
    pub(super) async fn not_lost(&self, what: &str, names: &Names) -> Tried<()> {
        match self.count_up_to(names, 1).await? {
            1 => Ok(()),
            0 => {
                self.blame([names.key.clone()]);
                broken(format!(
                    "{what}, and has no effect {} later: it is lost, since nobody delivers what is \
                     acknowledged again",
                    written(self.drill.effect_within())
                ))
            }
            count => broken(format!("{what}, and has {}", effects(count))),
        }
    }

    /// Delivers a copy until it is acknowledged, and demands that the message has had its effect once.
    pub(super) async fn copied(&self, what: &str, names: &Names, request: &Request) -> Tried<()> {
        let again = self.settled(what, request).await;
        // The effects come first: a second one weighs more than how it was answered.
        self.happened_once(names, what).await?;
        again.map(drop)
    }

    /// Delivers a message as its broker does, some of whose connections break, until it is acknowledged;
    /// returns how often it was delivered.
    pub(super) async fn delivered(
        &self,
        what: &str,
        request: &Request,
        way: &mut Way,
    ) -> Tried<u32> {
        let (mut losses, mut deliveries) = (0, 0);
        let mut backoff = Backoff::new(way.chance.clone());
        let began = Instant::now();
        loop {
            let how = way.next(losses);
            losses += u32::from(how != How::Whole);
            deliveries += 1;
            let got = self.send(&format!("{what}, delivery {deliveries}"), request, how).await;
            let asked = match judge(&self.drill.expected, &got) {
                Judged::Done(_) => return Ok(deliveries),
                Judged::Later(after) => after,
                Judged::Nothing => None,
                _ => return broken(format!("{what} is refused for good: {}", shown(&got))),
            };
            let wait = backoff.next(asked);
            if began.elapsed() + wait > self.drill.patience() {
                let why = format!(
                    "{what} is not acknowledged after {deliveries} deliveries: {}",
                    shown(&got)
                );
                return if got.said().is_some() { broken(why) } else { failed(why) };
            }
            sleep(wait).await;
        }
    }

    /// Waits as a broker does before it delivers again, which is not long.
    pub(super) async fn before_again(&self, asked: Option<Duration>) {
        sleep(asked.unwrap_or_default().max(Duration::from_millis(20))).await;
    }
}
