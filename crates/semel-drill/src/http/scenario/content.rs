//! `reformatted`, `number-twins`: what the same content is, and what it is not.

use async_trait::async_trait;

use super::{Rule, Scenario, changed::refused};
use crate::{
    http::{
        asking::Begun,
        drill::Drill,
        exchange::Request,
        judge::{Judged, is_mismatch},
        reform,
        trial::{Trial, Tried, broken},
        words::shown,
    },
    plan::{Names, Other},
    report::Ended,
};

pub(super) struct Reformatted;

#[async_trait]
impl Scenario for Reformatted {
    fn rule(&self) -> Rule {
        Rule {
            name: "reformatted",
            says: "The same content in other bytes is replayed or refused, as documented; it never \
                   happens again.",
        }
    }

    fn needs(&self, drill: &Drill) -> Option<String> {
        let plan = &drill.plan;
        let is_json = reform::turned_round(&plan.request.body).is_some();
        let given = is_json || plan.variants.reformatted.is_some();
        (!given)
            .then(|| "the body is no JSON, and the plan has no `variants.reformatted`".to_owned())
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let Begun { names, request, answer: first } = trial.begin("the first request").await?;
        let mut seen = Vec::new();
        for (what, other) in reformatted(trial, &names, &request) {
            let got = trial.until_refused(what, &other).await;
            trial.happened_once(&names, what).await?;
            let (judged, got) = got?;
            let allowed = &trial.drill.expected.reformatted;
            let taken = match judged {
                Judged::Done(again) => {
                    if let Some(difference) = trial.difference(&first, &again) {
                        return broken(format!("{what} was answered as done, but {difference}"));
                    }
                    Other::Same
                }
                _ if is_mismatch(&trial.drill.expected, &got) => Other::Mismatch,
                _ => return broken(format!("{what} got {}", shown(&got))),
            };
            if !allowed.contains(&taken) {
                return broken(format!("{what} got {}, which is not documented", shown(&got)));
            }
            seen.push(format!(
                "{what} was {}",
                if taken == Other::Same { "replayed" } else { "refused" }
            ));
        }
        Ok(format!("1 effect; {}", seen.join(", ")))
    }
}

/// The same content in other bytes: the plan's own, or what can be made of JSON.
fn reformatted(
    trial: &Trial<'_>,
    names: &Names,
    request: &Request,
) -> Vec<(&'static str, Request)> {
    if let Some(body) = &trial.drill.plan.variants.reformatted {
        return vec![("the plan's other form", trial.command_with(names, body))];
    }
    let Ok(body) = std::str::from_utf8(&request.body) else { return Vec::new() };
    let forms = [
        ("the body with its members turned round", reform::turned_round(body)),
        ("the body with escapes", reform::escaped(body)),
    ];
    let with = |body: String| Request { body: body.into(), ..request.clone() };
    forms.into_iter().filter_map(|(what, body)| Some((what, with(body?)))).collect()
}

pub(super) struct NumberTwins;

#[async_trait]
impl Scenario for NumberTwins {
    fn rule(&self) -> Rule {
        Rule {
            name: "number-twins",
            says: "Numbers that differ only beyond what a double can tell apart are different content.",
        }
    }

    fn needs(&self, drill: &Drill) -> Option<String> {
        drill.plan.variants.twins.is_none().then(|| "the plan has no `variants.twins`".to_owned())
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let missing = || Ended::NotTried("the plan has no `variants.twins`".into());
        let [one, other] = trial.drill.plan.variants.twins.as_ref().ok_or_else(missing)?;
        let twin = |names: &Names| trial.command_with(names, one);
        let Begun { names, request: first_request, answer: first } =
            trial.begin_with("the first twin", twin).await?;
        let twin = trial.command_with(&names, other);
        let what = "the other twin under the used key";
        refused(trial, &names, what, &twin, &first).await?;
        trial.replays("the first twin, sent again,", &first_request, &first).await?;
        Ok("1 effect; the other twin was refused, and the first still gets its answer".into())
    }
}
