//! The listener for operators and probes: health, readiness, metrics.

mod health;
mod metrics;

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::body::Body;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use semel::Engine;
use semel_http::BoxFuture;
use std::task::{Context, Poll};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower_service::Service;

use crate::{listener::Listener, proxy::Upstream, settings::ListenerLimits};

/// How many operators and probes may be connected at once.
const CONNECTIONS_MAX: usize = 64;

/// Answers operators and probes. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Admin {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    engine: Engine,
    upstreams: Vec<Arc<Upstream>>,
    connections: TaskTracker,
    closing: CancellationToken,
    ready_wait: Duration,
}

impl Admin {
    pub(crate) fn new(
        engine: Engine,
        upstreams: Vec<Arc<Upstream>>,
        connections: TaskTracker,
        closing: CancellationToken,
        ready_wait: Duration,
    ) -> Self {
        let shared = Shared { engine, upstreams, connections, closing, ready_wait };
        Self { shared: Arc::new(shared) }
    }

    /// Serves until `over` is cancelled.
    pub(crate) async fn serve(self, tcp: TcpListener, over: CancellationToken) {
        let limits =
            ListenerLimits { connections_max: CONNECTIONS_MAX, ..ListenerLimits::default() };
        let listener = Listener {
            tcp,
            tls: None,
            limits,
            connections: TaskTracker::new(),
            closing: over.clone(),
            killed: over,
        };
        listener.serve(self).await;
    }

    async fn answer(self, request: Request<Body>) -> Response<Body> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered here\n");
        }
        match request.uri().path() {
            "/healthz" => text(StatusCode::OK, "ok\n"),
            "/metrics" => metrics::answer(&self.shared),
            "/readyz" => health::ready(&self.shared).await,
            _ => text(StatusCode::NOT_FOUND, "see /healthz, /readyz and /metrics\n"),
        }
    }
}

impl Service<Request<Body>> for Admin {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let admin = self.clone();
        Box::pin(async move { Ok(admin.answer(request).await) })
    }
}

fn text(status: StatusCode, text: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
