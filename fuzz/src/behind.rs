//! A service behind the HTTP layer that counts what it did, for targets that send it bytes from outside.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, request::Builder};
use http_body_util::BodyExt as _;
use semel::{Engine, Policy, store::memory::MemoryStore, wire::IDEMPOTENT_REPLAYED};
use semel_http::{
    Body, BoxFuture, Operation, Operations, SemelLayer, SemelLayerBuilder, tenant::trusted_header,
};
use tower::{Layer, Service, ServiceExt};

use crate::runtime;

/// The header that says who asks.
pub(crate) const TENANT: &str = "x-tenant";

/// What became of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Answered {
    /// The status.
    pub(crate) status: StatusCode,
    /// Whether it is an earlier answer, sent again.
    pub(crate) replayed: bool,
    /// How often the service has acted by now.
    pub(crate) effects: usize,
}

/// The whole answer.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    /// What became of the request.
    pub(crate) answered: Answered,
    /// The headers.
    pub(crate) headers: HeaderMap,
    /// The body.
    pub(crate) body: Bytes,
}

/// The service, behind a layer. It is kept from input to input, and each input is a tenant of its own.
pub(crate) struct Behind {
    layer: SemelLayer,
    acts: Acts,
    tenant: usize,
}

impl Behind {
    /// Puts an operation on `POST /` in front of the service.
    pub(crate) fn new(change: impl FnOnce(Operation) -> Operation) -> Self {
        Self::with([change(operation("o").on(Method::POST, "/"))], |layer| layer)
            .expect("one operation")
    }

    /// Puts any operations in front of the service, if they can be used together.
    pub(crate) fn with(
        operations: impl IntoIterator<Item = Operation>,
        change: impl FnOnce(SemelLayerBuilder) -> SemelLayerBuilder,
    ) -> Option<Self> {
        let operations = Operations::new(operations).ok()?;
        let engine = Engine::builder(Arc::new(MemoryStore::new())).build();
        let layer = SemelLayer::builder(engine, operations)
            .tenant(trusted_header(TENANT.parse().expect("a header name")))
            .replay_auth_none();
        let layer = change(layer).build().expect("a layer");
        Some(Self { layer, acts: Acts::default(), tenant: 0 })
    }

    /// Begins an input: nothing was sent, and nothing was done.
    pub(crate) fn begin(&mut self) {
        self.tenant += 1;
        *self.acts.lock() = Act::default();
    }

    /// Says what the service answers from now on.
    pub(crate) fn answering(&self, status: StatusCode, headers: HeaderMap, body: &[u8]) {
        let mut act = self.acts.lock();
        (act.status, act.headers) = (status, headers);
        act.body = Bytes::copy_from_slice(body);
    }

    /// Whether the service's answer has a header.
    pub(crate) fn says(&self, name: &str) -> bool {
        self.acts.lock().headers.contains_key(name)
    }

    /// Whether so much is stored by now that a new service is due.
    pub(crate) fn is_full(&self) -> bool {
        self.tenant > 1_000
    }

    /// The tenant of this input.
    pub(crate) fn tenant(&self) -> String {
        self.tenant.to_string()
    }

    /// How often the service has acted by now.
    pub(crate) fn effects(&self) -> usize {
        self.acts.lock().effects
    }

    /// Sends `POST /` and waits for the answer.
    pub(crate) async fn post(&self, headers: &[(&str, &[u8])], body: &[u8]) -> Answered {
        let mut request = Request::post("/").header(TENANT, self.tenant);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request, body).await.expect("a request").answered
    }

    /// Sends a request, if it is one.
    pub(crate) async fn send(&self, request: Builder, body: &[u8]) -> Option<Whole> {
        let request = request.body(Body::from(body.to_vec())).ok()?;
        let service = self.layer.layer(self.acts.clone());
        let answer = service.oneshot(request).await.expect("the service does not fail");
        let (head, body) = answer.into_parts();
        let body = body.collect().await.expect("the body does not fail").to_bytes();
        let answered = Answered {
            status: head.status,
            replayed: head.headers.contains_key(IDEMPOTENT_REPLAYED),
            effects: self.effects(),
        };
        Some(Whole { answered, headers: head.headers, body })
    }
}

/// An operation that works with a store that forgets.
pub(crate) fn operation(name: &str) -> Operation {
    let policy = Policy { durable: false, ..Policy::default() };
    Operation::new(name).expect("a name").policy(policy)
}

/// Runs one input to its end, on a service that `new` makes now and then.
pub(crate) fn drive(kept: &Kept, new: impl FnOnce() -> Behind, check: impl AsyncFnOnce(&Behind)) {
    runtime(async {
        let last = kept.lock().expect("no input failed before").take();
        let mut behind = last.filter(|behind| !behind.is_full()).unwrap_or_else(new);
        behind.begin();
        check(&behind).await;
        *kept.lock().expect("no input failed before") = Some(behind);
    });
}

/// A service that is kept from input to input.
pub(crate) type Kept = Mutex<Option<Behind>>;

/// What the service did, and what it answers.
struct Act {
    effects: usize,
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Default for Act {
    fn default() -> Self {
        let body = Bytes::from_static(b"{}");
        Self { effects: 0, status: StatusCode::CREATED, headers: HeaderMap::new(), body }
    }
}

/// Acts once per call.
#[derive(Clone, Default)]
struct Acts(Arc<Mutex<Act>>);

impl Acts {
    fn lock(&self) -> MutexGuard<'_, Act> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service<Request<Body>> for Acts {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        let mut act = self.lock();
        act.effects += 1;
        let mut answer = Response::new(Body::from(act.body.clone()));
        *answer.status_mut() = act.status;
        answer.headers_mut().clone_from(&act.headers);
        drop(act);
        Box::pin(async { Ok(answer) })
    }
}
