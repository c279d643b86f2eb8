//! Whether an answer is the first answer again.

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

/// Says how an answer differs from the first; nothing if it is the first again.
pub(super) fn difference(first: &Answer, again: &Answer) -> Option<String> {
    if again.status != first.status {
        let (again, first) = (again.status, first.status);
        return Some(format!("its status is {again}, and the first's was {first}"));
    }
    if again.body != first.body {
        let (again, first) = (excerpt(&again.body), excerpt(&first.body));
        return Some(format!("its body is {again}, and the first's was {first}"));
    }
    TELLING.iter().find_map(|name| {
        let (again, first) = (told(again, name), told(first, name));
        let shown =
            |value: Option<String>| value.map_or_else(|| "missing".into(), |v| format!("`{v}`"));
        (again != first).then(|| {
            format!("its {name} is {}, and the first's was {}", shown(again), shown(first))
        })
    })
}

/// Says what an answer lacks to be marked as a replay, where that is documented.
pub(super) fn unmarked(expected: &Expected, again: &Answer) -> Option<String> {
    let (name, value) = expected.replay_header.as_ref()?;
    let marked = is_marked(expected, again);
    (!marked).then(|| format!("it is not marked as a replay by `{name}: {value}`"))
}

/// Says whether an answer is marked as a replay.
pub(super) fn is_marked(expected: &Expected, answer: &Answer) -> bool {
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

/// Shows the start of a body in backticks.
pub(super) fn excerpt(body: &[u8]) -> String {
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
        assert_eq!(difference(&first, &again), None);
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
            let difference = difference(&first, &again).unwrap();
            assert!(difference.contains(word), "{difference}");
        }
    }
}
