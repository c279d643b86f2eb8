//! What must hold between the settings of a plan, so that its drill can find anything out.

pub(super) mod consumer;
mod effects;

use std::{collections::BTreeMap, ops::RangeInclusive, time::Duration};

use http::{HeaderName, HeaderValue, Method, Uri};
use serde_json::Value;

use super::{
    Plan, ProcessSpec, RequestSpec,
    expected::Published,
    reading::Reading,
    spec::{Bounds, KeyStyle, Late, ResourceSpec},
    template,
};

/// What a request may name before anything was made.
const BEFORE: &[&str] = &["intent", "key"];

/// What a request may name afterwards.
const AFTER: &[&str] = &["intent", "key", "id"];

/// Headers that the drill sends by itself.
const OWN_HEADERS: [&str; 4] = ["connection", "content-length", "host", "transfer-encoding"];

/// Notes everything that is wrong.
pub(super) fn check(plan: &Plan, reading: &mut Reading<'_>) {
    name(&plan.name, plan.target.as_ref(), reading);
    key(plan, reading);
    request("request", &plan.request, BEFORE, plan, reading);
    if !names_intent(&plan.request.path, &plan.request.body) {
        reading.problem(
            "request.body",
            "`request` names `{{intent}}` neither in its body nor in its path: its effects could not \
             be counted",
        );
    }
    variants(plan, reading);
    others(plan, reading);
    if let Some(resource) = &plan.resource {
        resource_is_named(resource, plan, reading);
    }
    effects::check(&effects::PLAN, &plan.effects, reading);
    lifetime(plan, reading);
    process(plan.process.as_ref(), reading);
    answers(plan, reading);
    bounds(&plan.bounds, reading);
}

fn name(name: &str, target: Option<&String>, reading: &mut Reading<'_>) {
    let length = name.chars().count();
    if length == 0 || length > 200 || name.contains(char::is_control) {
        reading.problem("name", "`name` must be one line of 1 to 200 characters");
    }
    if let Some(target) = target
        && !template::has_variable(target)
        && !is_url(target)
    {
        reading.problem(
            "target",
            "`target` must be an http or https URL without a user, such as \"http://127.0.0.1:8080\"",
        );
    }
}

fn is_url(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else {
        return false;
    };
    let known = matches!(uri.scheme_str(), Some("http" | "https"));
    let has_user = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
    known && !has_user && uri.host().is_some_and(|host| !host.is_empty()) && !text.contains('#')
}

fn key(plan: &Plan, reading: &mut Reading<'_>) {
    if HeaderName::try_from(plan.key_header()).is_err() {
        reading.problem("key.header", "`key.header` must be the name of a header");
    }
    if plan.key.max_length.is_some_and(|length| !(1..=8192).contains(&length)) {
        reading.problem("key.max_length", "`key.max_length` must be from 1 to 8192");
    }
    let rules = plan.expected().key;
    let (least, style) = match rules.style {
        KeyStyle::Quoted => (38, "quoted"),
        KeyStyle::Uuid => (36, "uuid"),
    };
    if plan.key.max_length.is_some_and(|length| (1..least).contains(&length)) {
        let message = format!(
            "`key.max_length` is shorter than the keys that are sent: those of the style \"{style}\" \
             have {least} characters"
        );
        reading.problem("key.max_length", message);
    }
}

fn request(
    path: &str,
    spec: &RequestSpec,
    allowed: &[&str],
    plan: &Plan,
    reading: &mut Reading<'_>,
) {
    method(&format!("{path}.method"), &spec.method, reading);
    let place = format!("{path}.path");
    local_path(&place, &spec.path, reading);
    templates(&place, &spec.path, allowed, reading);
    templates(&format!("{path}.body"), &spec.body, allowed, reading);
    headers(&format!("{path}.headers"), &spec.headers, allowed, reading);
    for name in spec.headers.keys().filter(|name| name.eq_ignore_ascii_case(plan.key_header())) {
        let place = format!("{path}.headers.{name}");
        reading.problem(&place, format!("`{place}` carries the key: the drill sends it itself"));
    }
}

fn method(place: &str, method: &str, reading: &mut Reading<'_>) {
    let upper = !method.contains(|c: char| c.is_ascii_lowercase());
    if Method::from_bytes(method.as_bytes()).is_err() || !upper || method == "CONNECT" {
        let message = format!("`{place}` must be a method in capitals, such as \"POST\"");
        reading.problem(place, message);
    }
}

fn local_path(place: &str, path: &str, reading: &mut Reading<'_>) {
    let plain = path.chars().all(|c| c.is_ascii_graphic() && c != '#');
    if !path.starts_with('/') || !plain {
        let message = format!(
            "`{place}` must begin with \"/\" and hold neither spaces nor \"#\": write others as %20"
        );
        reading.problem(place, message);
    }
}

fn templates(place: &str, text: &str, allowed: &[&str], reading: &mut Reading<'_>) {
    if let Some(problem) = template::problem(text, allowed) {
        reading.problem(place, format!("`{place}` {problem}"));
    }
}

