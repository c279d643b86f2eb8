//! The way of a request with a key: tenant, body, fingerprint, claim, and then run, replay or refusal.

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, TRANSFER_ENCODING, UPGRADE},
    request::Parts,
};
use semel::{
    Begun, Call, Clock, Engine, Error, Fingerprint, IntentId, Key, Refusal, Scope, StoreErrorKind,
    Timestamp, fingerprint::Plan, key::Facet, wire,
};
use sha2::{Digest, Sha256};
use tokio_util::task::TaskTracker;
use tower_service::Service;

use crate::{
    answer::{Answer, Counters},
    authorize::Authorize,
    body::{self, Budget, Expected, Share},
    command::Asked,
    cors, header, instant,
    near::{self, Misses},
    operation::{Away, InProgress, Late, Mismatch, Operation},
    prefer::Prefer,
    problem::{Code, Problem},
    replay::{self, Asking},
    route::{Operations, unescaped},
    run::Work,
    status,
    tenant::{TenantError, TenantSource},
    why::Why,
};

/// What every request behind one layer shares.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) operations: Operations,
    pub(crate) tenant: Arc<dyn TenantSource>,
    pub(crate) authorize: Option<Arc<dyn Authorize>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tasks: TaskTracker,
    pub(crate) budget: Budget,
    pub(crate) counters: Counters,
    pub(crate) misses: Misses,
    pub(crate) outcome_max: usize,
    pub(crate) trust_effect_header: bool,
    pub(crate) expose_headers: bool,
    pub(crate) status: bool,
}

/// Where a request goes.
pub(crate) enum Sorted {
    Keyed(Arc<Operation>, Key),
    Pass,
    Refused(Problem),
    Status,
}

impl Shared {
    /// Says where a request goes, by its head alone.
    pub(crate) fn sort(&self, request: &Request<Body>) -> Sorted {
        if self.status && request.uri().path().starts_with(wire::STATUS_PREFIX) {
            return Sorted::Status;
        }
        let found = self.operations.find(request.method(), request.uri().path());
        if found.is_none() {
            self.look_for_miss(request);
        }
        let Some(matched) = found.filter(|_| !cors::is_preflight(request)) else {
            return Sorted::Pass;
        };
        match header::key(matched.operation, request.headers()) {
            Err(problem) => Sorted::Refused(problem),
            Ok(None) => Sorted::Pass,
            Ok(Some(_)) if changes_protocol(request) => Sorted::Refused(
                Problem::new(Code::Upgrade).detail("what follows an upgrade cannot be replayed"),
            ),
            Ok(Some(key)) => Sorted::Keyed(Arc::clone(matched.operation), key),
        }
    }

    /// Counts and logs a request that carries a key and almost belongs to an operation.
    fn look_for_miss(&self, request: &Request<Body>) {
        let (method, path) = (request.method(), request.uri().path());
        if let Some(missed) = near::missed(&self.operations, method, path, request.headers()) {
            self.counters.missed();
            self.misses.warn(missed, &*self.clock);
        }
    }

    /// Asks again whether the caller may see what comes from the store.
    pub(crate) async fn authorised(&self, parts: &Parts) -> Result<(), Response<Body>> {
        match &self.authorize {
            Some(authorize) => authorize.authorize(parts).await,
            None => Ok(()),
        }
    }

    /// Finds out who asks.
    pub(crate) fn tenant(&self, parts: &Parts) -> Result<semel::Tenant, Problem> {
        self.tenant.tenant(parts).map_err(|error| {
            let code = match error {
                TenantError::Malformed { .. } => Code::TenantMalformed,
                TenantError::Missing { .. } => Code::TenantMissing,
            };
            Problem::new(code).detail(error.to_string())
        })
    }

    /// Finishes a response on its way out.
    pub(crate) fn sent(&self, mut response: Response<Body>, scripted: bool) -> Response<Body> {
        if let Some(answer) = response.extensions().get::<Answer>() {
            self.counters.count(*answer);
        }
        if scripted {
            cors::expose(response.headers_mut());
        }
        response
    }

    /// Answers a question for the state of an intent.
    pub(crate) async fn status(&self, request: Request<Body>) -> Response<Body> {
        let scripted = self.expose_headers && cors::is_scripted(request.headers());
        let (parts, _) = request.into_parts();
        self.sent(status::answer(self, &parts).await, scripted)
    }

