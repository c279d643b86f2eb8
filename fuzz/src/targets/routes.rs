//! Any texts as path templates, and one as a path: the template that is found is the most exact of those that match, by
//! a matcher of its own; no spelling of the path by escapes leads past it; and what is found is protected.
//!
//! The last line is the path, every other one a template.

use http::{Method, Request, Uri};
use semel_http::{Operations, RouteError};

use crate::{
    behind::{Behind, TENANT, operation},
    runtime,
};

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut templates: Vec<&str> = text.lines().collect();
    let Some(path) = templates.pop() else { return };
    templates.truncate(8);
    let made = || {
        let numbered = templates.iter().enumerate();
        numbered.map(|(at, text)| operation(&format!("op{at}")).on(Method::POST, *text))
    };
    let set = match Operations::new(made()) {
        Ok(set) => set,
        Err(RouteError::Ambiguous { first, second, .. }) => {
            assert!([first, second].iter().all(|text| templates.contains(&text.as_str())));
            return;
        }
        Err(RouteError::Template { template, why }) => {
            assert!(!is_template(&template), "{template:?} is refused: it {why}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    assert!(templates.iter().all(|template| is_template(template)), "{templates:?}");
    let found = |path: &str| set.find(&Method::POST, path).map(|met| met.template.to_owned());
    let wanted = templates.iter().filter(|template| matches(template, path)).max_by_key(exactness);
    let met = found(path);
    assert_eq!(met.as_deref(), wanted.copied(), "{path:?} in {templates:?}");
    assert!(set.find(&Method::GET, path).is_none());
    if !path.contains('%') {
        assert_eq!(found(&escaped(path)), met, "{path:?} is no other path by its spelling");
    }
    if path.parse::<Uri>().is_ok_and(|uri| uri.path() == path && uri.query().is_none()) {
        let behind = Behind::with(made(), |layer| layer.status_endpoint(false)).expect("a set");
        runtime(protected(&behind, path, met.is_some()));
    }
}

async fn protected(behind: &Behind, path: &str, is_operation: bool) {
    let request = || Request::post(path).header(TENANT, "t").header("idempotency-key", "k");
    let first = behind.send(request(), b"").await.expect("a request").answered;
    let again = behind.send(request(), b"").await.expect("a request").answered;
    assert_eq!((first.effects, again.replayed), (1, is_operation), "{path}");
    assert_eq!(again.effects, if is_operation { 1 } else { 2 }, "{path}");
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').skip(1)
}

/// Whether a segment is `{name}` or `{*name}`, and which.
fn placeholder(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}

fn is_template(text: &str) -> bool {
    let segments: Vec<_> = parts(text).collect();
    let last = segments.len().saturating_sub(1);
    let fits = |(at, segment): (usize, &&str)| match placeholder(segment) {
        Some(name) => {
            let plain = name.strip_prefix('*').unwrap_or(name);
            let named = !plain.is_empty()
                && plain.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
            named && (at == last || !name.starts_with('*'))
        }
        None => !segment.contains(['{', '}', '?', '#', '*', '%']),
    };
    text.starts_with('/') && segments.iter().enumerate().all(fits)
}

fn matches(template: &str, path: &str) -> bool {
    if !path.starts_with('/') {
        return false;
    }
    let mut rest = parts(path);
    for segment in parts(template) {
        let Some(part) = rest.next() else { return false };
        let fits = match placeholder(segment) {
            Some(name) if name.starts_with('*') => {
                return !part.is_empty() || rest.next().is_some();
            }
            Some(_) => !part.is_empty(),
            None => segment == decoded(part),
        };
        if !fits {
            return false;
        }
    }
    rest.next().is_none()
}

/// Orders templates by their first segment that is more exact.
fn exactness(template: &&&str) -> Vec<u8> {
    let rank = |segment: &str| match placeholder(segment) {
        Some(name) if name.starts_with('*') => 0,
        Some(_) => 1,
        None => 2,
    };
    parts(template).map(rank).collect()
}

fn decoded(part: &str) -> String {
    let bytes = part.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let pair = bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let pair = pair.filter(|pair| pair.iter().all(u8::is_ascii_hexdigit));
        let pair = pair.and_then(|pair| std::str::from_utf8(pair).ok());
        match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Writes every byte of every segment as an escape.
fn escaped(path: &str) -> String {
    let byte = |byte: u8| if byte == b'/' { "/".to_owned() } else { format!("%{byte:02x}") };
    path.bytes().map(byte).collect()
}
