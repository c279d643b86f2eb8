//! What every request meets first: heads that mean different things to different readers are refused.

use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use axum::body::Body;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header,
};
use semel::wire;
use semel_http::BoxFuture;
use tower_service::Service;

use crate::problem::{Problem, Retry};

/// What the layer answers by; passed on as it is, since another box for each request would be waste.
type Answering = BoxFuture<'static, Result<Response<Body>, Infallible>>;

/// Checks a request's head before anything decides by it.
#[derive(Clone, Debug)]
pub(crate) struct Entry<S> {
    pub(crate) inner: S,
    /// The largest head, in bytes. The library's own bound is one of its buffer, and lets more pass.
    pub(crate) head_max: usize,
}

impl<S> Service<Request<Body>> for Entry<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future = Answering>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match refusal(&request, self.head_max) {
            Some(problem) => Box::pin(std::future::ready(Ok(problem.answer()))),
            None => self.inner.call(request),
        }
    }
}

const HEAD_TOO_LARGE: Problem = Problem {
    code: "head-too-large",
    status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    title: "The head of the request is too large",
    detail: "The target and the headers together have more bytes than this gateway takes.",
    retry: Retry::CorrectRequest,
    retry_after: None,
};

const HOST_NOT_ONE: Problem = Problem {
    code: "host-not-one",
    status: StatusCode::BAD_REQUEST,
    title: "The request does not name one host",
    detail: "A request names exactly one host.",
    retry: Retry::CorrectRequest,
    retry_after: None,
};

const PATH_NOT_NORMAL: Problem = Problem {
    code: "path-not-normal",
    status: StatusCode::BAD_REQUEST,
    title: "The path stands for another path",
    detail: "The path has a segment that is empty, `.` or `..`, a backslash or a NUL; send the path it stands for.",
    retry: Retry::CorrectRequest,
    retry_after: None,
};

const TARGET_FORM: Problem = Problem {
    code: "target-form",
    status: StatusCode::BAD_REQUEST,
    title: "The target of the request is no path",
    detail: "A target begins with a slash or a scheme; `*` goes with OPTIONS alone.",
    retry: Retry::CorrectRequest,
    retry_after: None,
};

const TRANSFER_CODING: Problem = Problem {
    code: "transfer-coding",
    status: StatusCode::NOT_IMPLEMENTED,
    title: "The body has a transfer coding that is not known here",
    detail: "No transfer coding but `chunked` is taken; say a compression by Content-Encoding.",
    retry: Retry::CorrectRequest,
    retry_after: None,
};

/// Says why a request is refused.
fn refusal<B>(request: &Request<B>, head_max: usize) -> Option<Problem> {
    if head_bytes(request) > head_max {
        return Some(HEAD_TOO_LARGE);
    }
    let hosts = request.headers().get_all(header::HOST).iter().count();
    if hosts > 1 || (hosts == 0 && request.version() == Version::HTTP_11) {
        return Some(HOST_NOT_ONE);
    }
    if !has_form_of_target(request.method(), request.uri()) {
        return Some(TARGET_FORM);
    }
    if !is_chunked_at_most(request.headers()) {
        return Some(TRANSFER_CODING);
    }
    stands_for_another(request.uri().path()).then_some(PATH_NOT_NORMAL)
}

/// Returns how long a head is as it is written, but for what may be left out.
fn head_bytes<B>(request: &Request<B>) -> usize {
    let uri = request.uri();
    let target = uri.authority().map_or(0, |authority| authority.as_str().len())
        + uri.path_and_query().map_or(0, |path| path.as_str().len());
    // A colon, a blank and the end of the line.
    let line = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + 4;
    target + request.headers().iter().map(line).sum::<usize>()
}

/// Says whether the target is written in a form that goes with the method: what names no path has none
/// to recognise an operation by, and would reach the upstream with one.
fn has_form_of_target(method: &Method, uri: &Uri) -> bool {
    if *method == Method::CONNECT {
        return true;
    }
    match uri.path() {
        "*" => *method == Method::OPTIONS,
        path => path.starts_with('/'),
    }
}

