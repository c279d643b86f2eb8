//! A client that sends one request and reads the whole answer, and never retries by itself.

use std::{fmt, io, net::SocketAddr, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use semel::wire;
use tokio::{io::AsyncWriteExt, net::TcpStream};

/// How long one answer may take.
const ANSWER_WAIT: Duration = Duration::from_secs(15);

/// What came back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Whether the gateway marked it as a replay.
    pub(super) replayed: bool,
    pub(super) body: Bytes,
}

impl Answer {
    /// Returns the code of a problem document.
    pub(super) fn problem(&self) -> Option<String> {
        let document: serde_json::Value = serde_json::from_slice(&self.body).ok()?;
        let code = document.get("type")?.as_str()?.strip_prefix(wire::PROBLEM_TYPE_PREFIX)?;
        Some(code.to_owned())
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        match self.problem() {
            Some(problem) => write!(f, " {problem}"),
            None if self.replayed => f.write_str(" replayed"),
            None => Ok(()),
        }
    }
}

/// A payment to send.
#[derive(Clone, Debug)]
pub(super) struct Payment {
    pub(super) path: &'static str,
    pub(super) order: String,
    pub(super) amount: &'static str,
    pub(super) key: String,
}

impl Payment {
    fn body(&self) -> String {
        serde_json::json!({ "order": self.order, "amount": self.amount }).to_string()
    }

    /// Sends it, and waits for the answer.
    pub(super) async fn send(&self, to: SocketAddr) -> io::Result<Answer> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.path)
            .header(header::HOST, to.to_string())
            .header(header::CONTENT_TYPE, "application/json")
            .header(wire::IDEMPOTENCY_KEY, &self.key)
            .body(Body::from(self.body()))
            .map_err(io::Error::other)?;
        let answer = tokio::time::timeout(ANSWER_WAIT, exchange(to, request)).await;
        answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Sends it and returns the connection, so that the caller can hang up before the answer.
    pub(super) async fn send_only(&self, to: SocketAddr) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(to).await?;
        let body = self.body();
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: {to}\r\ncontent-type: application/json\r\n{}: {}\r\n\
             content-length: {}\r\n\r\n",
            self.path,
            wire::IDEMPOTENCY_KEY,
            self.key,
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        Ok(stream)
    }
}

async fn exchange(to: SocketAddr, request: Request<Body>) -> io::Result<Answer> {
    let stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(io::Error::other)?;
    let work = async {
        let answer = sender.send_request(request).await.map_err(io::Error::other)?;
        let status = answer.status().as_u16();
        let replayed = answer.headers().contains_key(wire::IDEMPOTENT_REPLAYED);
        let body = answer.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
        Ok(Answer { status, replayed, body })
    };
    let driven = async {
        // What went wrong with the connection is told to the request.
        let _told = connection.await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        answer = work => answer,
        () = driven => Err(io::ErrorKind::ConnectionReset.into()),
    }
}
