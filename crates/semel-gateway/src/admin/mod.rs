//! The listener for operators and probes: health, readiness, metrics.

mod health;
mod metrics;

use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::body::Body;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use semel::{Clock, Engine, outbox::relay::Relay, store::capability::Inspect};
use semel_http::{BoxFuture, SemelLayer};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower_service::Service;

use crate::{listener::Listener, proxy::Upstream, settings::ListenerLimits};

/// How many operators and probes may be connected at once.
const CONNECTIONS_MAX: usize = 64;

/// Answers operators and probes. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Admin {
    shared: Arc<Shared>,
}

/// What they ask about.
pub(crate) struct Shared {
    /// The gateway, where requests are served.
    pub(crate) gateway: Option<Serving>,
    /// The relay, where events are relayed.
    pub(crate) relay: Option<Relay>,
    /// Cancelled when the process begins to end.
    pub(crate) closing: CancellationToken,
    /// How long the store may take.
    pub(crate) ready_wait: Duration,
    pub(crate) clock: Arc<dyn Clock>,
}

/// The gateway as operators and probes ask about it.
pub(crate) struct Serving {
    pub(crate) engine: Engine,
    pub(crate) layer: SemelLayer,
    pub(crate) inspect: Arc<dyn Inspect>,
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    /// The client connections that are open.
    pub(crate) connections: TaskTracker,
    pub(crate) counted: metrics::Counted,
}

impl Admin {
    pub(crate) fn new(shared: Shared) -> Self {
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
            "/metrics" => metrics::answer(&self.shared).await,
            "/readyz" => health::ready(&self.shared).await,
            "/readyz/relay" => health::relay_ready(&self.shared),
            _ => text(StatusCode::NOT_FOUND, "see /healthz, /readyz, /readyz/relay and /metrics\n"),
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
