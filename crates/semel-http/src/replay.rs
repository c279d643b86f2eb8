//! Sending an answer again: the kept status, headers and bytes, and the mark that it is a replay.
//!
//! A kept body goes out in the content coding it was kept in, if the caller accepts that (without
//! `Accept-Encoding` any is accepted, RFC 9110). If not, it is decoded; a strong `ETag` becomes a weak
//! one then, and a digest of the coded bytes is left out. A coding that cannot be taken off goes out as
//! it is.

use axum::body::Body;
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, ETAG},
};
use semel::{
    Outcome, Record, State,
    outcome::{Body as Kept, Pointer},
};

use crate::{
    answer::Answer,
    capture::{is_bodiless, is_never_sent},
    coding::Codings,
    header,
    problem::{Code, Problem},
};

/// What a replay must know of the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking<'a> {
    pub(crate) is_head: bool,
    pub(crate) headers: &'a HeaderMap,
}

/// Makes the answer of what is recorded.
pub(crate) fn of_record(record: &Record, asking: Asking<'_>) -> Response<Body> {
    let mut response = match &record.outcome {
        Some(outcome) if record.state == State::Failed && !is_kept(outcome) => {
            failure_not_kept(outcome).into_response()
        }
        Some(outcome) => of_outcome(outcome, asking),
        None => not_kept(record.pointer.as_ref()).into_response(),
    };
    if response.extensions().get::<Answer>().is_none() {
        mark(response.headers_mut());
        response.extensions_mut().insert(Answer::Replay);
    }
    response
}

/// Makes the problem of an answer that is not kept.
pub(crate) fn not_kept(pointer: Option<&Pointer>) -> Problem {
    Problem::new(Code::OutcomeNotKept)
        .pointer(pointer)
        .detail("the request was done once and is not run again; look for what it made")
}

/// Makes the problem of a final failure whose answer is not kept: nobody shall look for what it made.
fn failure_not_kept(outcome: &Outcome) -> Problem {
    Problem::new(Code::OutcomeNotKept)
        .pointer(outcome.pointer.as_ref())
        .member("kept_status", outcome.status)
        .detail(
            "the request ended in a final failure and is not run again; its status is kept_status",
        )
}

fn is_kept(outcome: &Outcome) -> bool {
    matches!(outcome.body, Kept::Kept(_)) && StatusCode::from_u16(outcome.status).is_ok()
}

/// Makes the answer of an outcome, without a mark.
pub(crate) fn of_outcome(outcome: &Outcome, asking: Asking<'_>) -> Response<Body> {
    let status = StatusCode::from_u16(outcome.status).ok().filter(|s| !s.is_informational());
    let (Some(status), Kept::Kept(bytes)) = (status, &outcome.body) else {
        let problem = not_kept(outcome.pointer.as_ref());
        return problem.member("kept_status", outcome.status).into_response();
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for header in &outcome.headers {
        let name = HeaderName::from_bytes(header.name.as_bytes());
        let value = HeaderValue::from_maybe_shared(header.value.clone());
        if let (Ok(name), Ok(value)) = (name, value)
            && !is_never_sent(&name)
        {
            headers.append(name, value);
        }
    }
    if !is_bodiless(status, asking.is_head) {
        headers.remove(CONTENT_LENGTH);
        *response.body_mut() = Body::from(acceptable(headers, bytes, asking));
    }
    response
}

/// Marks a replay.
fn mark(headers: &mut HeaderMap) {
    headers.insert(&header::REPLAYED, HeaderValue::from_static("true"));
}

/// Takes the content codings off, if the caller does not accept them.
fn acceptable(headers: &mut HeaderMap, bytes: &Bytes, asking: Asking<'_>) -> Bytes {
    let codings = Codings::of(headers);
    if codings.is_empty() || codings.accepted(asking.headers) {
        return bytes.clone();
    }
    let Ok(Some(decoded)) = codings.decode(bytes, Outcome::BODY_MAX) else {
        return bytes.clone();
    };
    headers.remove(CONTENT_ENCODING);
    headers.remove("content-digest");
    let strong = headers.get(ETAG).filter(|tag| tag.as_bytes().starts_with(b"\""));
    if let Some(tag) = strong {
        let weak = [b"W/", tag.as_bytes()].concat();
        if let Ok(weak) = HeaderValue::from_bytes(&weak) {
            headers.insert(ETAG, weak);
        }
    }
    decoded
}
