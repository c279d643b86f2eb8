//! What a browser must be told so that a script of another origin can send a key and read a replay.
//!
//! The layer stands behind the layer that answers preflights, or in front of it: a preflight passes
//! untouched. Give that layer the names below.
//!
//! ```
//! use semel_http::cors;
//! assert!(cors::ALLOW_HEADERS.contains(&"idempotency-key"));
//! assert!(cors::EXPOSE_HEADERS.contains(&"idempotent-replayed"));
//! ```

use http::{
    HeaderMap, HeaderValue, Method, Request,
    header::{ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN},
};
use semel::wire;

/// The request headers to allow (`Access-Control-Allow-Headers`); with the name of the operation's own
/// key header, if it has another.
pub const ALLOW_HEADERS: &[&str] = &[wire::IDEMPOTENCY_KEY];

/// The response headers to expose (`Access-Control-Expose-Headers`). `expose_headers` of the layer
/// adds them by itself.
pub const EXPOSE_HEADERS: &[&str] = &[wire::IDEMPOTENT_REPLAYED, "retry-after", "location"];

/// Says whether a request only asks what may be sent.
pub(crate) fn is_preflight<B>(request: &Request<B>) -> bool {
    *request.method() == Method::OPTIONS
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Says whether a script asks.
pub(crate) fn is_scripted(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN)
}

/// Lets scripts read Semel's headers, beside what is exposed already.
pub(crate) fn expose(headers: &mut HeaderMap) {
    let names = EXPOSE_HEADERS.join(", ");
    if let Ok(names) = HeaderValue::from_str(&names) {
        headers.append(ACCESS_CONTROL_EXPOSE_HEADERS, names);
    }
}
