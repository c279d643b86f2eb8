//! The layer: how it is put together, and which way a request takes through it.
//!
//! Everything but a request with a key for one of its operations passes untouched and streamed, except
//! that Semel's own headers are stripped on the way in and out.

use std::{
    fmt,
    future::ready,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::body::Body;
use http::{Request, Response};
use semel::{Clock, Engine, PolicyError, SystemClock};
use thiserror::Error;
use tokio_util::task::TaskTracker;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    BoxFuture,
    answer::{Counters, HttpStats},
    authorize::Authorize,
    body::Budget,
    cors,
    flow::{Shared, Sorted},
    near::Misses,
    route::Operations,
    run,
    tenant::TenantSource,
};

/// Says why a layer cannot be built.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// An operation is bridged, and the engine has no bridge.
    #[error("operation {name} is bridged, and the engine was given no bridge of its store")]
    NoBridge {
        /// The operation.
        name: semel::Operation,
    },
    /// Nobody said whether replays are authorised.
    #[error(
        "say who authorises a replay (`authorize`), or that nobody needs to (`replay_auth_none`)"
    )]
    NoReplayAuth,
    /// Nobody said who asks.
    #[error("name a tenant source, or say that there is a single tenant")]
    NoTenant,
    /// An operation's policy cannot be used, or not with this store.
    #[error("operation {name}")]
    Policy {
        /// The operation.
        name: semel::Operation,
        /// Why.
        #[source]
        source: PolicyError,
    },
}

impl BuildError {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoBridge { .. } => "no-bridge",
            Self::NoReplayAuth => "no-replay-auth",
            Self::NoTenant => "no-tenant",
            Self::Policy { source, .. } => source.code(),
        }
    }
}

/// Puts a layer together.
#[must_use]
pub struct SemelLayerBuilder {
    engine: Engine,
    operations: Operations,
    tenant: Option<Arc<dyn TenantSource>>,
    authorize: Option<Option<Arc<dyn Authorize>>>,
    in_flight_max: usize,
    in_flight_wait: Duration,
    trust_effect_header: bool,
    expose_headers: bool,
    status: bool,
    clock: Arc<dyn Clock>,
}

impl SemelLayerBuilder {
    /// Says who asks. Without it the layer refuses to build.
    pub fn tenant(mut self, source: impl TenantSource + 'static) -> Self {
        self.tenant = Some(Arc::new(source));
        self
    }

    /// Says who is asked before anything that comes from the store is sent.
    pub fn authorize(mut self, authorize: impl Authorize + 'static) -> Self {
        self.authorize = Some(Some(Arc::new(authorize)));
        self
    }

    /// Says that nobody is asked again: whoever reaches this layer may see what is kept for their
    /// tenant.
    pub fn replay_auth_none(mut self) -> Self {
        self.authorize = Some(None);
        self
    }

    /// Sets how many bytes of bodies may be held at once over all requests with a key; the default is
    /// 256 MiB.
    pub const fn in_flight_max(mut self, bytes: usize) -> Self {
        self.in_flight_max = bytes;
        self
    }

    /// Sets how long a request waits for its share of that memory; the default is 2 s, then 503.
    pub const fn in_flight_wait(mut self, span: Duration) -> Self {
        self.in_flight_wait = span;
        self
    }

    /// Says whether the response header `Semel-Effect` is believed at all; the default is yes.
    pub const fn trust_effect_header(mut self, on: bool) -> Self {
        self.trust_effect_header = on;
        self
    }

    /// Tells browsers that scripts may read Semel's headers, where a request names its origin; the
    /// default is no.
    pub const fn expose_headers(mut self, on: bool) -> Self {
        self.expose_headers = on;
        self
    }

    /// Says whether the status of an intent can be asked for; the default is yes.
    pub const fn status_endpoint(mut self, on: bool) -> Self {
        self.status = on;
        self
    }

