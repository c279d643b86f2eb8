//! The upstream side: passes a request on, and says exactly what became of it.
//!
//! A request without a key is streamed both ways. A request with a key comes here already read; it is
//! sent at most once, and an answer that does not come says whether anything was sent ([`failure`]).

mod counters;
mod failure;
mod headers;
mod link;
mod pool;
mod relay;
mod routes;
mod socket;
mod tunnel;
mod upstream;

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::body::Body;
use http::{Request, Response, StatusCode, Uri, header, uri::PathAndQuery};
use hyper::body::Incoming;
use semel::Held;
use semel_http::{
    BoxFuture, Bridged, Effect, Reason,
    axum::Intent,
    classify::{Class, class},
};
use tokio::time::sleep;
use tower_service::Service;

pub use self::upstream::{Upstream, UpstreamError};
pub(crate) use self::{
    failure::Failure,
    headers::{Told, strip_hop_by_hop},
    routes::Routes,
    tunnel::Tunnels,
};
use self::{
    failure::{Advice, NotSent, Unknown},
    headers::Origin,
    link::{Link, SendError},
    relay::Relay,
    socket::Given,
    tunnel::Wish,
};
use crate::{
    listener::Peer,
    settings::{Forwarded, HostHeader},
};

/// A connection that was idle for longer carries no request with a key: its upstream may be about to
/// close it, and then nobody could say whether the request arrived.
const IDLE_MAX_WITH_KEY: Duration = Duration::from_secs(1);

/// Passes requests on to their upstreams. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    routes: Routes,
    forwarded: Forwarded,
    tunnels: Tunnels,
}

impl Proxy {
    pub(crate) fn new(routes: Routes, forwarded: Forwarded, tunnels: Tunnels) -> Self {
        Self { shared: Arc::new(Shared { routes, forwarded, tunnels }) }
    }

    async fn forward(self, request: Request<Body>) -> Response<Body> {
        let held = request.extensions().get::<Held>().cloned();
        let Some(upstream) = self.shared.routes.upstream_of(&request).cloned() else {
            return failure::nowhere();
        };
        if *request.method() == http::Method::CONNECT {
            return failure::connect_refused();
        }
        let advice = Advice::of(&request, held.is_some());
        let is_bridged = request.extensions().get::<Bridged>().is_some();
        let mut response = match self.exchange(&upstream, request, held.as_ref()).await {
            Ok(response) => response,
            Err(failure) => failure.answer(&upstream.settings.name, advice),
        };
        if is_bridged && response.extensions().get() == Some(&Effect::Unknown) {
            // The record tells what became of it.
            response.extensions_mut().remove::<Effect>();
        }
        let says_nothing = matches!(class(response.status()), Class::ServerError | Class::Unlisted);
        if held.is_some() && says_nothing && response.extensions().get::<Reason>().is_none() {
            let reason = Reason::new(format!("upstream-status-{}", response.status().as_u16()));
            response.extensions_mut().insert(reason.of(&upstream.settings.name));
        }
        response
    }

    async fn exchange(
        &self,
        upstream: &Arc<Upstream>,
        mut request: Request<Body>,
        held: Option<&Held>,
    ) -> Result<Response<Body>, Failure> {
        let wish = Wish::of(&mut request).filter(|_| held.is_none());
        let outgoing = outgoing(request, upstream, &self.shared, wish.as_ref());
        let (link, answer) = call(upstream, outgoing, held).await?;
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            let Some(wish) = wish else {
                upstream.counters.unknown();
                return Err(Unknown::Switched.into());
            };
            let (head, _) = incoming(answer, upstream);
            return Ok(self.shared.tunnels.join(wish, link, head));
        }
        Ok(relayed(upstream, link, answer))
    }
}

impl Service<Request<Body>> for Proxy {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let proxy = self.clone();
        Box::pin(async move { Ok(proxy.forward(request).await) })
    }
}