fn headers(
    path: &str,
    headers: &BTreeMap<String, String>,
    allowed: &[&str],
    reading: &mut Reading<'_>,
) {
    for (name, value) in headers {
        let place = format!("{path}.{name}");
        templates(&place, value, allowed, reading);
        if OWN_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            reading.problem(&place, format!("the drill sends `{name}` itself: leave it out"));
        } else if HeaderName::try_from(name.as_str()).is_err() {
            reading.problem(&place, format!("`{place}`: {name:?} is no name of a header"));
        } else if HeaderValue::try_from(value.as_str()).is_err() {
            reading.problem(&place, format!("`{place}` holds a character that no header may hold"));
        }
    }
}

fn names_intent(path: &str, body: &str) -> bool {
    template::has(path, "intent") || template::has(body, "intent")
}

fn variants(plan: &Plan, reading: &mut Reading<'_>) {
    let variants = &plan.variants;
    let [left, right] = variants.twins.as_ref().map_or([None, None], |[a, b]| [Some(a), Some(b)]);
    let bodies = [
        ("variants.changed", variants.changed.as_ref()),
        ("variants.twins", left),
        ("variants.twins", right),
        ("variants.reformatted", variants.reformatted.as_ref()),
        ("variants.slow", variants.slow.as_ref()),
        ("variants.refused", variants.refused.as_ref()),
    ];
    for (place, body) in bodies {
        let Some(body) = body else { continue };
        templates(place, body, BEFORE, reading);
        if !names_intent(&plan.request.path, body) {
            let message = format!(
                "`{place}` names no `{{{{intent}}}}`: if it ran, nobody would see whose effect it was"
            );
            reading.problem(place, message);
        }
    }
    let body = &plan.request.body;
    for (place, same) in [
        ("variants.changed", variants.changed.as_ref() == Some(body)),
        ("variants.reformatted", variants.reformatted.as_ref() == Some(body)),
        ("variants.refused", variants.refused.as_ref() == Some(body)),
        ("variants.twins", left.is_some() && left == right),
    ] {
        if same {
            reading.problem(place, format!("`{place}` is the same bytes again: it shows nothing"));
        }
    }
    if let (Some(left), Some(right)) = (left, right)
        && left != right
        && doubles(left).is_some_and(|left| doubles(right).is_some_and(|right| left != right))
    {
        reading.problem(
            "variants.twins",
            "`variants.twins` differ also where every number is a double: an API that rounds them would \
             not be found",
        );
    }
}

/// Reads JSON as one does who makes a double of every number; nothing if it is no JSON.
fn doubles(text: &str) -> Option<Value> {
    fn rounded(value: Value) -> Value {
        match value {
            Value::Array(items) => items.into_iter().map(rounded).collect(),
            Value::Number(number) => number.as_f64().map_or(Value::Null, Value::from),
            Value::Object(members) => {
                members.into_iter().map(|(name, value)| (name, rounded(value))).collect()
            }
            other => other,
        }
    }
    serde_json::from_str(text).ok().map(rounded)
}

fn others(plan: &Plan, reading: &mut Reading<'_>) {
    if let Some(other) = &plan.other {
        request("other", other, BEFORE, plan, reading);
        if !names_intent(&other.path, &other.body) {
            reading.problem(
                "other.body",
                "`other` names `{{intent}}` neither in its body nor in its path: its effects could \
                 not be counted",
            );
        }
        if (&other.method, &other.path) == (&plan.request.method, &plan.request.path) {
            reading.problem("other.path", "`other` is the same operation as `request`");
        }
    }
    if let Some(tenant) = &plan.tenant {
        headers("tenant.headers", &tenant.headers, BEFORE, reading);
        if tenant.headers.is_empty() {
            let message = "`tenant.headers` is empty: nothing would make the caller another";
            reading.problem("tenant.headers", message);
        } else if tenant.headers.iter().all(|(name, value)| sends(&plan.request, name, value)) {
            let message = "`tenant.headers` are those of `request`: nothing would make the caller \
                           another";
            reading.problem("tenant.headers", message);
        }
    }
}

/// Says whether a request carries this header with this value anyway.
fn sends(request: &RequestSpec, name: &str, value: &str) -> bool {
    let is_it = |(own, sent): (&String, &String)| own.eq_ignore_ascii_case(name) && sent == value;
    request.headers.iter().any(is_it)
}

fn resource_is_named(resource: &ResourceSpec, plan: &Plan, reading: &mut Reading<'_>) {
    pointer("resource.id", &resource.id, &[], reading);
    if resource.change.is_none() && resource.delete.is_none() {
        let message = "`resource` has neither `change` nor `delete`: there is nothing to try";
        reading.problem("resource", message);
    }
    for (place, spec) in
        [("resource.change", &resource.change), ("resource.delete", &resource.delete)]
    {
        let Some(spec) = spec else { continue };
        request(place, spec, AFTER, plan, reading);
        let texts = [&spec.path, &spec.body];
        let by_id = texts.iter().any(|text| template::has(text, "id"));
        if !by_id && !names_intent(&spec.path, &spec.body) {
            let message = format!("`{place}` names neither `{{{{id}}}}` nor `{{{{intent}}}}`");
            reading.problem(&format!("{place}.path"), message);
        }
        if by_id && resource.id.is_empty() {
            let message = format!("`{place}` names `{{{{id}}}}`, and `resource.id` is not set");
            reading.problem("resource.id", message);
        }
    }
}

