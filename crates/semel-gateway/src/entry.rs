//! What every request meets first: heads that mean different things to different readers are refused.

use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use axum::body::Body;
use http::{Request, Response, StatusCode, Version, header};
use semel_http::BoxFuture;
use tower_service::Service;

use crate::problem::{Problem, Retry};

/// What the layer answers by; passed on as it is, since another box for each request would be waste.
type Answering = BoxFuture<'static, Result<Response<Body>, Infallible>>;

/// Checks a request's head before anything decides by it.
#[derive(Clone, Debug)]
pub(crate) struct Entry<S>(pub(crate) S);

impl<S> Service<Request<Body>> for Entry<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future = Answering>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match refusal(&request) {
            Some(problem) => Box::pin(std::future::ready(Ok(problem.answer()))),
            None => self.0.call(request),
        }
    }
}

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
    detail: "The path has a segment `.` or `..`; send the path it stands for.",
    retry: Retry::CorrectRequest,
    retry_after: None,
};

/// Says why a request is refused.
fn refusal<B>(request: &Request<B>) -> Option<Problem> {
    let hosts = request.headers().get_all(header::HOST).iter().count();
    if hosts > 1 || (hosts == 0 && request.version() == Version::HTTP_11) {
        return Some(HOST_NOT_ONE);
    }
    has_dot_segment(request.uri().path()).then_some(PATH_NOT_NORMAL)
}

/// Says whether a path has a segment that another reader would resolve to another path, and so to
/// another operation.
fn has_dot_segment(path: &str) -> bool {
    path.contains(['.', '%'])
        && path.split('/').any(|segment| {
            let plain = segment.to_ascii_lowercase().replace("%2e", ".");
            plain == "." || plain == ".."
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_stands_for_another_is_refused() {
        for path in ["/a/../b", "/./a", "/a/..", "/a/%2e%2E/b", "/%2e"] {
            assert!(has_dot_segment(path), "{path}");
        }
        for path in ["/a.b/c", "/...", "/a/..b", "/%2ewell-known", "/"] {
            assert!(!has_dot_segment(path), "{path}");
        }
    }

    #[test]
    fn a_request_names_one_host() {
        let request = |hosts: &[&str]| {
            let builder = hosts.iter().fold(Request::builder(), |b, host| b.header("host", *host));
            builder.uri("/").body(()).unwrap()
        };
        assert!(refusal(&request(&["a"])).is_none());
        assert_eq!(refusal(&request(&[])).unwrap().code, "host-not-one");
        assert_eq!(refusal(&request(&["a", "b"])).unwrap().code, "host-not-one");
    }
}
