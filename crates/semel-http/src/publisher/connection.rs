//! One HTTP/1.1 connection to a destination, driven by whoever uses it.
//!
//! No task moves it on: dropping the exchange drops the connection, and nothing more is written.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{Request, Response, Uri, uri::Scheme};
use http_body::Body as _;
use hyper::{
    body::Incoming,
    client::conn::http1::{Builder, Connection as Http1, SendRequest},
};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use semel::Monotonic;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use super::PublisherError;

/// The largest head of an answer, and the most that is read of its body, in bytes.
const ANSWER_MAX: usize = 64 * 1024;

/// An answer whose body was not read yet.
pub(super) type Answer = Response<Incoming>;

/// Why nothing was sent.
#[derive(Debug)]
pub(super) struct NotSent(pub(super) Box<str>);

/// Why a request brought no answer.
#[derive(Debug)]
pub(super) enum SendError {
    /// The connection ended while it was on its way.
    Broken(Box<str>),
    /// Nothing of it was sent, and here it is back.
    Returned(Box<Request<Body>>),
}

/// Where a destination is.
pub(super) struct Address {
    host: Box<str>,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Address {
    pub(super) fn new(url: &Uri, tls: Option<Arc<ClientConfig>>) -> Result<Self, PublisherError> {
        let refused = |reason| PublisherError::Url { reason };
        let secure = match url.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err(refused("it must begin with http:// or https://")),
        };
        let authority = url.authority().ok_or_else(|| refused("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(refused("it carries a user, which is not sent anywhere"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let tls = match (secure, tls) {
            (false, _) => None,
            (true, None) => return Err(PublisherError::NoTls),
            (true, Some(config)) => {
                let name = ServerName::try_from(host.to_owned())
                    .map_err(|_| refused("its host is no name a certificate can carry"))?;
                Some((TlsConnector::from(config), name))
            }
        };
        let port = url.port_u16().unwrap_or(if secure { 443 } else { 80 });
        Ok(Self { host: host.into(), port, tls })
    }

    /// Connects, trying one address after the other.
    pub(super) async fn connect(&self) -> Result<Connection, NotSent> {
        // The standard library's resolver and the connections of tokio try every address.
        let tcp = TcpStream::connect((&*self.host, self.port)).await;
        let tcp = tcp.map_err(|error| not_sent("it could not be reached", &error))?;
        tcp.set_nodelay(true).map_err(|error| not_sent("it could not be reached", &error))?;
        let io: Box<dyn Io> = match &self.tls {
            None => Box::new(tcp),
            Some((connector, name)) => {
                let handshake = connector.connect(name.clone(), tcp).await;
                let why = "no secure connection could be made";
                Box::new(handshake.map_err(|error| not_sent(why, &error))?)
            }
        };
        Connection::open(io).await
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        write!(f, "Address({scheme}://{}:{})", self.host, self.port)
    }
}

/// A connection as hyper runs it.
type Driven = Pin<Box<Http1<TokioIo<Box<dyn Io>>, Body>>>;

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A connection that is open, or was.
pub(super) struct Connection {
    sender: SendRequest<Body>,
    /// `None` once it has ended: whoever still waits for it then learns so.
    driven: Option<Driven>,
    /// Since when nobody has used it.
    pub(super) idle_since: Monotonic,
}

impl Connection {
    async fn open(io: Box<dyn Io>) -> Result<Self, NotSent> {
        let handshake = Builder::new().max_buf_size(ANSWER_MAX).handshake(TokioIo::new(io)).await;
        let (sender, driven) =
            handshake.map_err(|error| not_sent("it could not be reached", &error))?;
        Ok(Self { sender, driven: Some(Box::pin(driven)), idle_since: Monotonic::default() })
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// # Cancel safety
    ///
    /// A connection whose send was dropped must be dropped too; nothing is written after that.
    pub(super) async fn send(&mut self, request: Request<Body>) -> Result<Answer, SendError> {
        let driven = &mut self.driven;
        let mut answer = pin!(self.sender.try_send_request(request));
        let sent = poll_fn(|cx| {
            if let Poll::Ready(sent) = answer.as_mut().poll(cx) {
                return Poll::Ready(sent);
            }
            drive(driven, cx);
            answer.as_mut().poll(cx)
        });
        sent.await.map_err(|mut error| match error.take_message() {
            Some(request) => SendError::Returned(Box::new(request)),
            None => {
                let error = error.into_error();
                SendError::Broken(format!("the connection ended before an answer: {error}").into())
            }
        })
    }

    /// Reads the rest of an answer; nothing if it is too large or does not end well.
    pub(super) async fn rest(&mut self, body: Incoming) -> Option<Bytes> {
        let mut body = pin!(body);
        let mut read = BytesMut::new();
        poll_fn(|cx| {
            loop {
                let frame = match body.as_mut().poll_frame(cx) {
                    Poll::Ready(frame) => frame,
                    Poll::Pending => {
                        drive(&mut self.driven, cx);
                        match body.as_mut().poll_frame(cx) {
                            Poll::Ready(frame) => frame,
                            Poll::Pending => return Poll::Pending,
                        }
                    }
                };
                match frame {
                    None => return Poll::Ready(Some(())),
                    Some(Err(_)) => return Poll::Ready(None),
                    Some(Ok(frame)) => {
                        read.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data))
                    }
                }
                if read.len() > ANSWER_MAX {
                    return Poll::Ready(None);
                }
            }
        })
        .await
        .map(|()| read.freeze())
    }

    /// Says whether the next request may be sent: the last exchange is over on both sides, and the
    /// destination has not closed the connection as far as is known here.
    pub(super) fn is_ready(&mut self) -> bool {
        drive(&mut self.driven, &mut Context::from_waker(Waker::noop()));
        self.driven.is_some() && self.sender.is_ready()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("idle_since", &self.idle_since).finish_non_exhaustive()
    }
}

fn drive(driven: &mut Option<Driven>, cx: &mut Context<'_>) {
    if let Some(open) = driven
        && open.as_mut().poll(cx).is_ready()
    {
        *driven = None;
    }
}

fn not_sent(what: &str, error: &dyn std::error::Error) -> NotSent {
    NotSent(format!("{what}: {error}").into())
}