fn pointer(place: &str, pointer: &str, allowed: &[&str], reading: &mut Reading<'_>) {
    templates(place, pointer, allowed, reading);
    let escapes = pointer.split('~').skip(1).all(|after| after.starts_with(['0', '1']));
    if !(pointer.is_empty() || pointer.starts_with('/')) || !escapes {
        let message = format!(
            "`{place}` must be a JSON pointer, such as \"/charges/0\": it begins with \"/\", \"~0\" \
             stands for \"~\" and \"~1\" for \"/\""
        );
        reading.problem(place, message);
    }
}

fn lifetime(plan: &Plan, reading: &mut Reading<'_>) {
    let Some(replay_for) = plan.lifetime.replay_for else {
        if plan.lifetime.late.is_some() {
            let message = "`lifetime.late` says nothing without `lifetime.replay_for`: nobody knows \
                           from when on";
            reading.problem("lifetime.late", message);
        }
        return;
    };
    if replay_for.is_zero() {
        reading.problem("lifetime.replay_for", "`lifetime.replay_for` must be longer than nothing");
    }
    let published = Published::of(plan.contract);
    match plan.lifetime.late.or(published.late_retry) {
        None => reading.problem(
            "lifetime",
            "`lifetime.late` is not set, and the contract does not say it: \"refused\" or \"runs\"",
        ),
        Some(Late::Refused) if plan.answers.late.is_none() && published.late.is_empty() => reading
            .problem(
                "lifetime",
                "`answers.late` is not set, and the contract does not say with which status a late \
                 retry is refused",
            ),
        Some(_) => {}
    }
}

fn process(process: Option<&ProcessSpec>, reading: &mut Reading<'_>) {
    let Some(process) = process else {
        return;
    };
    if process.start.first().is_none_or(String::is_empty) {
        reading.problem("process.start", "`process.start` must begin with a program");
    }
    local_path("process.ready", &process.ready, reading);
}

/// A refusal that looks like a success could not be told from one.
fn answers(plan: &Plan, reading: &mut Reading<'_>) {
    let expected = plan.expected();
    let refusals = [
        ("answers.mismatch", &expected.mismatch),
        ("answers.missing_key", &expected.missing_key),
        ("answers.bad_key", &expected.bad_key),
        ("answers.late", &expected.late),
        ("answers.in_progress", &expected.in_progress),
        ("answers.retry", &expected.retry),
    ];
    for (place, statuses) in refusals {
        if let Some(status) = statuses.iter().find(|status| expected.first.contains(status)) {
            let message = format!(
                "`{place}` holds {status}, as `answers.first` does: the one could not be told from \
                 the other"
            );
            reading.problem(if reading.says(place) { place } else { "answers.first" }, message);
        }
    }
    if let Some([place, _]) = &plan.answers.unknown {
        pointer("answers.unknown", place, &[], reading);
    }
    for volatile in &plan.answers.volatile {
        if volatile.starts_with('/') {
            pointer("answers.volatile", volatile, &[], reading);
        } else if HeaderName::try_from(volatile.as_str()).is_err() {
            let message = format!(
                "`answers.volatile` holds {volatile:?}, which is neither a JSON pointer, such as \
                 \"/served_at\", nor the name of a header"
            );
            reading.problem("answers.volatile", message);
        }
    }
    if let Some([name, value]) = &plan.answers.replay_header
        && (HeaderName::try_from(name.as_str()).is_err() || value.is_empty())
    {
        let message = "`answers.replay_header` must be the name of a header and its value";
        reading.problem("answers.replay_header", message);
    }
}

fn bounds(bounds: &Bounds, reading: &mut Reading<'_>) {
    count("racers", bounds.racers, 2..=500, reading);
    count("storm", bounds.storm, 1..=5000, reading);
    waits(bounds.answer_wait, bounds.patience, reading);
}

fn count(name: &str, count: usize, allowed: RangeInclusive<usize>, reading: &mut Reading<'_>) {
    if !allowed.contains(&count) {
        let (least, most) = (allowed.start(), allowed.end());
        let message = format!("`bounds.{name}` must be from {least} to {most}");
        reading.problem(&format!("bounds.{name}"), message);
    }
}

fn waits(answer_wait: Duration, patience: Duration, reading: &mut Reading<'_>) {
    let minutes_10 = Duration::from_secs(600);
    if answer_wait.is_zero() || answer_wait > minutes_10 {
        reading.problem(
            "bounds.answer_wait",
            "`bounds.answer_wait` must be more than 0 and up to 10 minutes",
        );
    }
    if patience > Duration::from_secs(86_400) {
        reading.problem("bounds.patience", "`bounds.patience` must be up to 24 hours");
    }
}
