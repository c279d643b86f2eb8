//! `after-change`, `after-delete`: what was made has changed or is gone when the retry comes.

use async_trait::async_trait;

use super::{Rule, Scenario};
use crate::{
    http::{
        asking::Begun,
        drill::Drill,
        trial::{Trial, Tried, broken, failed},
        words::{effects, shown},
    },
    plan::{RequestSpec, ResourceSpec},
    report::Ended,
};

/// What is done to the resource between the first request and its retry.
enum Meanwhile {
    Change,
    Delete,
}

impl Meanwhile {
    const fn past(&self) -> &'static str {
        match self {
            Self::Change => "changed",
            Self::Delete => "deleted",
        }
    }

    /// Returns the resource and the request that does it.
    fn of<'d>(&self, drill: &'d Drill) -> Result<(&'d ResourceSpec, &'d RequestSpec), String> {
        let resource = drill.plan.resource.as_ref().ok_or("the plan has no `[resource]`")?;
        let (spec, missing) = match self {
            Self::Change => (&resource.change, "the plan has no `resource.change`"),
            Self::Delete => (&resource.delete, "the plan has no `resource.delete`"),
        };
        Ok((resource, spec.as_ref().ok_or(missing)?))
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let (resource, spec) = self.of(trial.drill).map_err(Ended::NotTried)?;
        let past = self.past();
        let Begun { mut names, request, answer: first } = trial.begin("the first request").await?;
        names.id = first.at(&resource.id);
        if names.id.is_none() {
            return failed(format!("the first answer has nothing at `{}`", resource.id));
        }
        trial.happened_once(&names, "the first request").await?;
        let what = format!("the request by which it is {past}");
        let got = trial.ask_for_success(&what, &trial.aside(spec, &names)).await;
        if !got.answer().is_some_and(|answer| (200..300).contains(&answer.status)) {
            return failed(format!("{what} got {}", shown(&got)));
        }
        // A deleted resource may be counted no more; a replay may not bring it back.
        let before = trial.count(&names).await?;
        let replayed = trial.replays("the retry", &request, &first).await;
        let after = trial.count(&names).await?;
        if after != before {
            return broken(format!(
                "the retry acted again after it was {past}: {} before, {after} afterwards",
                effects(before)
            ));
        }
        replayed?;
        Ok(format!("it was {past}, and the retry still got the first answer, without an effect"))
    }
}

pub(super) struct AfterChange;

#[async_trait]
impl Scenario for AfterChange {
    fn rule(&self) -> Rule {
        Rule {
            name: "after-change",
            says: "A retry gets the first answer also after what was made has changed.",
        }
    }

    fn needs(&self, drill: &Drill) -> Option<String> {
        Meanwhile::Change.of(drill).err()
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        Meanwhile::Change.run(trial).await
    }
}

pub(super) struct AfterDelete;

#[async_trait]
impl Scenario for AfterDelete {
    fn rule(&self) -> Rule {
        Rule {
            name: "after-delete",
            says: "A retry gets the first answer also after what was made is deleted, and does not \
                   make it again.",
        }
    }

    fn needs(&self, drill: &Drill) -> Option<String> {
        Meanwhile::Delete.of(drill).err()
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        Meanwhile::Delete.run(trial).await
    }
}
