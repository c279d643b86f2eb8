//! What a proxy may pass on of a message's head, and what it says about the way the message took.

use std::net::{IpAddr, SocketAddr};

use http::{
    HeaderMap, HeaderName, HeaderValue, Version,
    header::{
        CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, FORWARDED, HOST, PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION, SET_COOKIE, TE, TRANSFER_ENCODING, UPGRADE, VIA,
    },
};

use semel::{Permit, wire};
use semel_http::axum::Intent;

use crate::settings::Forwarded;

const ASK_FIRST: HeaderName = HeaderName::from_static(wire::SEMEL_ASK_FIRST);
const FENCE: HeaderName = HeaderName::from_static(wire::SEMEL_FENCE);
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PERMIT: HeaderName = HeaderName::from_static(wire::SEMEL_PERMIT);
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// What `Connection` may not name: a client must not be able to take from a request what the
/// upstream, or this gateway, decides by.
const NEVER_BY_NAME: [HeaderName; 8] = [
    http::header::AUTHORIZATION,
    CONTENT_LENGTH,
    COOKIE,
    FORWARDED,
    FORWARDED_FOR,
    HOST,
    SET_COOKIE,
    VIA,
];

/// Removes what is meant for one connection alone. `keys` name the headers that carry keys: nothing
/// removes those.
pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap, keys: &[HeaderName]) {
    if headers.contains_key(CONNECTION) {
        let named: Vec<_> = headers
            .get_all(CONNECTION)
            .iter()
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| line.split(','))
            .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
            .filter(|name| !NEVER_BY_NAME.contains(name) && !keys.contains(name))
            .collect();
        for name in named {
            headers.remove(name);
        }
        headers.remove(CONNECTION);
    }
    for name in [
        KEEP_ALIVE,
        PROXY_CONNECTION,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
        TE,
        TRANSFER_ENCODING,
        UPGRADE,
    ] {
        headers.remove(name);
    }
}

/// Removes what only Semel may say: an upstream that is not trusted must not say it.
pub(super) fn strip_own(headers: &mut HeaderMap) {
    let own: Vec<_> = headers
        .keys()
        .filter(|name| name.as_str().starts_with(wire::SEMEL_PREFIX))
        .cloned()
        .collect();
    for name in own {
        headers.remove(name);
    }
}

/// Says how long a request's body is in the way its length is known here.
pub(super) fn frame(headers: &mut HeaderMap, body: &axum::body::Body) {
    use http_body::Body as _;
    // An expectation was met by whoever read the body.
    headers.remove(EXPECT);
    if body.is_end_stream() {
        // Only what the client said of a body that is empty: a GET says nothing.
        if headers.contains_key(CONTENT_LENGTH) {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(0));
        }
        return;
    }
    headers.remove(CONTENT_LENGTH);
    match body.size_hint().exact() {
        Some(bytes) => headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes)),
        // Without a word on it, a GET's body would be dropped.
        None => headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked")),
    };
}

/// A client's address, as headers tell it.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    plain: HeaderValue,
    ip: IpAddr,
}

impl Told {
    pub(crate) fn of(address: SocketAddr) -> Self {
        let ip = address.ip().to_canonical();
        let plain = HeaderValue::try_from(ip.to_string());
        Self { plain: plain.unwrap_or_else(|_| HeaderValue::from_static("unknown")), ip }
    }
}

/// Where a request came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin<'a> {
    pub(super) address: Option<&'a Told>,
    pub(super) encrypted: bool,
}

/// Tells the upstream where the request came from.
pub(super) fn tell_origin(headers: &mut HeaderMap, origin: Origin<'_>, believed: Forwarded) {
    if believed == Forwarded::Replace {
        for name in [FORWARDED_FOR, FORWARDED_HOST, FORWARDED_PROTO, FORWARDED] {
            headers.remove(name);
        }
    }
    let scheme = if origin.encrypted { "https" } else { "http" };
    if let Some(told) = origin.address {
        if headers.contains_key(FORWARDED_FOR) {
            append(headers, FORWARDED_FOR, &told.ip.to_string());
        } else {
            headers.insert(FORWARDED_FOR, told.plain.clone());
        }
        if headers.contains_key(FORWARDED) {
            let ip = told.ip;
            let node = if ip.is_ipv6() { format!("\"[{ip}]\"") } else { ip.to_string() };
            append(headers, FORWARDED, &format!("for={node};proto={scheme}"));
        }
    }
    headers.entry(FORWARDED_PROTO).or_insert(HeaderValue::from_static(scheme));
    if let Some(host) = headers.get(HOST).cloned() {
        headers.entry(FORWARDED_HOST).or_insert(host);
    }
}

/// Tells the upstream of the claim: the fence, by which it can refuse a holder that was overtaken, and
/// whether it should find out first what an earlier holder did.
pub(super) fn tell_claim(headers: &mut HeaderMap, intent: &Intent) {
    headers.insert(FENCE, HeaderValue::from(intent.held.permit().fence.get()));
    if intent.ask_first {
        headers.insert(ASK_FIRST, HeaderValue::from_static("true"));
    }
}

