//! Asks an endpoint whether a caller may still see what is kept.
//!
//! The endpoint gets a GET with the head of the original request and no body. 2xx allows; 401 and 403
//! are passed on to the client as they are; anything else, and no answer in time, refuses with 503.

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header,
    request::Parts, uri::PathAndQuery,
};
use http_body_util::{BodyExt as _, Limited};
use semel::Clock;
use semel_http::{Authorize, BoxFuture};
use tokio::time::timeout;

use crate::{
    problem::{Problem, Retry},
    proxy::{self, Upstream, UpstreamError},
    settings::AuthSettings,
};

/// The largest body of a refusal that is passed on, in bytes.
const REFUSAL_MAX: usize = 64 * 1024;

/// What is said of the request that is asked about.
const ORIGINAL_METHOD: HeaderName = HeaderName::from_static("x-original-method");
const ORIGINAL_URI: HeaderName = HeaderName::from_static("x-original-uri");

/// Asks an endpoint.
#[derive(Debug)]
pub(crate) struct AuthRequest {
    upstream: Arc<Upstream>,
    path: http::Uri,
    wait: Duration,
    without: Vec<HeaderName>,
}

impl AuthRequest {
    pub(crate) fn new(
        mut settings: AuthSettings,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, UpstreamError> {
        let url = settings.upstream.url.clone();
        let mut parts = url.into_parts();
        let path = parts.path_and_query.replace(PathAndQuery::from_static("/"));
        let path = path.map_or_else(http::Uri::default, http::Uri::from);
        if let Ok(origin) = http::Uri::from_parts(parts) {
            settings.upstream.url = origin;
        }
        let AuthSettings { upstream, wait, without } = settings;
        let upstream = Arc::new(Upstream::new(upstream, clock)?);
        Ok(Self { upstream, path, wait, without })
    }

    pub(crate) const fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }

    async fn ask(&self, request: Request<Body>) -> Result<(), Response<Body>> {
        let asked = async {
            let answer = proxy::ask(&self.upstream, request).await.ok()?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, REFUSAL_MAX).collect().await.ok()?.to_bytes();
            Some((head, body))
        };
        let Ok(Some((head, body))) = timeout(self.wait, asked).await else { return Err(away()) };
        match head.status {
            status if status.is_success() => Ok(()),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(refusal(&head, body)),
            status => {
                tracing::warn!(%status, "the endpoint that authorises replays gave no clear answer");
                Err(away())
            }
        }
    }

    fn request(&self, parts: &Parts) -> Request<Body> {
        let mut headers = parts.headers.clone();
        proxy::strip_hop_by_hop(&mut headers, &[]);
        for name in [header::CONTENT_LENGTH, header::CONTENT_TYPE, header::CONTENT_ENCODING] {
            headers.remove(name);
        }
        // A range or a condition would be about another resource.
        for name in [header::EXPECT, header::RANGE, header::IF_MATCH, header::IF_NONE_MATCH] {
            headers.remove(name);
        }
        for name in &self.without {
            headers.remove(name);
        }
        headers.insert(ORIGINAL_METHOD, text(parts.method.as_str()));
        let uri = parts.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        headers.insert(ORIGINAL_URI, text(uri));
        headers.insert(header::HOST, self.upstream.authority().clone());
        let mut request = Request::new(Body::empty());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = self.path.clone();
        *request.headers_mut() = headers;
        request
    }
}

impl Authorize for AuthRequest {
    fn authorize<'a>(&'a self, parts: &'a Parts) -> BoxFuture<'a, Result<(), Response<Body>>> {
        let request = self.request(parts);
        Box::pin(self.ask(request))
    }
}

fn text(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Makes the refusal that is passed on: its status, its body, and what a client needs to sign in.
fn refusal(head: &http::response::Parts, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = head.status;
    let mut headers = HeaderMap::new();
    for name in [header::WWW_AUTHENTICATE, header::CONTENT_TYPE, header::CACHE_CONTROL] {
        for value in head.headers.get_all(&name) {
            headers.append(name.clone(), value.clone());
        }
    }
    *response.headers_mut() = headers;
    response
}

fn away() -> Response<Body> {
    let problem = Problem {
        code: "authorization-away",
        status: StatusCode::SERVICE_UNAVAILABLE,
        title: "Nobody can say whether this may be shown",
        detail: "The endpoint that says so gave no clear answer. Nothing was run.",
        retry: Retry::SameKey,
        retry_after: Some(Duration::from_secs(1)),
    };
    problem.answer()
}
