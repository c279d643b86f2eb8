//! Whether an answer is the first answer again.

use serde_json::Value;

use super::exchange::Answer;
use crate::plan::Expected;

/// Headers that say what the body is, or where what was made can be found. Others, such as `date` or
/// a request's id, may differ from answer to answer.
const TELLING: [&str; 7] = [
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "etag",
    "link",
    "location",
];

/// How many characters of a body are shown.
const EXCERPT_CHARS: usize = 120;

/// Says how an answer differs from the first in what is not volatile; nothing if it is the first again.
pub(crate) fn difference(volatile: &[String], first: &Answer, again: &Answer) -> Option<String> {
    if again.status != first.status {
        let (again, first) = (again.status, first.status);
        return Some(format!("its status is {again}, and the first's was {first}"));
    }
    if let Some((first, again)) = bodies(volatile, first, again) {
        let at = first.iter().zip(&again).take_while(|(one, other)| one == other).count();
        let (again, first) = (excerpt_at(&again, at), excerpt_at(&first, at));
        return Some(format!("its body is {again}, and the first's was {first}"));
    }
    let is_volatile = |name: &str| volatile.iter().any(|known| known.eq_ignore_ascii_case(name));
    TELLING.iter().filter(|name| !is_volatile(name)).find_map(|name| {
        let (again, first) = (told(again, name), told(first, name));
        let shown =
            |value: Option<String>| value.map_or_else(|| "missing".into(), |v| format!("`{v}`"));
        (again != first).then(|| {
            format!("its {name} is {}, and the first's was {}", shown(again), shown(first))
        })
    })
}

/// Returns both bodies where they differ. Where members are volatile, JSON is compared without them.
fn bodies(volatile: &[String], first: &Answer, again: &Answer) -> Option<(Vec<u8>, Vec<u8>)> {
    if first.body == again.body {
        return None;
    }
    let pointers: Vec<_> = volatile.iter().filter(|name| name.starts_with('/')).collect();
    let lasting = |answer: &Answer| {
        let mut body: Value = serde_json::from_slice(&answer.body).ok()?;
        pointers.iter().for_each(|pointer| forget(&mut body, pointer));
        Some(body)
    };
    if !pointers.is_empty()
        && let (Some(first), Some(again)) = (lasting(first), lasting(again))
    {
        return (first != again).then(|| (first.to_string().into(), again.to_string().into()));
    }
    Some((first.body.to_vec(), again.body.to_vec()))
}

/// Takes what stands at a JSON pointer out of a document, if it is there.
fn forget(body: &mut Value, pointer: &str) {
    let Some((above, last)) = pointer.rsplit_once('/') else { return };
    match body.pointer_mut(above) {
        Some(Value::Object(members)) => {
            members.remove(&last.replace("~1", "/").replace("~0", "~"));
        }
        // The others keep their places.
        Some(Value::Array(_)) => {
            if let Some(value) = body.pointer_mut(pointer) {
                *value = Value::Null;
            }
        }
        _ => {}
    }
}

/// Says what an answer lacks to be marked as a replay, where that is documented.
pub(crate) fn unmarked(expected: &Expected, again: &Answer) -> Option<String> {
    let (name, value) = expected.replay_header.as_ref()?;
    let marked = is_marked(expected, again);
    (!marked).then(|| format!("it is not marked as a replay by `{name}: {value}`"))
}

/// Says whether an answer is marked as a replay.
pub(crate) fn is_marked(expected: &Expected, answer: &Answer) -> bool {
    let Some((name, value)) = &expected.replay_header else { return false };
    let said = answer.header(name);
    said.is_some_and(|said| said.eq_ignore_ascii_case(value))
}

/// The value as far as it tells something: of a media type its name, since a `charset` that JSON
/// does not have changes nothing.
fn told(answer: &Answer, name: &str) -> Option<String> {
    let value = answer.header(name)?;
    if name != "content-type" {
        return Some(value.to_owned());
    }
    let essence = value.split(';').next().unwrap_or_default();
    Some(essence.trim().to_ascii_lowercase())
}

/// Shows a body in backticks, from a little before a place in it where the place is far behind its start.
fn excerpt_at(body: &[u8], at: usize) -> String {
    if at < EXCERPT_CHARS * 2 / 3 {
        return excerpt(body);
    }
    let from = at.min(body.len()).saturating_sub(EXCERPT_CHARS / 3);
    // A character is not cut: what goes on from another starts at the next.
    let from = (from..body.len()).find(|at| body[*at] & 0xc0 != 0x80).unwrap_or(body.len());
    let shown = excerpt(&body[from..]);
    match shown.strip_prefix('`') {
        Some(shown) => format!("`…{shown}"),
        None => "at its end there".to_owned(),
    }
}

/// Shows the start of a body in backticks.
pub(crate) fn excerpt(body: &[u8]) -> String {
    if body.is_empty() {
        return "empty".to_owned();
    }
    let text = String::from_utf8_lossy(body);
    let start: String = text.chars().take(EXCERPT_CHARS).collect();
    let dots = if start.len() < text.len() { "…" } else { "" };
    format!("`{}{dots}`", start.replace(['\r', '\n'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Answer {
        let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Answer { status, headers: headers.collect(), body: body.to_owned().into() }
    }

    #[test]
    fn headers_that_change_from_answer_to_answer_make_no_difference() {
        let first = answer(201, &[("date", "Mon"), ("content-type", "application/json")], "{}");
        let again = answer(
            201,
            &[("content-type", "application/json; charset=utf-8"), ("x-request-id", "2")],
            "{}",
        );
        assert_eq!(difference(&[], &first, &again), None);
    }

    #[test]
    fn another_status_body_or_place_is_a_difference() {
        let first = answer(201, &[("location", "/1")], "{}");
        for (again, word) in [
            (answer(200, &[("location", "/1")], "{}"), "status"),
            (answer(201, &[("location", "/1")], "{ }"), "body"),
            (answer(201, &[("location", "/2")], "{}"), "location"),
            (answer(201, &[], "{}"), "missing"),
        ] {
            let difference = difference(&[], &first, &again).unwrap();
            assert!(difference.contains(word), "{difference}");
        }
    }

    #[test]
    fn what_is_volatile_makes_no_difference() {
        let first = answer(201, &[("etag", "1")], r#"{"id":1,"served":[1,{"at/in":2}]}"#);
        let again = answer(201, &[("etag", "2")], r#"{"id":1,"served":[9,{"at/in":3}]}"#);
        let volatile = ["ETag", "/served/0", "/served/1/at~1in"].map(str::to_owned);
        assert_eq!(difference(&volatile, &first, &again), None);
        for missing in 0..volatile.len() {
            let mut some = volatile.to_vec();
            some.remove(missing);
            assert!(difference(&some, &first, &again).is_some(), "without {}", volatile[missing]);
        }
        let other = answer(201, &[("etag", "1")], r#"{"id":2,"served":[1,{"at/in":2}]}"#);
        assert!(difference(&volatile, &first, &other).is_some());
    }

    #[test]
    fn the_first_difference_is_shown_wherever_it_stands() {
        let same = "é".repeat(400);
        let (first, again) = (format!("{same}one"), format!("{same}two"));
        let said = difference(&[], &answer(200, &[], &first), &answer(200, &[], &again)).unwrap();
        assert!(said.contains("étwo`") && said.contains("éone`"), "{said}");
        let said = difference(&[], &answer(200, &[], &same), &answer(200, &[], &again)).unwrap();
        assert!(said.contains("étwo`") && !said.contains('\u{fffd}'), "{said}");
    }
}
