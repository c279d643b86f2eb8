//! Keeping an answer: which headers, and where the resource lives.
//!
//! A body is kept if it ends within a bound of size and time, and without trailers. Else the head
//! alone is kept.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION, SET_COOKIE},
    response,
};
use semel::{
    IntentId, Outcome,
    outcome::{Body as Kept, Header, Pointer},
    wire,
};
use thiserror::Error;

use crate::header;

/// The headers that are kept unless a rule says otherwise. What a browser needs to read an answer
/// across origins is among them: without it a replay could not be read.
pub const KEPT_HEADERS: &[&str] = &[
    "accept-patch",
    "accept-post",
    "access-control-allow-credentials",
    "access-control-allow-origin",
    "access-control-expose-headers",
    "allow",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-location",
    "content-type",
    "deprecation",
    "etag",
    "expires",
    "last-modified",
    "link",
    "location",
    "preference-applied",
    "retry-after",
    "sunset",
    "vary",
];

/// The headers that no rule can keep: each is true of one message alone.
const NEVER_KEPT: &[&str] = &[
    "age",
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    wire::IDEMPOTENT_REPLAYED,
];

/// Says whether a kept header must not be sent again: an application that stores its outcome by itself
/// may have kept what is true of one message alone. The length of a body that is not there may be.
pub(crate) fn is_never_sent(name: &HeaderName) -> bool {
    *name != CONTENT_LENGTH
        && (NEVER_KEPT.contains(&name.as_str()) || name.as_str().starts_with(wire::SEMEL_PREFIX))
}

/// The name of the intent that a request runs, in the extensions of the request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IntentName(pub IntentId);

/// The mark of a request whose operation is bridged, in its extensions: the handler, or the application
/// behind it, ends the run by itself, in its own transaction, by the permit of [`semel::Held`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bridged;

/// The resource that a handler made, in the extensions of its response.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Resource {
    /// What kind of resource, such as `payment`.
    pub kind: Box<str>,
    /// Its id.
    pub id: Box<str>,
}

impl Resource {
    /// Names a resource.
    #[must_use]
    pub fn new(kind: impl Into<Box<str>>, id: impl Into<Box<str>>) -> Self {
        Self { kind: kind.into(), id: id.into() }
    }

    /// Reads the value of the header `Semel-Pointer`: `kind/id`.
    fn from_header(value: &HeaderValue) -> Option<Self> {
        let (kind, id) = value.to_str().ok()?.trim().split_once('/')?;
        (!kind.is_empty() && !id.is_empty()).then(|| Self::new(kind, id))
    }
}

/// Where the pointer to the resource comes from, if the handler does not name it by a [`Resource`] or
/// the header `Semel-Pointer`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum PointerRule {
    /// From the JSON body of a success, by a JSON Pointer to a string or a number.
    Body {
        /// What kind of resource.
        kind: Box<str>,
        /// The JSON Pointer, such as `/id`.
        pointer: Box<str>,
    },
    /// From the `Location` header.
    Location {
        /// What kind of resource.
        kind: Box<str>,
    },
    /// From nowhere else.
    #[default]
    Named,
}

impl PointerRule {
    fn find(&self, head: &response::Parts, body: &Kept) -> Option<Pointer> {
        let (kind, id): (_, Box<str>) = match self {
            Self::Body { kind, pointer } => match (body, head.status.is_success()) {
                (Kept::Kept(bytes), true) => (kind, at(bytes, pointer)?.into()),
                _ => return None,
            },
            Self::Location { kind } => (kind, head.headers.get(LOCATION)?.to_str().ok()?.into()),
            Self::Named => return None,
        };
        Some(Pointer { kind: kind.clone(), id })
    }
}

/// Says why a header cannot be kept.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("the header {name} cannot be kept: {why}")]
pub struct HeaderRuleError {
    /// The header.
    pub name: String,
    /// Why.
    pub why: &'static str,
}

/// Which headers of an answer are kept and replayed: [`KEPT_HEADERS`], with more or fewer.
///
/// Never kept are headers of the message or the connection, such as `Date`, and those of Semel;
/// `Content-Length` is computed anew.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HeaderRules {
    more: BTreeSet<String>,
    less: BTreeSet<String>,
    cookies: bool,
}

impl HeaderRules {
    /// Makes the default rules.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps one more header.
    #[must_use]
    pub fn keep(mut self, name: &HeaderName) -> Self {
        self.less.remove(name.as_str());
        self.more.insert(name.as_str().to_owned());
        self
    }

    /// Keeps one header less.
    #[must_use]
    pub fn drop(mut self, name: &HeaderName) -> Self {
        self.more.remove(name.as_str());
        self.less.insert(name.as_str().to_owned());
        self
    }

    /// Keeps `Set-Cookie` lines, byte for byte. Without this they are dropped whole: an attribute is
    /// never changed.
    #[must_use]
    pub const fn cookies(mut self, on: bool) -> Self {
        self.cookies = on;
        self
    }

