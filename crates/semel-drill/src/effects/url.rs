//! Counting by a URL that answers JSON.

use std::{path::Path, time::Duration};

use bytes::Bytes;
use serde_json::Value;
use tokio::time::Instant;

use super::EffectsError;
use crate::{
    http::{Answer, Got, How, Request, Target},
    plan::{EffectsSpec, Names, fill, fill_path, fill_pointer},
};

/// How many characters of an answer are shown.
const EXCERPT_CHARS: usize = 120;

/// How long it is waited where the server answers "not now" and says no more.
const BUSY_WAIT: Duration = Duration::from_millis(100);

/// The server that counts, and where the count stands in its answer.
#[derive(Debug)]
pub(super) struct ByUrl {
    target: Target,
    path: String,
    headers: Vec<(String, String)>,
    pointer: String,
}

impl ByUrl {
    pub(super) fn new(
        url: &str,
        spec: &EffectsSpec,
        target: &Target,
        ca: Option<&Path>,
    ) -> Result<Self, EffectsError> {
        let (target, path) = if url.starts_with('/') {
            (target.clone(), url)
        } else {
            let (server, path) = split(url);
            (Target::parse(server, ca)?, path)
        };
        let mut headers: Vec<_> =
            spec.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        if !spec.headers.keys().any(|name| name.eq_ignore_ascii_case("accept")) {
            headers.push(("accept".to_owned(), "application/json".to_owned()));
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { target, path, headers, pointer: spec.pointer.clone() })
    }

    pub(super) async fn count(&self, names: &Names, within: Duration) -> Result<u64, EffectsError> {
        let headers = self.headers.iter().map(|(name, value)| (name.clone(), fill(value, names)));
        let request = Request {
            method: "GET".to_owned(),
            path: fill_path(&self.path, names),
            headers: headers.collect(),
            body: Bytes::new(),
        };
        match self.sent(&request, within).await {
            Got::Answer(answer) => counted(&answer, &fill_pointer(&self.pointer, names)),
            other => Err(uncounted(format!("GET {}: {other}", request.path))),
        }
    }
}

impl ByUrl {
    /// Sends a request until the server no longer answers "not now", or the time is over.
    async fn sent(&self, request: &Request, within: Duration) -> Got {
        let until = Instant::now() + within;
        loop {
            let got = self.target.send(request, How::Whole, within).await;
            let busy = got.answer().filter(|answer| matches!(answer.status, 429 | 503));
            let Some(answer) = busy else { return got };
            let asked = answer.header("retry-after").and_then(|said| said.trim().parse().ok());
            let wait = asked.map_or(BUSY_WAIT, Duration::from_secs).max(BUSY_WAIT);
            if Instant::now() + wait > until {
                return got;
            }
            tokio::time::sleep(wait).await;
        }
    }
}

/// Splits a URL before its path.
fn split(url: &str) -> (&str, &str) {
    let host = url.find("://").map_or(0, |at| at + 3);
    let path = url[host..].find(['/', '?']).map_or(url.len(), |at| host + at);
    url.split_at(path)
}

fn uncounted(why: String) -> EffectsError {
    EffectsError::Uncounted(why)
}

/// Reads the count from an answer. What is not there was not done.
fn counted(answer: &Answer, pointer: &str) -> Result<u64, EffectsError> {
    let shown = || {
        let text = String::from_utf8_lossy(&answer.body);
        let start: String = text.chars().take(EXCERPT_CHARS).collect();
        format!("status {} and `{}`", answer.status, start.replace(['\r', '\n'], " "))
    };
    match answer.status {
        200..=299 => {}
        404 => return Ok(0),
        _ => return Err(uncounted(format!("the URL answers {}", shown()))),
    }
    let document: Value = serde_json::from_slice(&answer.body)
        .map_err(|_| uncounted(format!("the URL answers no JSON, but {}", shown())))?;
    let none = || {
        uncounted(format!("what stands at {pointer:?} is no count, array or object in {}", shown()))
    };
    match document.pointer(pointer) {
        None | Some(Value::Null) => Ok(0),
        Some(Value::Number(number)) => number.as_u64().ok_or_else(none),
        Some(Value::Array(items)) => u64::try_from(items.len()).map_err(|_| none()),
        Some(Value::Object(members)) => u64::try_from(members.len()).map_err(|_| none()),
        Some(Value::Bool(_) | Value::String(_)) => Err(none()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(status: u16, body: &str, pointer: &str) -> Option<u64> {
        let answer = Answer { status, headers: Vec::new(), body: body.to_owned().into() };
        counted(&answer, pointer).ok()
    }

    #[test]
    fn a_number_counts_itself_and_a_list_its_members() {
        let body = r#"{"n":3,"list":[1,{}],"map":{"a~b/c":7},"none":null,"text":"3"}"#;
        for (pointer, counts) in [
            ("/n", Some(3)),
            ("/list", Some(2)),
            ("/map", Some(1)),
            ("/map/a~0b~1c", Some(7)),
            ("/none", Some(0)),
            ("/missing/deep", Some(0)),
            ("/text", None),
            ("", Some(5)),
        ] {
            assert_eq!(count(200, body, pointer), counts, "{pointer}");
        }
        assert_eq!(count(200, "[]", ""), Some(0));
    }

    #[test]
    fn what_is_no_count_is_never_taken_for_one() {
        assert_eq!(count(404, "", "/n"), Some(0));
        for (status, body) in [(500, "{}"), (301, ""), (200, "ok"), (200, ""), (200, r#"{"n":-1}"#)]
        {
            assert_eq!(count(status, body, "/n"), None, "{status} {body}");
        }
    }

    #[test]
    fn a_url_is_split_before_its_path() {
        for (url, parts) in [
            ("http://a:1/x/{{intent}}?y", ("http://a:1", "/x/{{intent}}?y")),
            ("https://a", ("https://a", "")),
            ("http://[::1]?q={{intent}}", ("http://[::1]", "?q={{intent}}")),
        ] {
            assert_eq!(split(url), parts);
        }
    }
}