/// Hands the permit on to an application that completes in its own transaction. The value is marked, so
/// that nothing prints it.
pub(super) fn tell_permit(headers: &mut HeaderMap, permit: &Permit) {
    if let Ok(mut value) = HeaderValue::try_from(semel::permit::encode(permit)) {
        value.set_sensitive(true);
        headers.insert(PERMIT, value);
    }
}

/// Adds this gateway to the proxies a message went through.
pub(super) fn tell_way(headers: &mut HeaderMap, version: Version) {
    if version == Version::HTTP_11 && !headers.contains_key(VIA) {
        headers.insert(VIA, HeaderValue::from_static("1.1 semel"));
        return;
    }
    let version = match version {
        Version::HTTP_09 => "0.9",
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        _ => "1.1",
    };
    append(headers, VIA, &format!("{version} semel"));
}

fn append(headers: &mut HeaderMap, name: HeaderName, element: &str) {
    let whole = match joined(headers, &name) {
        Some(before) => format!("{before}, {element}"),
        None => element.to_owned(),
    };
    if let Ok(value) = HeaderValue::try_from(whole) {
        headers.insert(name, value);
    }
}

/// Joins the lines of a list header; nothing if there is none that can be read.
fn joined(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let lines: Vec<_> =
        headers.get_all(name).iter().filter_map(|line| line.to_str().ok()).collect();
    (!lines.is_empty()).then(|| lines.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn names(headers: &HeaderMap) -> Vec<&str> {
        headers.keys().map(HeaderName::as_str).collect()
    }

    #[test]
    fn what_is_meant_for_one_connection_is_removed_by_list_and_by_name() {
        let mut headers = map(&[
            ("connection", "close, X-One"),
            ("connection", "x-two"),
            ("x-one", "1"),
            ("x-two", "2"),
            ("x-three", "3"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("proxy-authorization", "secret"),
        ]);
        strip_hop_by_hop(&mut headers, &[]);
        assert_eq!(names(&headers), ["x-three"]);
    }

    #[test]
    fn a_client_cannot_take_the_key_or_the_credentials_out_by_naming_them() {
        let key = HeaderName::from_static("my-key");
        let mut headers = map(&[
            ("connection", "my-key, authorization, cookie, host, content-length"),
            ("my-key", "k"),
            ("authorization", "a"),
            ("cookie", "c"),
            ("host", "h"),
        ]);
        strip_hop_by_hop(&mut headers, &[key]);
        assert_eq!(headers.len(), 4);
    }

    fn told(lines: &[(&'static str, &'static str)], believed: Forwarded) -> HeaderMap {
        let mut headers = map(lines);
        let told = Told::of("192.0.2.7:1000".parse().unwrap());
        let origin = Origin { address: Some(&told), encrypted: true };
        tell_origin(&mut headers, origin, believed);
        headers
    }

    #[test]
    fn what_a_stranger_says_of_its_way_is_replaced() {
        let lines = [
            ("host", "shop.example"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-proto", "http"),
            ("forwarded", "for=10.0.0.1"),
        ];
        let headers = told(&lines, Forwarded::Replace);
        assert_eq!(headers["x-forwarded-for"], "192.0.2.7");
        assert_eq!(headers["x-forwarded-proto"], "https");
        assert_eq!(headers["x-forwarded-host"], "shop.example");
        assert!(!headers.contains_key("forwarded"));
    }

    #[test]
    fn what_a_proxy_of_ones_own_says_is_kept_and_added_to() {
        let lines = [
            ("host", "inner"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-for", "10.0.0.2"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-host", "shop.example"),
            ("forwarded", "for=10.0.0.1"),
        ];
        let headers = told(&lines, Forwarded::Append);
        assert_eq!(headers["x-forwarded-for"], "10.0.0.1, 10.0.0.2, 192.0.2.7");
        assert_eq!(headers["x-forwarded-proto"], "http");
        assert_eq!(headers["x-forwarded-host"], "shop.example");
        assert_eq!(headers["forwarded"], "for=10.0.0.1, for=192.0.2.7;proto=https");
    }

    #[test]
    fn the_gateway_adds_itself_to_the_way() {
        let mut headers = map(&[("via", "1.0 edge")]);
        tell_way(&mut headers, Version::HTTP_11);
        assert_eq!(headers["via"], "1.0 edge, 1.1 semel");
    }

    #[test]
    fn a_body_of_unknown_length_is_chunked_and_an_empty_one_says_nothing_new() {
        let mut headers = map(&[("expect", "100-continue")]);
        frame(&mut headers, &axum::body::Body::empty());
        assert!(headers.is_empty());
        let mut headers = map(&[("content-length", "0")]);
        frame(&mut headers, &axum::body::Body::empty());
        assert_eq!(headers["content-length"], "0");
        let mut headers = map(&[]);
        frame(&mut headers, &axum::body::Body::from("four"));
        assert_eq!(headers["content-length"], "4");
    }
}
