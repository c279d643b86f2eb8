//! What must hold between the settings of a plan for a consumer.

use std::time::Duration;

use super::{
    super::{ConsumerPlan, Format, reading::Reading, template},
    count, effects, headers, local_path, method, name, process, templates, waits,
};

/// What the texts of a message may name.
const MESSAGE: &[&str] = &["intent", "id", "aggregate", "sequence"];

const EFFECTS: effects::Counted = effects::Counted {
    place: "effects",
    by: "intent",
    what: "the effects of one intent",
    allowed: MESSAGE,
};

const STATE: effects::Counted = effects::Counted {
    place: "ordered.state",
    by: "aggregate",
    what: "the state of one aggregate",
    allowed: &["aggregate"],
};

/// Notes everything that is wrong.
pub(in crate::plan) fn check(plan: &ConsumerPlan, reading: &mut Reading<'_>) {
    name(&plan.name, plan.target.as_ref(), reading);
    message(plan, reading);
    variants(plan, reading);
    if let Some(batch) = &plan.batch {
        local_path("batch.path", &batch.path, reading);
        headers("batch.headers", &batch.headers, &[], reading);
        templates("batch.item", &batch.item, MESSAGE, reading);
        for wanted in ["intent", "id"] {
            if !template::has(&batch.item, wanted) {
                let message = format!("`batch.item` names no `{{{{{wanted}}}}}`");
                reading.problem("batch.item", message);
            }
        }
    }
    command(plan, reading);
    effects::check(&EFFECTS, &plan.effects, reading);
    if let Some(state) = plan.ordered.as_ref().and_then(|ordered| ordered.state.as_ref()) {
        effects::check(&STATE, state, reading);
    }
    process(plan.process.as_ref(), reading);
    answers(plan, reading);
    bounds(plan, reading);
}

fn message(plan: &ConsumerPlan, reading: &mut Reading<'_>) {
    let message = &plan.message;
    method("message.method", &message.method, reading);
    local_path("message.path", &message.path, reading);
    templates("message.path", &message.path, MESSAGE, reading);
    templates("message.body", &message.body, MESSAGE, reading);
    headers("message.headers", &message.headers, MESSAGE, reading);
    for (place, text) in [("message.event", &message.event), ("message.source", &message.source)] {
        if text.is_empty() || !text.chars().all(|c| c.is_ascii_graphic()) || text.contains("{{") {
            let message = format!("`{place}` must be a word of visible ASCII");
            reading.problem(place, message);
        }
    }
    if !names(plan, "intent") {
        reading.problem(
            "message.body",
            "`message` names `{{intent}}` nowhere: its effects could not be counted",
        );
    }
    if message.format == Format::Plain && !names(plan, "id") {
        reading.problem(
            "message",
            "`message` names `{{id}}` nowhere, and the format \"plain\" has no header for it: no copy \
             could be told from another message",
        );
    }
}

/// A program has no address: what is asked of a server needs its own.
fn command(plan: &ConsumerPlan, reading: &mut Reading<'_>) {
    let Some(program) = plan.message.command.first() else { return };
    if program.is_empty() {
        reading.problem("message.command", "`message.command` must begin with a program");
    }
    if plan.target.is_some() {
        return;
    }
    let state = plan.ordered.as_ref().and_then(|ordered| ordered.state.as_ref());
    let urls = [("effects.url", Some(&plan.effects)), ("ordered.state.url", state)];
    for (place, spec) in urls {
        if spec.and_then(|spec| spec.url.as_ref()).is_some_and(|url| url.starts_with('/')) {
            let message = format!(
                "`{place}` is a path, and messages go to a program: set `target`, or name a whole URL"
            );
            reading.problem(place, message);
        }
    }
    if plan.process.is_some() {
        let message = "`process.ready` is a path, and messages go to a program: set `target`";
        reading.problem("process.ready", message);
    }
}

/// Says whether the message names something.
fn names(plan: &ConsumerPlan, wanted: &str) -> bool {
    let message = &plan.message;
    let texts = message.headers.values().chain([&message.path, &message.body]);
    texts.into_iter().any(|text| template::has(text, wanted))
}

fn variants(plan: &ConsumerPlan, reading: &mut Reading<'_>) {
    let variants = &plan.variants;
    for (place, body) in [
        ("variants.changed", &variants.changed),
        ("variants.poison", &variants.poison),
        ("variants.fails_first", &variants.fails_first),
        ("variants.slow", &variants.slow),
    ] {
        let Some(body) = body else { continue };
        templates(place, body, MESSAGE, reading);
        let elsewhere = [&plan.message.path].into_iter().chain(plan.message.headers.values());
        let named = template::has(body, "intent")
            || elsewhere.into_iter().any(|text| template::has(text, "intent"));
        if !named {
            let message = format!(
                "`{place}` names no `{{{{intent}}}}`: if it ran, nobody would see whose effect it was"
            );
            reading.problem(place, message);
        }
        if *body == plan.message.body {
            reading.problem(place, format!("`{place}` is the same bytes again: it shows nothing"));
        }
    }
}

fn answers(plan: &ConsumerPlan, reading: &mut Reading<'_>) {
    let answers = &plan.answers;
    let acknowledged = answers.acknowledged.as_deref().unwrap_or_default();
    let refused = answers.refused.as_deref().unwrap_or_default();
    if let Some(status) = refused.iter().find(|status| acknowledged.contains(status)) {
        let message = format!("`answers.refused` holds {status}, as `answers.acknowledged` does");
        reading.problem("answers.refused", message);
    }
    if refused.iter().any(|status| !(400..500).contains(status)) {
        let message = "`answers.refused` must hold statuses from 400 to 499";
        reading.problem("answers.refused", message);
    }
    if answers.given_up_after.is_some_and(|most| !(2..=100).contains(&most)) {
        let message = "`answers.given_up_after` must be from 2 to 100";
        reading.problem("answers.given_up_after", message);
    }
}

fn bounds(plan: &ConsumerPlan, reading: &mut Reading<'_>) {
    let bounds = &plan.bounds;
    count("racers", bounds.racers, 2..=500, reading);
    count("storm", bounds.storm, 1..=5000, reading);
    count("between", bounds.between, 0..=100_000, reading);
    count("deliveries", bounds.deliveries, 2..=100, reading);
    waits(bounds.answer_wait, bounds.patience, reading);
    if bounds.later > Duration::from_secs(86_400) {
        reading.problem("bounds.later", "`bounds.later` must be up to 24 hours");
    }
}
