//! What the gateway itself says to a client, as problem documents (RFC 9457).

use std::time::Duration;

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header};
use semel::wire;
use serde_json::json;

/// What the client does next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Retry {
    CorrectRequest,
    Never,
    SameKey,
    Wait,
}

impl Retry {
    const fn as_str(self) -> &'static str {
        match self {
            Self::CorrectRequest => "correct-request",
            Self::Never => "do-not-retry",
            Self::SameKey => "same-key",
            Self::Wait => "wait",
        }
    }
}

/// The code of a problem, in the extensions of the answer that carries it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Code(pub(crate) &'static str);

/// One problem.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Problem {
    pub(crate) code: &'static str,
    pub(crate) status: StatusCode,
    pub(crate) title: &'static str,
    pub(crate) detail: &'static str,
    pub(crate) retry: Retry,
    pub(crate) retry_after: Option<Duration>,
}

impl Problem {
    /// Makes the answer that carries it.
    pub(crate) fn answer(self) -> Response<Body> {
        let body = json!({
            "type": format!("{}{}", wire::PROBLEM_TYPE_PREFIX, self.code),
            "title": self.title,
            "status": self.status.as_u16(),
            "detail": self.detail,
            "code": self.code,
            "retry": self.retry.as_str(),
        });
        let mut response = Response::new(Body::from(body.to_string()));
        *response.status_mut() = self.status;
        response.extensions_mut().insert(Code(self.code));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(wire::PROBLEM_JSON));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(after) = self.retry_after {
            // Rounded up: whoever comes back a moment too early meets the same.
            let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
