//! One HTTP/1.1 connection to an upstream, driven by whoever uses it.
//!
//! No task of its own moves the connection on: it is polled by the exchange, then by the body, and
//! by nobody while it is idle. So nothing is written that its user does not wait for, dropping it ends
//! it at once, and what was given to the network by then is known exactly.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::{Context, Poll, Waker},
};

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use hyper::{
    body::Incoming,
    client::conn::http1::{Builder, Connection, SendRequest},
};
use hyper_util::rt::TokioIo;
use semel::Monotonic;
use tokio::sync::OwnedSemaphorePermit;

use super::socket::{Given, Socket};

/// The largest head of an answer, and the most that is read of a body at once, in bytes.
const HEAD_MAX: usize = 64 * 1024;

pub(super) struct Link {
    sender: SendRequest<Body>,
    connection: Driven,
    given: Given,
    given_before: u64,
    /// Since when nobody has used it.
    pub(super) idle_since: Monotonic,
    slot: OwnedSemaphorePermit,
}

/// What is below a connection that changed its protocol: the bytes read too far come first.
pub(super) type Upgraded = (Socket, Bytes, OwnedSemaphorePermit);

/// Why a request brought no answer.
#[derive(Debug)]
pub(super) enum SendError {
    /// No byte of it was given to the network, and here it is back.
    Returned(Box<Request<Body>>),
    /// The connection failed; [`Link::gave`] knows whether it was given a byte.
    Failed(hyper::Error),
}

impl Link {
    pub(super) async fn open(
        socket: Socket,
        given: Given,
        slot: OwnedSemaphorePermit,
    ) -> hyper::Result<Self> {
        let handshake = Builder::new().max_buf_size(HEAD_MAX).handshake(TokioIo::new(socket));
        let (sender, connection) = handshake.await?;
        let connection = Driven { open: Some(connection), ended: false };
        let idle_since = Monotonic::default();
        Ok(Self { sender, connection, given_before: given.bytes(), given, idle_since, slot })
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// # Cancel safety
    ///
    /// A link whose send was dropped must be dropped too; nothing is written after that.
    pub(super) async fn send(
        &mut self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, SendError> {
        self.given_before = self.given.bytes();
        let mut answer = pin!(self.sender.try_send_request(request));
        let connection = &mut self.connection;
        let sent = poll_fn(|cx| {
            connection.drive(cx);
            if let Poll::Ready(sent) = answer.as_mut().poll(cx) {
                return Poll::Ready(sent);
            }
            connection.give_up_if_ended();
            answer.as_mut().poll(cx)
        });
        sent.await.map_err(|mut error| match error.take_message() {
            Some(request) => SendError::Returned(Box::new(request)),
            None => SendError::Failed(error.into_error()),
        })
    }

    /// Says whether a byte of the last request, or of TLS since then, was given to the network.
    pub(super) fn gave(&self) -> bool {
        self.given.bytes() != self.given_before
    }

    /// Returns how much was given to the network so far.
    pub(super) fn given(&self) -> Given {
        self.given.clone()
    }

    /// Moves the connection on.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        self.connection.drive(cx);
    }

    /// Lets whoever still waits for a connection that ended know that it ended.
    pub(super) fn give_up_if_ended(&mut self) {
        self.connection.give_up_if_ended();
    }

    /// Says whether the next request may be sent: the last exchange is over on both sides, and the
    /// upstream has not closed the connection as far as is known here.
    pub(super) fn is_ready(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        !self.connection.ended && self.sender.is_ready()
    }

    /// Waits until the connection has changed its protocol, and hands out what is below.
    /// Nothing is below a connection that was lost.
    pub(super) async fn upgraded(self) -> hyper::Result<Option<Upgraded>> {
        // Dropping the sender would end the connection before it has changed.
        let Self { sender: _sender, connection, slot, .. } = self;
        let Driven { open: Some(mut connection), ended } = connection else {
            return Ok(None);
        };
        if !ended {
            poll_fn(|cx| connection.poll_without_shutdown(cx)).await?;
        }
        let parts = connection.into_parts();
        Ok(Some((parts.io.into_inner(), parts.read_buf, slot)))
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("idle_since", &self.idle_since).finish_non_exhaustive()
    }
}

/// A connection, and whether it has ended. An end is kept apart from its loss: what changed its
/// protocol has ended as HTTP, and is still there.
struct Driven {
    open: Option<Connection<TokioIo<Socket>, Body>>,
    ended: bool,
}

impl Driven {
    fn drive(&mut self, cx: &mut Context<'_>) {
        let Some(open) = self.open.as_mut().filter(|_| !self.ended) else { return };
        if let Poll::Ready(ended) = open.poll_without_shutdown(cx) {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection to an upstream ended");
            }
            self.ended = true;
        }
    }

    fn give_up_if_ended(&mut self) {
        if self.ended {
            self.open = None;
        }
    }
}