    /// Serves a request with a key.
    pub(crate) async fn keyed<S>(
        self: Arc<Self>,
        operation: Arc<Operation>,
        key: Key,
        request: Request<Body>,
        inner: S,
    ) -> Result<Response<Body>, S::Error>
    where
        S: Service<Request<Body>, Response = Response<Body>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Send + 'static,
    {
        let scripted = self.expose_headers && cors::is_scripted(request.headers());
        let (parts, body) = request.into_parts();
        let prepared = self.prepare(&operation, key, &parts, body).await;
        let Prepared { call, bytes, share, prefer } = match prepared {
            Ok(prepared) => prepared,
            Err(problem) => return Ok(self.sent(problem.into_response(), scripted)),
        };
        let (id, fingerprint) = (call.id.clone(), call.fingerprint);
        // In a statement of its own, so that its state is gone before the handler's begins.
        let begun = self.engine.begin(call).await;
        let response = match begun {
            Ok(Begun::Run(holder)) => {
                let request = buffered(parts, bytes);
                let work = Work { shared: Arc::clone(&self), operation, request, share, inner };
                work.held(holder, fingerprint).await?
            }
            Ok(Begun::Replay(record)) => match self.authorised(&parts).await {
                Ok(()) => replay::of_record(&record, asking(&parts)),
                Err(denied) => denied,
            },
            Ok(Begun::Refused(refusal)) => match self.authorised(&parts).await {
                Ok(()) => refused(&operation, &id, &refusal, prefer).into_response(),
                Err(denied) => denied,
            },
            Err(error) if operation.away == Away::Open && is_away(&error) => {
                tracing::warn!(operation = %operation.name, %error, "ran without protection");
                let request = buffered(parts, bytes);
                let work = Work { shared: Arc::clone(&self), operation, request, share, inner };
                work.unprotected().await?
            }
            Err(error) => {
                let (code, why) = (error.code(), Why(&error));
                tracing::warn!(operation = %operation.name, code, %why, "nothing ran");
                Problem::from(&error).into_response()
            }
        };
        Ok(self.sent(response, scripted))
    }

    /// Does everything that comes before the claim.
    async fn prepare(
        &self,
        operation: &Arc<Operation>,
        key: Key,
        parts: &Parts,
        body: Body,
    ) -> Result<Prepared, Problem> {
        let tenant = self.tenant(parts)?;
        let expected = Expected::of(&parts.headers, &body, operation.body_max)?;
        let copies = if is_copied(parts) { 2 } else { 1 };
        let share = self.budget.take(expected.bytes_max().saturating_mul(copies)).await?;
        let bytes = body::read(body, expected, operation.body_timeout).await?;
        let asked = Asked::of(&parts.headers, &bytes, operation.body_max).await?;
        let digest = |plan: &Plan| asked.digest(plan, &parts.method, &parts.uri, &parts.headers);
        let fingerprint =
            digest(operation.plans.current()).map_err(|error| Problem::from(&error))?;

        let intent = Scope::new(tenant, operation.name.clone()).intent(key);
        let named = |fingerprint: &Fingerprint| match facet(operation, parts, fingerprint) {
            Some(facet) => intent.clone().narrowed(facet),
            None => intent.clone(),
        };
        let mut call = Call::new(named(&fingerprint), fingerprint, Arc::clone(&operation.policy));
        if operation.mismatch == Mismatch::NewIntent {
            // The content was named by the plan of its time: a retry across a deploy is found there.
            for earlier in operation.old_plans.iter().filter_map(|plan| digest(plan).ok()) {
                let id = named(&earlier);
                if self.is_recorded(&id).await {
                    (call.id, call.fingerprint) = (id, earlier);
                    break;
                }
            }
        }
        self.in_time(operation, &call.id, parts).await?;
        let prefer = Prefer::of(&parts.headers);
        if let Some(policy) = prefer.policy(operation) {
            call.policy = Arc::new(policy);
        }
        call.claimed_by = request_id(parts);
        if !operation.old_plans.is_empty() {
            let asked = asked.into_owned();
            let (operation, method) = (Arc::clone(operation), parts.method.clone());
            let (uri, headers) = (parts.uri.clone(), parts.headers.clone());
            call.by_plan = Some(Arc::new(move |plan| {
                let plan = operation.plans.by_id(plan)?;
                asked.digest(plan, &method, &uri, &headers).ok()
            }));
        }
        Ok(Prepared { call, bytes, share, prefer })
    }

    async fn is_recorded(&self, id: &IntentId) -> bool {
        let status = self.engine.status(id.clone()).await;
        status.is_ok_and(|status| status.record.is_some())
    }

