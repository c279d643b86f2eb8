//! What is sent of an event.

use std::fmt::Write as _;

use axum::body::Body;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header, uri::PathAndQuery};
use semel::{outbox::Event, wire};

use super::PublisherError;

/// Headers that say how a message is sent: nobody sets them.
const FRAMING: [HeaderName; 11] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::HOST,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static(wire::IDEMPOTENCY_KEY),
];

/// Headers that say who sends: no event sets them.
const CREDENTIALS: [HeaderName; 3] =
    [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION];

/// Says whether a header cannot be the same in all requests.
pub(super) fn is_taken(name: &HeaderName) -> bool {
    FRAMING.contains(name)
        || *name == header::CONTENT_TYPE
        || name.as_str().starts_with(wire::CE_PREFIX)
}

/// What all requests have in common.
#[derive(Debug)]
pub(super) struct Template {
    target: PathAndQuery,
    host: HeaderValue,
    content_type: HeaderValue,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Template {
    pub(super) fn new(
        url: &Uri,
        content_type: HeaderValue,
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> Result<Self, PublisherError> {
        let authority = url.authority().map(http::uri::Authority::as_str).unwrap_or_default();
        let host = HeaderValue::from_str(authority)
            .map_err(|_| PublisherError::Url { reason: "its host cannot be sent in a header" })?;
        let target = url.path_and_query().cloned().filter(|target| target.as_str() != "");
        let target = target.unwrap_or_else(|| PathAndQuery::from_static("/"));
        Ok(Self { target, host, content_type, headers })
    }

    /// Makes the request of an event, or says why it cannot be sent by HTTP.
    pub(super) fn request(&self, event: &Event) -> Result<Request<Body>, Box<str>> {
        let mut headers = HeaderMap::new();
        own(&mut headers, event)?;
        named(&mut headers, event);
        match &event.payload {
            None => drop(headers.remove(header::CONTENT_TYPE)),
            Some(_) if headers.contains_key(header::CONTENT_TYPE) => {}
            Some(_) => drop(headers.insert(header::CONTENT_TYPE, self.content_type.clone())),
        }
        for (name, value) in &self.headers {
            headers.insert(name.clone(), value.clone());
        }
        headers.insert(header::HOST, self.host.clone());
        let mut request = Request::new(Body::from(event.payload.clone().unwrap_or_default()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from(self.target.clone());
        *request.headers_mut() = headers;
        Ok(request)
    }
}

/// Adds the event's own headers, as they are.
fn own(headers: &mut HeaderMap, event: &Event) -> Result<(), Box<str>> {
    let unfit = || -> Box<str> { "a header of the event cannot be sent by HTTP".into() };
    for (name, value) in &event.headers {
        let mut name: HeaderName = name.parse().map_err(|_| unfit())?;
        let not_its_own = FRAMING.contains(&name)
            || CREDENTIALS.contains(&name)
            || [wire::CE_PREFIX, wire::SEMEL_PREFIX].iter().any(|p| name.as_str().starts_with(p));
        if not_its_own {
            name = format!("{}{name}", wire::EVENT_PREFIX).parse().map_err(|_| unfit())?;
        }
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).map_err(|_| unfit())?);
    }
    Ok(())
}

/// Adds what names the event.
fn named(headers: &mut HeaderMap, event: &Event) {
    let mut set = |name: &'static str, value: &str| {
        headers.insert(HeaderName::from_static(name), encoded(value));
    };
    let id = event.id.to_string();
    set(wire::IDEMPOTENCY_KEY, &id);
    set(wire::CE_ID, &id);
    set(wire::CE_SPECVERSION, "1.0");
    set(wire::CE_SOURCE, event.lane.kind());
    set(wire::CE_SUBJECT, event.lane.id());
    set(wire::CE_TYPE, &event.kind);
    if let Some(version) = event.version {
        set(wire::CE_VERSION, &version.to_string());
    }
    if let Some(trace) = &event.trace {
        set(wire::TRACEPARENT, trace);
    }
}

/// Encodes a value as CloudEvents does: the header then holds printable ASCII only.
fn encoded(value: &str) -> HeaderValue {
    let plain = |c: char| matches!(c, '!'..='~') && !matches!(c, '"' | '%');
    if value.chars().all(plain) {
        return HeaderValue::from_str(value).unwrap_or_else(|_| HeaderValue::from_static(""));
    }
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        if plain(c) {
            text.push(c);
            continue;
        }
        for byte in c.encode_utf8(&mut [0; 4]).bytes() {
            let _infallible = write!(text, "%{byte:02X}");
        }
    }
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
}
