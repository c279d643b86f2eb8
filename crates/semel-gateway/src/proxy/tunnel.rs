//! Connections that change their protocol: after the 101, bytes pass both ways until one side ends.

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncWriteExt as _, copy_bidirectional};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::link::Link;
use crate::listener::Peer;

/// Where tunnels live, and what ends them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tunnels {
    pub(crate) tasks: TaskTracker,
    pub(crate) closing: CancellationToken,
}

/// A client's wish to change the protocol.
#[derive(Debug)]
pub(super) struct Wish {
    protocol: HeaderValue,
    client: OnUpgrade,
    peer: Option<Peer>,
}

impl Wish {
    /// Takes the wish out of a request, if it has one that can be granted.
    pub(super) fn of(request: &mut Request<Body>) -> Option<Self> {
        let protocol = request.headers().get(header::UPGRADE)?.clone();
        if is_http(&protocol) {
            return None;
        }
        let client = request.extensions_mut().remove::<OnUpgrade>()?;
        let peer = request.extensions().get::<Peer>().cloned();
        Some(Self { protocol, client, peer })
    }

    /// Passes the wish on.
    pub(super) fn tell(&self, headers: &mut HeaderMap) {
        tell(headers, self.protocol.clone());
    }
}

/// Says whether a list of protocols has another form of HTTP. In a tunnel it would carry requests past
/// the layer that protects them, so that wish is not passed on, and the request is served as it is.
fn is_http(protocols: &HeaderValue) -> bool {
    let protocols = protocols.as_bytes().to_ascii_lowercase();
    protocols.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).any(|protocol| {
        [&b"h2"[..], b"h3", b"http", b"tls"].iter().any(|http| protocol.starts_with(http))
    })
}

/// Says that the connection changes to a protocol.
pub(super) fn tell(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, protocol);
}

impl Tunnels {
    /// Joins both sides once the client has seen the 101, and returns that 101.
    pub(super) fn join(
        &self,
        wish: Wish,
        link: Box<Link>,
        mut head: Response<()>,
    ) -> Response<Body> {
        let protocol =
            head.headers_mut().remove(header::UPGRADE).unwrap_or_else(|| wish.protocol.clone());
        tell(head.headers_mut(), protocol);
        let closing = self.closing.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = closing.cancelled() => {}
                () = pass(wish, link) => {}
            }
        });
        debug_assert_eq!(head.status(), StatusCode::SWITCHING_PROTOCOLS);
        head.map(|()| Body::empty())
    }
}

async fn pass(wish: Wish, link: Box<Link>) {
    let ended = async {
        let Some((mut upstream, early, _slot)) = link.upgraded().await? else { return Ok(()) };
        let mut client: TokioIo<Upgraded> = TokioIo::new(wish.client.await?);
        client.write_all(&early).await?;
        copy_bidirectional(&mut client, &mut upstream).await?;
        Ok::<_, axum::BoxError>(())
    };
    if let Err(error) = ended.await {
        tracing::debug!(%error, "a tunnel ended");
    }
    // The client's place among the connections is free from here on.
    drop(wish.peer);
}
