//! A connection that carries one request.

use bytes::{Bytes, BytesMut};
use http::{HeaderName, HeaderValue, Method, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    task::JoinSet,
};

use super::exchange::{Answer, Got, How, Request};

/// How much of an answer's body is kept.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// What carries bytes both ways, with TLS or without.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection for one request.
pub struct Connection {
    stream: Box<dyn Stream>,
    authority: String,
    base: String,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("authority", &self.authority).finish_non_exhaustive()
    }
}

impl Connection {
    pub(super) fn new(stream: Box<dyn Stream>, authority: &str, base: &str) -> Self {
        Self { stream, authority: authority.to_owned(), base: base.to_owned() }
    }

    /// Sends the request. It waits as long as the answer takes: the caller bounds it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection; the target may have the request.
    pub async fn send(self, request: &Request, how: How) -> Got {
        let request = match self.request(request) {
            Ok(request) => request,
            Err(why) => return Got::Broken(format!("the request cannot be sent: {why}")),
        };
        match how {
            How::HangUp => match hang_up(self.stream, &request).await {
                Ok(()) => Got::HungUp,
                Err(error) => Got::Broken(format!("the request did not go out: {error}")),
            },
            How::Swallow => match exchange(self.stream, request).await {
                Ok(answer) => Got::Swallowed(answer),
                Err(why) => Got::Broken(why),
            },
            How::Whole => match exchange(self.stream, request).await {
                Ok(answer) => Got::Answer(answer),
                Err(why) => Got::Broken(why),
            },
        }
    }

    fn request(&self, request: &Request) -> Result<http::Request<Bytes>, http::Error> {
        let mut out = http::Request::new(request.body.clone());
        *out.method_mut() = Method::from_bytes(request.method.as_bytes())?;
        *out.uri_mut() = Uri::try_from(format!("{}{}", self.base, request.path))?;
        for (name, value) in &request.headers {
            let name = HeaderName::from_bytes(name.as_bytes())?;
            out.headers_mut().append(name, HeaderValue::from_bytes(value.as_bytes())?);
        }
        if !out.headers().contains_key(header::HOST) {
            out.headers_mut().insert(header::HOST, HeaderValue::try_from(&self.authority)?);
        }
        out.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        out.headers_mut().insert(header::CONTENT_LENGTH, request.body.len().into());
        Ok(out)
    }
}

/// Writes a request and closes, whatever the target would say.
async fn hang_up(
    mut stream: Box<dyn Stream>,
    request: &http::Request<Bytes>,
) -> std::io::Result<()> {
    let mut bytes = format!("{} {} HTTP/1.1\r\n", request.method(), request.uri()).into_bytes();
    for (name, value) in request.headers() {
        bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    bytes.extend(b"\r\n");
    bytes.extend(request.body());
    stream.write_all(&bytes).await?;
    stream.flush().await
}

async fn exchange(
    stream: Box<dyn Stream>,
    request: http::Request<Bytes>,
) -> Result<Answer, String> {
    let shaken = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(|error| reason(&error))?;
    // Dropped at the end, with the connection.
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let answer = sender.send_request(request.map(Full::new)).await;
    let (head, mut body) = answer.map_err(|error| reason(&error))?.into_parts();
    let mut kept = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let broke_off =
            |error| format!("the answer {} broke off in its body: {}", head.status, reason(&error));
        // Trailers say nothing that an answer is compared by.
        if let Ok(data) = frame.map_err(broke_off)?.into_data() {
            let room = BODY_BYTES_MAX.saturating_sub(kept.len());
            kept.extend_from_slice(&data[..data.len().min(room)]);
        }
    }
    let headers = head.headers.iter();
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    Ok(Answer {
        status: head.status.as_u16(),
        headers: headers.map(|(name, value)| (name.to_string(), text(value))).collect(),
        body: kept.freeze(),
    })
}

/// Says an error with what caused it, since the outermost sentence often says little.
fn reason(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
