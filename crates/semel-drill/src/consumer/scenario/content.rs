//! `other-content`: another message under an id that was had.

use async_trait::async_trait;

use super::{super::Consumer, lacks};
use crate::{
    http::{
        Drill, How, Trial, Tried,
        asking::Begun,
        judge::{Judged, judge},
        scenario::{Rule, Scenario},
        trial::broken,
        words::shown,
    },
    report::Ended,
};

pub(super) const OTHER_CONTENT: Rule = Rule {
    name: "other-content",
    says: "Other content under an id that was had has no effect and does not come for ever, and the \
           first message is still known.",
};

pub(super) struct OtherContent<'c>(pub(super) &'c Consumer);

#[async_trait]
impl Scenario for OtherContent<'_> {
    fn rule(&self) -> Rule {
        OTHER_CONTENT
    }

    fn needs(&self, drill: &Drill) -> Option<String> {
        lacks(drill.plan.variants.changed.is_some(), "variants.changed")
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let missing = || Ended::NotTried("the plan has no `variants.changed`".into());
        let changed = trial.drill.plan.variants.changed.as_deref().ok_or_else(missing)?;
        let Begun { names, request, .. } = trial.begin("the message").await?;
        trial.happened_once(&names, "the message was acknowledged").await?;
        let other = trial.command_with(&names, changed);
        let ended = ends(trial, "other content under its id", &other, self.0.deliveries()).await;
        trial.happened_once(&names, "other content came under its id").await?;
        let ended = ended?;
        trial.copied("the message's own copy afterwards", &names, &request).await?;
        Ok(format!("1 effect; the other content was {ended}"))
    }
}

/// How what was acknowledged ended.
pub(super) const ACKNOWLEDGED: &str = "acknowledged";

/// Delivers what cannot be done until the broker is told to stop, or for so many times; says how it ended.
pub(super) async fn ends(
    trial: &Trial<'_>,
    what: &str,
    request: &crate::http::Request,
    most: usize,
) -> Tried<&'static str> {
    let mut last = String::new();
    for _ in 0..most {
        let got = trial.send(what, request, How::Whole).await;
        let asked = match judge(&trial.drill.expected, &got) {
            Judged::Done(_) => return Ok(ACKNOWLEDGED),
            Judged::Refused => return Ok("refused for good"),
            Judged::Later(after) => after,
            _ => None,
        };
        last = shown(&got);
        trial.before_again(asked).await;
    }
    broken(format!(
        "{what} was delivered {most} times and is asked for again, so it comes for ever: the last time it \
         got {last}"
    ))
}
