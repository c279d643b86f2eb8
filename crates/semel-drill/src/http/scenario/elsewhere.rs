//! `other-operation`, `other-tenant`: the same key elsewhere.

use async_trait::async_trait;

use super::{Rule, Scenario};
use crate::{
    http::{
        asking::Begun,
        compare,
        drill::Drill,
        exchange::{Answer, Got, Request},
        judge::{Judged, is_mismatch, judge},
        trial::{Trial, Tried, broken, failed},
        words::shown,
    },
    plan::{Names, Other},
    report::Ended,
};

pub(super) struct OtherOperation;

#[async_trait]
impl Scenario for OtherOperation {
    fn rule(&self) -> Rule {
        Rule {
            name: "other-operation",
            says: "The same key at another operation is another intent or is refused, as documented; \
                   it never gets the first operation's answer.",
        }
    }

    fn needs(&self, drill: &Drill) -> Option<String> {
        drill.plan.other.is_none().then(|| "the plan has no `[other]` operation".to_owned())
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let missing = || Ended::NotTried("the plan has no `[other]` operation".into());
        let spec = trial.drill.plan.other.as_ref().ok_or_else(missing)?;
        let what = "the other operation under a key of its own";
        let Begun { names: alone, answer: there_alone, .. } =
            trial.begin_with(what, |names| trial.request(spec, names)).await?;
        let counts = trial.count_up_to(&alone, 1).await? > 0;
        let Begun { names, answer: first, .. } = trial.begin("the first operation").await?;
        let telling = is_telling(trial, &there_alone, &first, counts)?;
        // Its own intent: what is counted of it is the other operation's alone.
        let there = trial.intent_with(names.key.clone());
        let request = trial.request(spec, &there);
        let what = "the other operation under the used key";
        let (_, got) = trial.until_refused(what, &request).await?;
        let taken = taken(trial, &request, &got, &first, telling);
        let allowed = &trial.drill.expected.other_operation;
        match taken {
            Some(Other::Independent) if allowed.contains(&Other::Independent) => {
                let answer = got.answer().cloned().unwrap_or(first);
                let replayed =
                    trial.replays("the other operation's retry", &request, &answer).await;
                if counts {
                    trial.happened_once(&there, "the other operation's retry").await?;
                }
                replayed?;
                Ok("the same key at another operation was another intent".into())
            }
            Some(taken) if allowed.contains(&taken) => {
                if counts {
                    trial.happened(&there, 0, what).await?;
                }
                Ok(format!("the same key at another operation was taken as {}", word(taken)))
            }
            Some(Other::Same) => {
                broken(format!("{what} got the first operation's answer: {}", shown(&got)))
            }
            Some(taken) => broken(format!(
                "{what} was taken as {}, which is not documented: {}",
                word(taken),
                shown(&got)
            )),
            None => broken(format!("{what} got {}", shown(&got))),
        }
    }
}

/// Says how a request under a used key was taken; nothing if it is neither run, replayed nor refused.
fn taken(
    trial: &Trial<'_>,
    request: &Request,
    got: &Got,
    first: &Answer,
    telling: bool,
) -> Option<Other> {
    let expected = &trial.drill.expected;
    match judge(expected, got) {
        Judged::Done(answer) if is_leak(trial, request, first, &answer, telling) => {
            Some(Other::Same)
        }
        Judged::Done(_) => Some(Other::Independent),
        _ if is_mismatch(expected, got) => Some(Other::Mismatch),
        _ => None,
    }
}

/// Says whether an answer tells whose it is: two intents were answered differently. Where it does not,
/// only counting can show that a request was taken for another.
fn is_telling(trial: &Trial<'_>, one: &Answer, other: &Answer, counts: bool) -> Tried<bool> {
    let telling = trial.difference(one, other).is_some();
    if !telling && !counts {
        return failed(
            "two intents get the same answer, and those elsewhere are not counted: nothing could be seen",
        );
    }
    Ok(telling)
}

/// Says whether an answer is the first one's, given to another request.
fn is_leak(
    trial: &Trial<'_>,
    request: &Request,
    first: &Answer,
    answer: &Answer,
    telling: bool,
) -> bool {
    let same = telling && trial.difference(first, answer).is_none();
    // Marked it may rightly be, where an earlier answer to it was lost.
    same || compare::is_marked(&trial.drill.expected, answer) && !trial.may_have_run(request)
}

const fn word(taken: Other) -> &'static str {
    match taken {
        Other::Independent => "another intent",
        Other::Mismatch => "other content, and refused",
        Other::Same => "the same intent, and replayed",
    }
}

pub(super) struct OtherTenant;

#[async_trait]
impl Scenario for OtherTenant {
    fn rule(&self) -> Rule {
        Rule {
            name: "other-tenant",
            says: "The same key of another caller is another intent: it runs, and nobody sees another \
                   caller's answer.",
        }
    }

    fn needs(&self, drill: &Drill) -> Option<String> {
        drill.plan.tenant.is_none().then(|| "the plan has no `[tenant]`".to_owned())
    }

    async fn run(&self, trial: &Trial<'_>) -> Tried {
        let what = "the other caller alone";
        let Begun { names: alone, answer: theirs_alone, .. } =
            trial.begin_with(what, |names| theirs(trial, names)).await?;
        let counts = trial.count_up_to(&alone, 1).await? > 0;
        let Begun { names, answer: first, .. } = trial.begin("the first caller").await?;
        let telling = is_telling(trial, &theirs_alone, &first, counts)?;
        let same = theirs(trial, &names);
        let answer =
            independent(trial, "the same request of another caller", &same, &first, telling)
                .await?;
        let replayed = trial.replays("the other caller's retry", &same, &answer).await;
        if counts {
            let after = "two callers sent the same under one key, and one a retry";
            trial.happened(&names, 2, after).await?;
        }
        replayed?;
        // With other content too: a mismatch would tell a stranger that the key is in use.
        let Begun { names: fresh, answer: first, .. } =
            trial.begin("the first caller's second intent").await?;
        let other = trial.intent_with(fresh.key.clone());
        let what = "another request of another caller";
        independent(trial, what, &theirs(trial, &other), &first, telling).await?;
        if counts {
            trial.happened_once(&other, what).await?;
        }
        Ok("the same key of another caller was another intent, with an answer of its own".into())
    }
}

/// Demands that a request runs as if nobody had used its key.
async fn independent(
    trial: &Trial<'_>,
    what: &str,
    request: &Request,
    first: &Answer,
    telling: bool,
) -> Tried<Answer> {
    let got = trial.ask(what, request).await;
    match judge(&trial.drill.expected, &got) {
        Judged::Done(answer) if is_leak(trial, request, first, &answer, telling) => {
            broken(format!("{what} got the first caller's answer: {}", shown(&got)))
        }
        Judged::Done(answer) => Ok(answer),
        Judged::Nothing => failed(format!("{what} got {}", shown(&got))),
        _ => broken(format!(
            "{what} was refused, since another caller used the key: {}",
            shown(&got)
        )),
    }
}

/// The operation of the plan as the other caller sends it.
fn theirs(trial: &Trial<'_>, names: &Names) -> Request {
    let mut request = trial.command(names);
    let Some(tenant) = &trial.drill.plan.tenant else { return request };
    for (name, value) in &tenant.headers {
        request.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        request.headers.push((name.clone(), crate::plan::fill(value, names)));
    }
    request
}