/// Makes the answer that is passed on; its body moves the connection on and gives it back.
fn relayed(
    upstream: &Arc<Upstream>,
    link: Box<Link>,
    answer: Response<Incoming>,
) -> Response<Body> {
    let (head, body) = incoming(answer, upstream);
    let body = Relay::new(body, link, upstream).map_or_else(Body::empty, Body::new);
    head.map(|()| body)
}

/// Sends a request of the gateway's own.
pub(crate) async fn ask(
    upstream: &Arc<Upstream>,
    request: Request<Body>,
) -> Result<Response<Body>, Failure> {
    let (link, answer) = call(upstream, request, None).await?;
    Ok(relayed(upstream, link, answer))
}

/// Sends a request at most once and waits for the head of its answer.
///
/// # Cancel safety
///
/// Dropping the future closes the connection; whether the request arrived is then unknown.
async fn call(
    upstream: &Upstream,
    request: Request<Body>,
    held: Option<&Held>,
) -> Result<(Box<Link>, Response<Incoming>), Failure> {
    let pass = upstream.circuit.admit(upstream.clock.monotonic()).map_err(|left| {
        upstream.counters.not_sent();
        NotSent::Circuit(left)
    })?;
    match attempt(upstream, request, held).await {
        Ok((link, answer)) => {
            pass.answered();
            upstream.counters.answered(answer.status());
            Ok((link, answer))
        }
        Err(failure) => {
            if failure.counts_for_the_circuit() && pass.failed(upstream.clock.monotonic()) {
                upstream.counters.opened();
                tracing::warn!(upstream = upstream.settings.name, %failure, "left alone for now");
            }
            match &failure {
                Failure::NotSent(_) => upstream.counters.not_sent(),
                Failure::Unknown(_) => upstream.counters.unknown(),
            }
            Err(failure)
        }
    }
}

async fn attempt(
    upstream: &Upstream,
    mut request: Request<Body>,
    held: Option<&Held>,
) -> Result<(Box<Link>, Response<Incoming>), Failure> {
    let idle_max = if held.is_some() { IDLE_MAX_WITH_KEY } else { upstream.settings.idle_for };
    if let Some(mut link) = upstream.take(idle_max) {
        match send(upstream, &mut link, request, held).await {
            Err(Sent::Returned(back)) => request = *back,
            sent => return sent.map(|answer| (link, answer)).map_err(Failure::from),
        }
    }
    // A request that came back from a used connection was not sent, so this is still the first time.
    // Boxed, since it is rare and large.
    let mut link = Box::pin(upstream.connect()).await?;
    let answer = send(upstream, &mut link, request, held).await?;
    Ok((link, answer))
}

/// What became of a request that brought no answer.
enum Sent {
    Failed(Failure),
    Returned(Box<Request<Body>>),
}

impl From<Sent> for Failure {
    fn from(sent: Sent) -> Self {
        match sent {
            Sent::Failed(failure) => failure,
            Sent::Returned(_) => NotSent::Returned.into(),
        }
    }
}

async fn send(
    upstream: &Upstream,
    link: &mut Link,
    request: Request<Body>,
    held: Option<&Held>,
) -> Result<Response<Incoming>, Sent> {
    if let Some(held) = held {
        held.start().await.map_err(|error| Sent::Failed(NotSent::Lease(error).into()))?;
    }
    let wait = upstream.settings.answer_wait;
    let given = link.given();
    let ended = {
        let answer = pin!(link.send(request));
        in_time(answer, wait, &given, held.is_some()).await
    };
    let gave = link.gave();
    Err(Sent::Failed(match ended {
        Some(Ok(answer)) => return Ok(answer),
        Some(Err(SendError::Returned(request))) => return Err(Sent::Returned(request)),
        Some(Err(SendError::Failed(error))) if gave => Unknown::Broken(error).into(),
        Some(Err(SendError::Failed(_))) => NotSent::Returned.into(),
        None if gave => Unknown::TimedOut.into(),
        None => NotSent::Stuck.into(),
    }))
}

