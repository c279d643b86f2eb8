//! Accepts client connections within bounds and serves each of them.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use axum::body::Body;
use http::{Request, Response};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower_service::Service;

use crate::{
    proxy::Told,
    settings::ListenerLimits,
    stall::{StallingBody, StallingWrites},
};

/// Where a request came from, in its extensions.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// The client's address.
    pub(crate) told: Told,
    pub(crate) encrypted: bool,
    /// The client's place among the connections, for as long as anything of it lives.
    _slot: Arc<OwnedSemaphorePermit>,
}

/// What accepts connections, and what they are served with.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) tcp: TcpListener,
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    pub(crate) limits: ListenerLimits,
    /// The connections that are open.
    pub(crate) connections: TaskTracker,
    /// Ends connections after the request they are serving.
    pub(crate) closing: CancellationToken,
    /// Ends connections at once.
    pub(crate) killed: CancellationToken,
}

impl Listener {
    /// Serves every connection by a clone of `service` until `closing` is cancelled.
    pub(crate) async fn serve<S>(self, service: S)
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        let slots = Arc::new(Semaphore::new(self.limits.connections_max));
        let http = Arc::new(self.protocol());
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.closing.cancelled() => return,
                accepted = self.accept(&slots) => accepted,
            };
            let Some((tcp, address, slot)) = accepted else { continue };
            let connection = Connection {
                address,
                slot: Arc::new(slot),
                http: Arc::clone(&http),
                limits: self.limits,
                closing: self.closing.clone(),
                killed: self.killed.clone(),
            };
            let tls = self.tls.clone().map(TlsAcceptor::from);
            let service = service.clone();
            self.connections.spawn(async move { connection.open(tcp, tls, service).await });
        }
    }

    /// Waits for room first, then for a connection: what finds no room waits in the kernel's queue.
    async fn accept(
        &self,
        slots: &Arc<Semaphore>,
    ) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
        let slot = Arc::clone(slots).acquire_owned().await.ok()?;
        match self.tcp.accept().await {
            Ok((tcp, address)) => Some((tcp, address, slot)),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                // Out of file descriptors, most likely: nothing is gained by asking again at once.
                tokio::time::sleep(Duration::from_millis(50)).await;
                None
            }
        }
    }

    fn protocol(&self) -> http1::Builder {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(self.limits.head_wait)
            // The least the library takes.
            .max_buf_size(self.limits.head_max.max(8 * 1024))
            .max_headers(self.limits.headers_max);
        http
    }
}

/// One connection that was accepted.
struct Connection {
    address: SocketAddr,
    slot: Arc<OwnedSemaphorePermit>,
    http: Arc<http1::Builder>,
    limits: ListenerLimits,
    closing: CancellationToken,
    killed: CancellationToken,
}

impl Connection {
    async fn open<S>(self, tcp: TcpStream, tls: Option<TlsAcceptor>, service: S)
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        if let Err(error) = tcp.set_nodelay(true) {
            tracing::debug!(%error, "a connection was lost before it began");
            return;
        }
        let Some(tls) = tls else { return self.serve(tcp, false, service).await };
        match timeout(self.limits.handshake_wait, tls.accept(tcp)).await {
            Ok(Ok(stream)) => self.serve(stream, true, service).await,
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        }
    }

    async fn serve<IO, S>(self, stream: IO, encrypted: bool, service: S)
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        let Self { address, slot, http, limits, closing, killed } = self;
        let peer = Peer { told: Told::of(address), encrypted, _slot: slot };
        let served = service_fn(move |request: Request<Incoming>| {
            let mut request =
                request.map(|body| Body::new(StallingBody::new(body, limits.body_wait)));
            request.extensions_mut().insert(peer.clone());
            let mut service = service.clone();
            async move {
                std::future::poll_fn(|cx| service.poll_ready(cx)).await?;
                service.call(request).await
            }
        });
        let io = TokioIo::new(StallingWrites::new(stream, limits.write_wait));
        let connection = http.serve_connection(io, served).with_upgrades();
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = closing.cancelled() => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection => ended,
                    () = killed.cancelled() => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended");
        }
    }
}