    pub(crate) fn check(&self) -> Result<(), HeaderRuleError> {
        let bad = |name: &&String| {
            NEVER_KEPT.contains(&name.as_str()) || name.starts_with(wire::SEMEL_PREFIX)
        };
        if let Some(name) = self.more.iter().find(bad) {
            let why = "it is true of one message alone";
            return Err(HeaderRuleError { name: name.clone(), why });
        }
        if self.more.contains(SET_COOKIE.as_str()) {
            let why = "cookies have a rule of their own";
            return Err(HeaderRuleError { name: SET_COOKIE.as_str().to_owned(), why });
        }
        Ok(())
    }

    fn keeps(&self, name: &HeaderName) -> bool {
        if *name == SET_COOKIE {
            return self.cookies;
        }
        let name = name.as_str();
        (KEPT_HEADERS.binary_search(&name).is_ok() && !self.less.contains(name))
            || self.more.contains(name)
    }

    fn kept(&self, headers: &HeaderMap) -> Vec<Header> {
        headers
            .iter()
            .filter(|(name, _)| self.keeps(name))
            .map(|(name, value)| Header {
                name: name.as_str().into(),
                value: Bytes::copy_from_slice(value.as_bytes()),
            })
            .collect()
    }
}

/// Makes the outcome of a head and of what is kept of the body.
pub(crate) fn outcome(
    head: &response::Parts,
    body: Kept,
    bodiless: bool,
    rules: &HeaderRules,
    pointer: &PointerRule,
) -> Outcome {
    let named = head.extensions.get::<Resource>().cloned();
    let named = named.or_else(|| Resource::from_header(head.headers.get(&header::POINTER)?));
    let pointer = match named {
        Some(Resource { kind, id }) => Some(Pointer { kind, id }),
        None => pointer.find(head, &body),
    };
    let mut headers = rules.kept(&head.headers);
    // Where there is no body the length says something that cannot be computed.
    if let Some(length) = head.headers.get(CONTENT_LENGTH).filter(|_| bodiless) {
        let value = Bytes::copy_from_slice(length.as_bytes());
        headers.push(Header { name: CONTENT_LENGTH.as_str().into(), value });
    }
    let outcome = Outcome { status: head.status.as_u16(), headers, body, pointer };
    within_bounds(outcome)
}

/// An outcome that breaks a bound could not be stored, and a run that was done would seem unknown:
/// then less is kept.
fn within_bounds(mut outcome: Outcome) -> Outcome {
    let longest = |p: &Pointer| p.kind.len().max(p.id.len());
    if outcome.pointer.as_ref().map_or(0, longest) > Outcome::POINTER_MAX {
        outcome.pointer = None;
    }
    if let Some(bound) = outcome.broken_bound() {
        tracing::warn!(bound, "an outcome breaks a bound, and only its status is kept");
        let pointer = outcome.pointer;
        outcome = Outcome { pointer, ..Outcome::without_body(outcome.status) };
    }
    outcome
}

/// Says whether an answer has no body by its status or the method it answers, whatever its length
/// says.
pub(crate) fn is_bodiless(status: StatusCode, is_head: bool) -> bool {
    is_head || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// Says whether an answer is a stream that need not end.
pub(crate) fn is_stream(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let essence = media_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    [&b"text/event-stream"[..], b"multipart/x-mixed-replace", b"application/grpc"]
        .iter()
        .any(|stream| essence.eq_ignore_ascii_case(stream))
}

fn at(bytes: &[u8], pointer: &str) -> Option<String> {
    let document: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    match document.pointer(pointer)? {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_headers_are_in_order_and_none_is_never_kept() {
        assert!(KEPT_HEADERS.is_sorted());
        assert!(KEPT_HEADERS.iter().all(|name| !NEVER_KEPT.contains(name)));
    }

    #[test]
    fn a_header_of_one_message_is_refused() {
        for name in ["date", "connection", "content-length", "semel-effect", "set-cookie"] {
            let rules = HeaderRules::new().keep(&HeaderName::from_static(name));
            assert!(rules.check().is_err(), "{name}");
        }
        assert!(HeaderRules::new().keep(&HeaderName::from_static("x-invoice")).check().is_ok());
    }

    #[test]
    fn an_outcome_that_breaks_a_bound_keeps_less_instead_of_nothing() {
        let mut response = http::Response::new(());
        for _ in 0..300 {
            response.headers_mut().append("link", HeaderValue::from_static("<a>"));
        }
        response.extensions_mut().insert(Resource::new("payment", "7"));
        let head = response.into_parts().0;
        let body = Kept::Kept(Bytes::from_static(b"x"));
        let kept = outcome(&head, body, false, &HeaderRules::new(), &PointerRule::Named);
        assert_eq!(kept.broken_bound(), None);
        assert_eq!((kept.status, kept.body), (200, Kept::NotKept));
        assert_eq!(kept.pointer.map(|p| p.id), Some("7".into()));
    }
}