/// Waits for an answer, from the first byte of the request on. Without a key the request is still on its
/// way from its client, and the answer to it is not late before its last byte was sent.
///
/// Nobody else drives the connection, so every byte is given to the network while this is polled.
async fn in_time<F: Future>(
    mut answer: Pin<&mut F>,
    wait: Duration,
    given: &Given,
    keyed: bool,
) -> Option<F::Output> {
    let start = given.bytes();
    let mut before = start;
    let mut late = pin!(sleep(wait));
    poll_fn(|cx| {
        if let Poll::Ready(ended) = answer.as_mut().poll(cx) {
            return Poll::Ready(Some(ended));
        }
        let now = given.bytes();
        if now != before && (before == start || !keyed) {
            late.set(sleep(wait));
        }
        before = now;
        late.as_mut().poll(cx).map(|()| None)
    })
    .await
}

/// Makes the request that is sent of the one that came.
fn outgoing(
    request: Request<Body>,
    upstream: &Upstream,
    shared: &Shared,
    wish: Option<&Wish>,
) -> Request<Body> {
    let Shared { forwarded, routes, .. } = shared;
    let (mut parts, body) = request.into_parts();
    let peer = parts.extensions.get::<Peer>();
    let origin = Origin {
        address: peer.map(|peer| &peer.told),
        encrypted: peer.is_some_and(|peer| peer.encrypted),
    };
    let uri = target(&parts.uri, &upstream.base);
    let intent = Intent::of(&parts);
    let is_bridged = parts.extensions.get::<Bridged>().is_some();
    let headers = &mut parts.headers;
    headers::strip_hop_by_hop(headers, &routes.key_headers);
    headers::frame(headers, &body);
    headers::tell_origin(headers, origin, *forwarded);
    headers::tell_way(headers, parts.version);
    if let Some(intent) = intent {
        headers::tell_claim(headers, &intent);
        if upstream.settings.bridged && is_bridged {
            headers::tell_permit(headers, intent.held.permit());
        }
    }
    if let Some(wish) = wish {
        wish.tell(headers);
    }
    if upstream.settings.host == HostHeader::Upstream || !headers.contains_key(header::HOST) {
        headers.insert(header::HOST, upstream.authority.clone());
    }
    let mut outgoing = Request::new(body);
    *outgoing.method_mut() = parts.method;
    *outgoing.uri_mut() = uri;
    *outgoing.headers_mut() = parts.headers;
    outgoing
}

/// Puts the upstream's own path before what was asked for.
fn target(asked: &Uri, base: &str) -> Uri {
    let path = asked.path_and_query().map_or("/", PathAndQuery::as_str);
    let whole = match (base, path) {
        ("", _) => asked.path_and_query().cloned().map(Uri::from),
        (base, "*") => base.parse().ok(),
        (base, path) => format!("{base}{path}").parse().ok(),
    };
    whole.unwrap_or_else(|| Uri::from_static("/"))
}

/// Makes the head that is passed on of the one that came, and parts it from its body.
fn incoming(answer: Response<Incoming>, upstream: &Upstream) -> (Response<()>, Incoming) {
    let (mut parts, body) = answer.into_parts();
    let protocol = (parts.status == StatusCode::SWITCHING_PROTOCOLS)
        .then(|| parts.headers.remove(header::UPGRADE))
        .flatten();
    headers::strip_hop_by_hop(&mut parts.headers, &[]);
    if !upstream.settings.trusted {
        headers::strip_own(&mut parts.headers);
    }
    if let Some(protocol) = protocol {
        parts.headers.insert(header::UPGRADE, protocol);
    }
    let mut head = Response::new(());
    *head.status_mut() = parts.status;
    *head.headers_mut() = parts.headers;
    (head, body)
}
