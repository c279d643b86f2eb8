//! `copy`, `lost-ack`, `copies-at-once`, `cut-short`: the same message again.

use async_trait::async_trait;

use crate::http::{
    Drill, Got, How, Trial, Tried,
    asking::Begun,
    judge::{Judged, judge},
    scenario::{Rule, Scenario, crash::is_done, race::at_once},
    trial::{broken, failed},
    words::shown,
};

pub(super) const COPY: Rule = Rule {
    name: "copy",
    says: "A copy of a message that was acknowledged has no effect, and is acknowledged.",
};

pub(super) const LOST_ACK: Rule = Rule {
    name: "lost-ack",
    says: "When the acknowledgement is lost, the message comes again: it has no second effect, and is \
           acknowledged.",
};

pub(super) const COPIES_AT_ONCE: Rule = Rule {
    name: "copies-at-once",
    says: "Of copies that come at the same moment one has its effect, and none is refused for good.",
};

pub(super) const CUT_SHORT: Rule = Rule {
    name: "cut-short",
    says: "When the connection ends as soon as the message is out, the message comes again: it has its \
           effect once in the end.",
};

/// How many rounds of copies at once are tried: a narrow window is not hit at once.
const ROUNDS: usize = 5;

/// How many messages are cut short: how far the consumer is then is chance.
const CUTS: usize = 4;

pub(super) struct Copy;

#[async_trait]
impl Scenario for Copy {
    fn rule(&self) -> Rule {
        COPY
    }

    fn needs(&self, _: &Drill) -> Option<String> {
        None
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let Begun { names, request, answer } = trial.begin("the message").await?;
        trial.remember(&names, &request, &answer);
        trial.happened_once(&names, "the message was acknowledged").await?;
        for what in ["its copy", "its second copy"] {
            trial.copied(what, &names, &request).await?;
        }
        Ok("1 effect; two copies were acknowledged, and had none".into())
    }
}

pub(super) struct LostAck;

#[async_trait]
impl Scenario for LostAck {
    fn rule(&self) -> Rule {
        LOST_ACK
    }

    fn needs(&self, _: &Drill) -> Option<String> {
        None
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let what = "the message, whose acknowledgement is lost,";
        let Begun { names, request, answer } = trial.begin_lost(what).await?;
        trial.copied("its copy after the lost acknowledgement", &names, &request).await?;
        trial.copied("its second copy", &names, &request).await?;
        Ok(format!("1 effect; the copy after a {} that was lost was acknowledged", answer.status))
    }
}

pub(super) struct CopiesAtOnce;

#[async_trait]
impl Scenario for CopiesAtOnce {
    fn rule(&self) -> Rule {
        COPIES_AT_ONCE
    }

    fn needs(&self, _: &Drill) -> Option<String> {
        None
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let racers = trial.drill.plan.bounds.racers;
        let mut acknowledged = 0;
        for round in 1..=ROUNDS {
            let names = trial.intent();
            let request = trial.command(&names);
            let what = format!("round {round}");
            let got = at_once(trial, &vec![(what.clone(), request.clone()); racers]).await;
            if got.iter().any(|got| is_done(trial, got)) {
                trial.not_lost(&format!("in {what} a copy was acknowledged"), &names).await?;
            }
            trial.copied(&format!("{what}, one more copy"), &names, &request).await?;
            for got in &got {
                match judge(&trial.drill.expected, got) {
                    Judged::Done(_) => acknowledged += 1,
                    Judged::Refused => {
                        return broken(format!(
                            "in {what} a copy was refused for good while another ran: {}",
                            shown(got)
                        ));
                    }
                    _ => {}
                }
            }
        }
        let acknowledged = match acknowledged {
            all if all == ROUNDS * racers => "all copies were acknowledged".to_owned(),
            some => format!("{some} copies were acknowledged, the others when they came again"),
        };
        Ok(format!("1 effect in each of {ROUNDS} rounds of {racers}; {acknowledged}"))
    }
}

pub(super) struct CutShort;

#[async_trait]
impl Scenario for CutShort {
    fn rule(&self) -> Rule {
        CUT_SHORT
    }

    fn needs(&self, _: &Drill) -> Option<String> {
        None
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let plan = &trial.drill.plan;
        let bodies = [Some(&plan.request.body), plan.variants.slow.as_ref()];
        let mut cut = 0;
        for body in bodies.into_iter().flatten() {
            for _ in 0..CUTS {
                let names = trial.intent();
                let request = trial.command_with(&names, body);
                let what = "the message, cut short,";
                if let Got::Broken(why) = trial.send(what, &request, How::HangUp).await {
                    return failed(format!("{what} was not sent: {why}"));
                }
                trial.copied("its copy", &names, &request).await?;
                trial.copied("its second copy", &names, &request).await?;
                cut += 1;
            }
        }
        Ok(format!("1 effect for each of {cut} messages that were cut short and came again"))
    }
}