    /// Refuses a retry that comes when everything is forgotten, where the operation says so.
    async fn in_time(
        &self,
        operation: &Operation,
        id: &IntentId,
        parts: &Parts,
    ) -> Result<(), Problem> {
        let Some(sent) = first_sent(operation, id, parts) else {
            return Ok(());
        };
        // The host's clock says only whether it is worth asking; the store's time decides.
        let remember_for = operation.policy.remember_for;
        if self.clock.wall().since(sent) < remember_for / 2 {
            return Ok(());
        }
        match self.engine.status(id.clone()).await {
            Ok(status) if status.record.is_none() && status.now.since(sent) > remember_for => {
                Err(Problem::new(Code::Late)
                    .detail("nobody remembers any more whether it was done; nothing ran")
                    .member("first_sent", instant::text(sent)))
            }
            // If the store cannot be asked, the claim says so.
            _ => Ok(()),
        }
    }
}

/// Says whether the store could not be asked; a question that it refuses is our own mistake.
fn is_away(error: &Error) -> bool {
    matches!(error, Error::Store(error) if error.kind() != StoreErrorKind::Invalid)
}

/// A request that is ready for its claim.
struct Prepared {
    call: Call,
    bytes: Bytes,
    share: Share,
    prefer: Prefer,
}

fn changes_protocol(request: &Request<Body>) -> bool {
    *request.method() == Method::CONNECT || request.headers().contains_key(UPGRADE)
}

/// Says whether the body is held twice while it is read.
fn is_copied(parts: &Parts) -> bool {
    let media_type = parts.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let form = [&b"multipart/form-data"[..], b"application/x-www-form-urlencoded"];
    let starts =
        |form: &&[u8]| media_type.get(..form.len()).is_some_and(|m| m.eq_ignore_ascii_case(form));
    form.iter().any(starts) || parts.headers.contains_key(CONTENT_ENCODING)
}

/// Narrows an intent by its path or its content, where those are part of its identity.
fn facet(operation: &Operation, parts: &Parts, fingerprint: &Fingerprint) -> Option<Facet> {
    let by_content = operation.mismatch == Mismatch::NewIntent;
    if !by_content && !operation.scope_path {
        return None;
    }
    let mut facet = Sha256::new();
    facet.update(b"semel facet v1\0");
    if operation.scope_path {
        // Decoded, so that another spelling of the path is a mismatch and not another intent.
        let path = unescaped(parts.uri.path().as_bytes(), false);
        facet.update(b"path\0");
        facet.update(u64::try_from(path.len()).unwrap_or(u64::MAX).to_be_bytes());
        facet.update(&path);
    }
    if by_content {
        facet.update(b"content\0");
        facet.update(fingerprint.plan().as_bytes());
        facet.update(fingerprint.digest());
    }
    Some(facet.finalize().into())
}

/// Returns when an intent was first sent, by its caller, if the operation asks for it.
fn first_sent(operation: &Operation, id: &IntentId, parts: &Parts) -> Option<Timestamp> {
    if operation.late == Late::Run {
        return None;
    }
    let told = parts.headers.get(&header::FIRST_SENT);
    let told = told.and_then(|value| instant::of_http_date(value.to_str().ok()?));
    told.into_iter().chain(instant::of_uuid7(id.key.as_str())).min()
}

fn request_id(parts: &Parts) -> Option<Box<str>> {
    let text = parts.headers.get(&header::REQUEST_ID)?.to_str().ok()?;
    (1..=semel::decide::Ask::CLAIMED_BY_MAX).contains(&text.len()).then(|| text.into())
}

pub(crate) fn asking(parts: &Parts) -> Asking<'_> {
    Asking { is_head: parts.method == Method::HEAD, headers: &parts.headers }
}

/// Puts a request together again, with its body whole.
fn buffered(mut parts: Parts, bytes: Bytes) -> Request<Body> {
    if parts.headers.remove(TRANSFER_ENCODING).is_some() {
        parts.headers.insert(CONTENT_LENGTH, bytes.len().into());
    }
    parts.headers.remove(EXPECT);
    Request::from_parts(parts, Body::from(bytes))
}

fn refused(operation: &Operation, id: &IntentId, refusal: &Refusal, prefer: Prefer) -> Problem {
    let problem = Problem::from(refusal);
    match (refusal, operation.mismatch) {
        (Refusal::InProgress { .. }, _) => {
            let accepted = operation.in_progress == InProgress::Accepted || prefer.respond_async;
            let problem = problem.location(&status::url(id));
            if accepted { problem.status(StatusCode::ACCEPTED) } else { problem }
        }
        (Refusal::Mismatch, Mismatch::Status(status)) => {
            problem.status(StatusCode::from_u16(status).unwrap_or(Code::Mismatch.status()))
        }
        (Refusal::Unknown { .. }, _) => problem.location(&status::url(id)),
        _ => problem,
    }
}

/// The longest wait that a caller may ask for where the operation itself does not wait.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(10);
