//! What an answer means: one total table.

use std::time::Duration;

use http::{StatusCode, header, response::Parts};
use semel::{
    Clock,
    outbox::{Fault, Sent},
    wire,
};

use crate::instant;

/// How much of a title is told to operators, in characters.
const TITLE_MAX: usize = 200;

/// Says what became of a message by the answer to its request.
pub(super) fn outcome(head: &Parts, body: Option<&[u8]>, clock: &dyn Clock) -> Sent {
    let status = head.status;
    if status.is_success() {
        return Sent::Confirmed;
    }
    let retry_after = retry_after(head, clock);
    let why = why(head, body);
    let destination = |why| Sent::Refused { fault: Fault::Destination { retry_after }, why };
    match status {
        StatusCode::TOO_MANY_REQUESTS => destination(why),
        StatusCode::SERVICE_UNAVAILABLE if retry_after.is_some() => destination(why),
        StatusCode::CONFLICT if retry_after.is_some() => Sent::Unknown { why },
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY => Sent::Unknown { why },
        StatusCode::UNAUTHORIZED
        | StatusCode::METHOD_NOT_ALLOWED
        | StatusCode::PROXY_AUTHENTICATION_REQUIRED
        | StatusCode::GONE
        | StatusCode::MISDIRECTED_REQUEST
        | StatusCode::UPGRADE_REQUIRED
        | StatusCode::NOT_IMPLEMENTED
        | StatusCode::HTTP_VERSION_NOT_SUPPORTED => destination(why),
        status if status.is_redirection() => destination(why),
        status if status.is_client_error() => Sent::Refused { fault: Fault::Message, why },
        _ => Sent::Unknown { why },
    }
}

/// Tells the status, and the title of a problem document if it is one.
fn why(head: &Parts, body: Option<&[u8]>) -> Box<str> {
    let status = head.status.as_u16();
    let is_problem = head
        .headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(wire::PROBLEM_JSON.as_bytes()));
    let problem = body.filter(|_| is_problem);
    let problem = problem.and_then(|body| serde_json::from_slice::<serde_json::Value>(body).ok());
    let title = problem.as_ref().and_then(|problem| problem.get("title")?.as_str());
    match title {
        Some(title) => {
            let shown: String = title.chars().filter(|c| !c.is_control()).take(TITLE_MAX).collect();
            format!("it answered {status}: {shown}").into()
        }
        None => format!("it answered {status}").into(),
    }
}

/// Reads when the destination wants to be asked again: seconds, or a date.
fn retry_after(head: &Parts, clock: &dyn Clock) -> Option<Duration> {
    let text = head.headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    instant::of_http_date(text).map(|at| at.since(clock.wall()))
}

#[cfg(test)]
mod tests {
    use http::Response;
    use semel::SystemClock;

    use super::*;

    fn told(status: u16, headers: &[(&str, &str)], body: &str) -> Sent {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        let (head, ()) = response.body(()).unwrap().into_parts();
        outcome(&head, Some(body.as_bytes()), &SystemClock::new())
    }

    fn word(sent: &Sent) -> &'static str {
        match sent {
            Sent::Confirmed => "confirmed",
            Sent::Refused { fault: Fault::Destination { .. }, .. } => "destination",
            Sent::Refused { fault: Fault::Message, .. } => "message",
            Sent::Unknown { .. } => "unknown",
        }
    }

    #[test]
    fn every_status_has_one_meaning() {
        for status in 100..1000 {
            let expected = match status {
                200..=299 => "confirmed",
                300..=399 | 401 | 405 | 407 | 410 | 421 | 426 | 429 | 501 | 505 => "destination",
                408 | 425 => "unknown",
                400..=499 => "message",
                _ => "unknown",
            };
            assert_eq!(word(&told(status, &[], "")), expected, "{status}");
        }
        let later = [("retry-after", "7")];
        assert_eq!(word(&told(409, &later, "")), "unknown");
        assert_eq!(word(&told(503, &later, "")), "destination");
    }

    #[test]
    fn when_to_come_again_is_read_as_seconds_and_as_a_date() {
        let after = |value| match told(429, &[("retry-after", value)], "") {
            Sent::Refused { fault: Fault::Destination { retry_after }, .. } => retry_after,
            other => panic!("{other:?}"),
        };
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(after("soon"), None);
    }

    #[test]
    fn the_title_of_a_problem_is_told_and_nothing_else_of_a_body() {
        let why = |kind, body| match told(422, &[("content-type", kind)], body) {
            Sent::Refused { why, .. } => why.into_string(),
            other => panic!("{other:?}"),
        };
        let body = "{\"title\":\"no such\\norder\",\"detail\":\"token=hunter2\"}";
        assert_eq!(why("application/problem+json", body), "it answered 422: no suchorder");
        assert_eq!(why("text/html", body), "it answered 422");
    }
}