    /// Sets the clocks by which a late retry is suspected; the default are the system's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Makes the layer.
    ///
    /// # Errors
    ///
    /// Refuses without a tenant source, without a word on the authorisation of replays, with a policy
    /// that cannot be used with the engine's store, and with a bridged operation on an engine without
    /// a bridge.
    pub fn build(self) -> Result<SemelLayer, BuildError> {
        let tenant = self.tenant.ok_or(BuildError::NoTenant)?;
        let authorize = self.authorize.ok_or(BuildError::NoReplayAuth)?;
        let store = self.engine.capabilities();
        for operation in self.operations.iter() {
            if operation.is_bridged() && !self.engine.is_bridged() {
                return Err(BuildError::NoBridge { name: operation.name().clone() });
            }
            let policy = operation.policy_ref();
            policy
                .check()
                .and_then(|()| policy.check_store(&store))
                .map_err(|source| BuildError::Policy { name: operation.name().clone(), source })?;
        }
        let shared = Shared {
            outcome_max: store.body_max,
            engine: self.engine,
            operations: self.operations,
            tenant,
            authorize,
            clock: self.clock,
            tasks: TaskTracker::new(),
            budget: Budget::new(self.in_flight_max, self.in_flight_wait),
            counters: Counters::default(),
            misses: Misses::default(),
            trust_effect_header: self.trust_effect_header,
            expose_headers: self.expose_headers,
            status: self.status,
        };
        Ok(SemelLayer { shared: Arc::new(shared) })
    }
}

impl fmt::Debug for SemelLayerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemelLayerBuilder")
            .field("operations", &self.operations)
            .finish_non_exhaustive()
    }
}

/// Makes the requests of its operations safe to repeat. Cheap to clone.
#[derive(Clone)]
pub struct SemelLayer {
    shared: Arc<Shared>,
}

impl SemelLayer {
    /// Begins a layer.
    pub fn builder(engine: Engine, operations: Operations) -> SemelLayerBuilder {
        SemelLayerBuilder {
            engine,
            operations,
            tenant: None,
            authorize: None,
            in_flight_max: 256 << 20,
            in_flight_wait: Duration::from_secs(2),
            trust_effect_header: true,
            expose_headers: false,
            status: true,
            clock: Arc::new(SystemClock::new()),
        }
    }

    /// Returns the engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    /// Returns the counters of what the engine cannot see.
    #[must_use]
    pub fn stats(&self) -> HttpStats {
        self.shared.counters.stats()
    }

    /// Waits until every handler that was begun has ended and its end is stored. Call it after the
    /// server accepts no more connections.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the wait and nothing else.
    pub async fn drain(&self) {
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

impl fmt::Debug for SemelLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemelLayer")
            .field("operations", &self.shared.operations)
            .finish_non_exhaustive()
    }
}

impl<S> Layer<S> for SemelLayer {
    type Service = SemelService<S>;

    fn layer(&self, inner: S) -> SemelService<S> {
        SemelService { inner, shared: Arc::clone(&self.shared) }
    }
}

/// A service behind the layer.
#[derive(Clone)]
pub struct SemelService<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S: fmt::Debug> fmt::Debug for SemelService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemelService").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S> Service<Request<Body>> for SemelService<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        run::clean(request.headers_mut());
        let shared = Arc::clone(&self.shared);
        match shared.sort(&request) {
            Sorted::Keyed(operation, key) => {
                // The one that was polled ready serves; the clone takes its place.
                let clone = self.inner.clone();
                let inner = std::mem::replace(&mut self.inner, clone);
                Box::pin(shared.keyed(operation, key, request, inner))
            }
            Sorted::Pass => {
                let passed = self.inner.call(request);
                Box::pin(async move {
                    let mut response = passed.await?;
                    run::clean(response.headers_mut());
                    Ok(response)
                })
            }
            Sorted::Refused(problem) => {
                let scripted = shared.expose_headers && cors::is_scripted(request.headers());
                let response = shared.sent(problem.into_response(), scripted);
                Box::pin(ready(Ok(response)))
            }
            Sorted::Status => Box::pin(async move { Ok(shared.status(request).await) }),
        }
    }
}
