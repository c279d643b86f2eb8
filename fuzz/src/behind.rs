//! A service behind the HTTP layer that counts what it did, for targets that send it bytes from outside.

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use http::{Method, Request, Response, StatusCode};
use semel::{Engine, Policy, store::memory::MemoryStore, wire::IDEMPOTENT_REPLAYED};
use semel_http::{Body, BoxFuture, Operation, Operations, SemelLayer, tenant::trusted_header};
use tower::{Layer, Service, ServiceExt};

const TENANT: &str = "x-tenant";

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

/// The service, behind a layer. It is kept from input to input, and each input is a tenant of its own.
pub(crate) struct Behind {
    layer: SemelLayer,
    effects: Effects,
    tenant: usize,
}

impl Behind {
    /// Puts an operation on `POST /` in front of the service.
    pub(crate) fn new(change: impl FnOnce(Operation) -> Operation) -> Self {
        let policy = Policy { durable: false, ..Policy::default() };
        let operation = Operation::new("o").expect("a name").on(Method::POST, "/").policy(policy);
        let operations = Operations::new([change(operation)]).expect("one operation");
        let engine = Engine::builder(Arc::new(MemoryStore::new())).build();
        let layer = SemelLayer::builder(engine, operations)
            .tenant(trusted_header(TENANT.parse().expect("a header name")))
            .replay_auth_none()
            .build()
            .expect("a layer");
        Self { layer, effects: Effects::default(), tenant: 0 }
    }

    /// Begins an input: nothing was sent, and nothing was done.
    pub(crate) fn begin(&mut self) {
        self.tenant += 1;
        self.effects.0.store(0, Ordering::SeqCst);
    }

    /// Whether so much is stored by now that a new service is due.
    pub(crate) fn is_full(&self) -> bool {
        self.tenant > 1_000
    }

    /// Sends `POST /` and waits for the answer.
    pub(crate) async fn post(&self, headers: &[(&str, &[u8])], body: &[u8]) -> Answered {
        let mut request = Request::post("/").header(TENANT, self.tenant);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_vec())).expect("a request");
        let service = self.layer.layer(self.effects.clone());
        let answer = service.oneshot(request).await.expect("the service does not fail");
        Answered {
            status: answer.status(),
            replayed: answer.headers().contains_key(IDEMPOTENT_REPLAYED),
            effects: self.effects.0.load(Ordering::SeqCst),
        }
    }
}

/// Runs one input to its end, on a service that `new` makes now and then.
pub(crate) fn drive(kept: &Kept, new: impl FnOnce() -> Behind, check: impl AsyncFnOnce(&Behind)) {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
    }
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            let last = kept.lock().expect("no input failed before").take();
            let mut behind = last.filter(|behind| !behind.is_full()).unwrap_or_else(new);
            behind.begin();
            check(&behind).await;
            *kept.lock().expect("no input failed before") = Some(behind);
        });
    });
}

/// A service that is kept from input to input.
pub(crate) type Kept = Mutex<Option<Behind>>;

/// Acts once per call and answers 201.
#[derive(Clone, Default)]
struct Effects(Arc<AtomicUsize>);

impl Service<Request<Body>> for Effects {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async {
            let mut answer = Response::new(Body::from("{}"));
            *answer.status_mut() = StatusCode::CREATED;
            Ok(answer)
        })
    }
}
