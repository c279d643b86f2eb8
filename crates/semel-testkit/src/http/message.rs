//! Messages and the connection that carries them.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// How long anything in a test may take.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A request or an answer.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// The request line or the status line.
    pub start: String,
    /// The headers in order, their names in lower case.
    pub headers: Vec<(String, String)>,
    /// What came of the body.
    pub body: Vec<u8>,
    /// Whether the body came to its end as its head said it would.
    pub whole: bool,
}

impl Message {
    /// Returns the status of an answer; 0 if this is none.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.start.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    /// Returns the target of a request.
    #[must_use]
    pub fn target(&self) -> &str {
        self.start.split(' ').nth(1).unwrap_or_default()
    }

    /// Returns the first value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let met = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        met.map(|(_, value)| value.as_str())
    }

    /// Returns the body as text, or says that it is none.
    #[must_use]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap_or("no text")
    }

    /// Returns the code of a problem document; empty if this is none.
    #[must_use]
    pub fn code(&self) -> String {
        let after = |text: &str, mark: &str| {
            text.split_once(mark).map(|(_, rest)| rest.trim_start().to_owned())
        };
        let value = after(self.text(), "\"code\"").and_then(|rest| after(&rest, ":"));
        let value = value.and_then(|rest| after(&rest, "\""));
        value.and_then(|rest| Some(rest.split_once('"')?.0.to_owned())).unwrap_or_default()
    }
}

/// A connection that reads messages.
#[derive(Debug)]
pub struct Wire<IO> {
    /// What is below; for what a message cannot say, such as a reset.
    pub io: IO,
    read: Vec<u8>,
}

impl Wire<TcpStream> {
    /// Connects to an address.
    pub async fn to(address: SocketAddr) -> Self {
        Self::new(TcpStream::connect(address).await.unwrap())
    }

    /// Hangs up with a reset, so that the other side's next write fails.
    pub fn reset(self) {
        self.io.set_zero_linger().unwrap();
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Wire<IO> {
    /// Reads messages from `io`.
    pub const fn new(io: IO) -> Self {
        Self { io, read: Vec::new() }
    }

    /// Writes bytes, whatever they say.
    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.io.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Reads a request; nothing if the other side closed before one.
    pub async fn request(&mut self) -> Option<Message> {
        self.message(false).await
    }

    /// Reads an answer; nothing if the other side closed before one. An answer to HEAD has no body.
    pub async fn answer(&mut self, method: &str) -> Option<Message> {
        let read = timeout(PATIENCE, self.message(method == "HEAD"));
        read.await.expect("the answer came in time")
    }

    /// Reads whatever comes next, nothing if the other side closed.
    pub async fn some(&mut self) -> Option<Vec<u8>> {
        if self.read.is_empty() && !self.fill().await {
            return None;
        }
        Some(std::mem::take(&mut self.read))
    }

    async fn message(&mut self, bodiless: bool) -> Option<Message> {
        let end = loop {
            if let Some(at) = find(&self.read, b"\r\n\r\n") {
                break at;
            }
            if !self.fill().await {
                return None;
            }
        };
        let head = String::from_utf8(self.read.drain(..end + 4).collect()).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let mut message =
            Message { start: lines.next()?.to_owned(), whole: true, ..Message::default() };
        message.headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let is_answer = message.start.starts_with("HTTP/");
        let never = matches!(message.status(), 101 | 204 | 304) || bodiless;
        if is_answer && never {
            return Some(message);
        }
        let chunked = message.header("transfer-encoding").is_some_and(|te| te.contains("chunked"));
        let length = message.header("content-length").map(|length| length.parse().unwrap());
        match length {
            _ if chunked => self.chunks(&mut message).await,
            Some(length) => message.whole = self.exactly(length, &mut message.body).await,
            None if is_answer => {
                while self.fill().await {}
                message.body = std::mem::take(&mut self.read);
            }
            None => {}
        }
        Some(message)
    }

    async fn chunks(&mut self, message: &mut Message) {
        loop {
            let Some(line) = self.line().await else { return message.whole = false };
            let size = usize::from_str_radix(line.split(';').next().unwrap().trim(), 16).unwrap();
            if !self.exactly(size, &mut message.body).await {
                return message.whole = false;
            }
            // After the last chunk, the empty line ends the trailers.
            while let Some(line) = self.line().await {
                if line.is_empty() {
                    break;
                }
            }
            if size == 0 {
                return;
            }
        }
    }

    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(at) = find(&self.read, b"\r\n") {
                let line: Vec<u8> = self.read.drain(..at + 2).collect();
                return Some(String::from_utf8(line).unwrap().trim_end().to_owned());
            }
            if !self.fill().await {
                return None;
            }
        }
    }

    async fn exactly(&mut self, length: usize, into: &mut Vec<u8>) -> bool {
        while self.read.len() < length {
            if !self.fill().await {
                into.append(&mut self.read);
                return false;
            }
        }
        into.extend(self.read.drain(..length));
        true
    }

    async fn fill(&mut self) -> bool {
        let mut some = vec![0; 16 * 1024];
        match self.io.read(&mut some).await {
            Ok(0) | Err(_) => false,
            Ok(read) => {
                self.read.extend(&some[..read]);
                true
            }
        }
    }
}

fn find(bytes: &[u8], word: &[u8]) -> Option<usize> {
    bytes.windows(word.len()).position(|window| window == word)
}

/// Makes the bytes of an answer with its length.
#[must_use]
pub fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    (text + "\r\n" + body).into_bytes()
}

/// Sends one request on a connection of its own and reads the answer.
pub async fn send(
    address: SocketAddr,
    line: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Message {
    let mut wire = Wire::to(address).await;
    wire.write(request(line, headers, body)).await;
    wire.answer(line.split(' ').next().unwrap()).await.expect("an answer")
}

/// Makes the bytes of a request such as `POST /path`.
#[must_use]
pub fn request(line: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("{line} HTTP/1.1\r\n");
    if !headers.iter().any(|(name, _)| *name == "host") {
        text += "host: gateway.test\r\n";
    }
    if !body.is_empty() {
        text += &format!("content-length: {}\r\n", body.len());
    }
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    (text + "\r\n" + body).into_bytes()
}