/// Says whether no transfer coding but `chunked` lies on the body: the others are not undone here, and
/// are not named to the upstream.
fn is_chunked_at_most(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(header::TRANSFER_ENCODING).iter();
    lines.all(|line| line.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"))
}

/// Says whether a path is one that another reader would resolve to another path, and so to another
/// operation. What lies below the layer's own prefix never goes to another reader.
fn stands_for_another(path: &str) -> bool {
    let Some(below) = path.strip_prefix('/').filter(|_| !path.starts_with(wire::STATUS_PREFIX))
    else {
        return false;
    };
    has_empty_segment(below) || (below.contains(['.', '%', '\\']) && has_dot_segment(below))
}

/// Says whether a segment is empty, or would be without its parameters. A trailing slash makes none.
fn has_empty_segment(below: &str) -> bool {
    let whole = below.strip_suffix('/').unwrap_or(below);
    let is_empty = |segment: &str| segment.is_empty() || segment.starts_with(';');
    !below.is_empty() && whole.split('/').any(is_empty)
}

/// Says whether there is a backslash, a NUL or a dot segment. Servers differ in what parts a dot
/// segment from its neighbours, so that everything counts that does for one of them.
fn has_dot_segment(below: &str) -> bool {
    let plain = below.to_ascii_lowercase().replace("%2e", ".").replace("%3b", ";");
    let plain = plain.replace("%2f", "/").replace("%5c", "/");
    plain.contains('\\')
        || plain.contains("%00")
        || plain.split(['/', ';']).any(|segment| matches!(segment, "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_stands_for_another_is_refused() {
        for path in ["/a/../b", "/./a", "/a/..", "/a/%2e%2E/b", "/%2e"] {
            assert!(stands_for_another(path), "{path}");
        }
        for path in ["//a", "/a//", "/a//b", "//", "/;/a", "/;x=1/a", "/a\\b", "/a%00", "/\\a"] {
            assert!(stands_for_another(path), "{path}");
        }
        for path in ["/x/..%2fa", "/x/..;/a", "/x/..\\a", "/a%2f..%2fa", "/x/..%5Ca", "/x/..%3b/a"]
        {
            assert!(stands_for_another(path), "{path}");
        }
        for path in ["/a.b/c", "/...", "/a/..b", "/%2ewell-known", "/", "/a/", "/a%2fb", "/a;v=1/b"]
        {
            assert!(!stands_for_another(path), "{path}");
        }
        assert!(!stands_for_another("/.semel/intents/pay/a%2F..%2Fb"));
    }

    fn refused(method: &str, target: &str, headers: &[(&str, &str)]) -> Option<&'static str> {
        let builder = Request::builder().method(method).uri(target).header("host", "a");
        let builder = headers.iter().fold(builder, |b, (name, value)| b.header(*name, *value));
        refusal(&builder.body(()).unwrap(), 1024).map(|problem| problem.code)
    }

    #[test]
    fn a_target_that_names_no_path_goes_with_its_method_alone() {
        for target in ["*", "payments", "x:80"] {
            assert_eq!(refused("POST", target, &[]), Some("target-form"), "{target}");
        }
        assert_eq!(refused("OPTIONS", "*", &[]), None);
        assert_eq!(refused("CONNECT", "x:80", &[]), None);
        assert_eq!(refused("POST", "http://x/a", &[]), None);
        assert_eq!(refused("POST", "http://x//a", &[]), Some("path-not-normal"));
    }

    #[test]
    fn no_coding_of_the_transfer_but_chunked_is_taken() {
        let coded = |line| refused("POST", "/a", &[("transfer-encoding", line)]);
        assert_eq!(coded("gzip, chunked"), Some("transfer-coding"));
        assert_eq!(coded("Chunked"), None);
    }

    #[test]
    fn a_head_is_as_large_as_the_bound_at_most() {
        let padded = |bytes: usize| refused("GET", "/", &[("x", &"y".repeat(bytes))]);
        // The target, `host: a` and `x: ` with the ends of their lines.
        let rest = 1 + 9 + 5;
        assert_eq!(padded(1024 - rest), None);
        assert_eq!(padded(1025 - rest), Some("head-too-large"));
    }

    #[test]
    fn a_request_names_one_host() {
        let request = |hosts: &[&str]| {
            let builder = hosts.iter().fold(Request::builder(), |b, host| b.header("host", *host));
            builder.uri("/").body(()).unwrap()
        };
        assert!(refusal(&request(&["a"]), 1024).is_none());
        assert_eq!(refusal(&request(&[]), 1024).unwrap().code, "host-not-one");
        assert_eq!(refusal(&request(&["a", "b"]), 1024).unwrap().code, "host-not-one");
    }
}
