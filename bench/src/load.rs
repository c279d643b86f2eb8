//! A load generator that knows just enough HTTP/1.1 to count answers.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// The number of connections of every load.
pub(crate) const CONNECTIONS: u64 = 64;

/// Makes the bytes of request number `n`.
pub(crate) type Make = Arc<dyn Fn(u64) -> Vec<u8> + Send + Sync>;

/// How much a load sends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// So many requests.
    Requests(u64),
    /// As many as are answered one after the other in this time.
    Span(Duration),
}

impl Limit {
    fn allows(self, n: u64, began: Instant) -> bool {
        match self {
            Self::Requests(requests) => n < requests,
            Self::Span(span) => began.elapsed() < span,
        }
    }
}

/// What came of a load.
#[derive(Debug)]
pub(crate) struct Served {
    span: Duration,
    /// How long each answer took, the shortest first.
    waits: Vec<Duration>,
}

impl Served {
    pub(crate) fn answers(&self) -> u64 {
        self.waits.len() as u64
    }

    /// Answers per second.
    pub(crate) fn rate(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a rate needs no more digits")]
        let answers = self.waits.len() as f64;
        answers / self.span.as_secs_f64()
    }

    /// The time in which so many percent of the answers came.
    pub(crate) fn wait(&self, percent: usize) -> Duration {
        let at = (self.waits.len() * percent).div_ceil(100).saturating_sub(1);
        self.waits.get(at).copied().unwrap_or_default()
    }
}

/// Sends `requests` requests over [`CONNECTIONS`] connections, and returns the answers per second.
pub(crate) async fn run(to: SocketAddr, requests: u64, make: Make) -> Result<f64> {
    Ok(drive(to, CONNECTIONS, Limit::Requests(requests), make).await?.rate())
}

/// Sends requests over `connections` connections, each answered before its connection sends the next. Any answer
/// outside of 2xx is an error.
pub(crate) async fn drive(
    to: SocketAddr,
    connections: u64,
    limit: Limit,
    make: Make,
) -> Result<Served> {
    let next = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..connections {
        let (next, make) = (Arc::clone(&next), Arc::clone(&make));
        tasks.spawn(async move {
            let mut connection = Connection::open(to).await?;
            let mut waits = Vec::new();
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if !limit.allows(n, began) {
                    return anyhow::Ok(waits);
                }
                let request = make(n);
                let sent_at = Instant::now();
                let sent = connection.send(&request).await;
                let status = sent.with_context(|| format!("request {n} to {to}"))?;
                ensure!((200..300).contains(&status), "an answer has status {status}");
                waits.push(sent_at.elapsed());
            }
        });
    }
    let mut waits = Vec::new();
    while let Some(task) = tasks.join_next().await {
        waits.extend(task??);
    }
    let span = began.elapsed();
    waits.sort_unstable();
    Ok(Served { span, waits })
}

/// Makes a POST of a JSON body with a key, if there is one.
pub(crate) fn post(path: &str, key: Option<&str>, body: &str) -> Vec<u8> {
    let key = key.map_or_else(String::new, |key| format!("idempotency-key: {key}\r\n"));
    let len = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n\
         content-length: {len}\r\n{key}\r\n{body}"
    )
    .into_bytes()
}

/// Makes a JSON body of about `len` bytes that is the same for the same number.
pub(crate) fn body(n: u64, len: usize) -> String {
    let head = format!("{{\"amount\":{n},\"currency\":\"EUR\",\"note\":\"");
    let fill = len.saturating_sub(head.len() + 2);
    format!("{head}{}\"}}", "x".repeat(fill))
}

/// Makes a GET.
pub(crate) fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: bench\r\n\r\n").into_bytes()
}

/// One kept connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Where the body of the last answer begins.
    body_at: usize,
}

impl Connection {
    pub(crate) async fn open(to: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(to).await.context("connect to the server under load")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4096), body_at: 0 })
    }

    /// Sends a request and reads its whole answer; returns the status.
    pub(crate) async fn send(&mut self, request: &[u8]) -> Result<u16> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let head = self.head().await?;
        self.body_at = head;
        let text = std::str::from_utf8(&self.buffer[..head]).context("read a head")?;
        let status = text.get(9..12).and_then(|status| status.parse().ok()).context("a status")?;
        let left = match length(text) {
            Some(length) => (head + length).saturating_sub(self.buffer.len()),
            None if text.to_ascii_lowercase().contains("transfer-encoding: chunked") => {
                while !self.buffer.ends_with(b"0\r\n\r\n") {
                    self.more().await?;
                }
                0
            }
            None => bail!("an answer has no length"),
        };
        let have = self.buffer.len();
        self.buffer.resize(have + left, 0);
        self.stream.read_exact(&mut self.buffer[have..]).await?;
        Ok(status)
    }

    /// The body of the last answer, as it was sent.
    pub(crate) fn body(&self) -> &[u8] {
        self.buffer.get(self.body_at..).unwrap_or_default()
    }

    async fn head(&mut self) -> Result<usize> {
        loop {
            if let Some(at) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                return Ok(at + 4);
            }
            self.more().await?;
        }
    }

    async fn more(&mut self) -> Result<()> {
        let read = self.stream.read_buf(&mut self.buffer).await?;
        ensure!(read > 0, "the server closed the connection");
        Ok(())
    }
}

fn length(head: &str) -> Option<usize> {
    head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_wait_that_so_many_answers_do_not_exceed() {
        let waits = (1..=200).map(Duration::from_millis).collect();
        let served = Served { span: Duration::from_secs(2), waits };
        assert_eq!(served.wait(50), Duration::from_millis(100));
        assert_eq!(served.wait(99), Duration::from_millis(198));
        assert_eq!(served.wait(100), Duration::from_millis(200));
        assert!((served.rate() - 100.0).abs() < f64::EPSILON);
    }

    #[test]
    fn no_answer_has_no_wait() {
        let served = Served { span: Duration::from_secs(1), waits: Vec::new() };
        assert_eq!((served.answers(), served.wait(99)), (0, Duration::ZERO));
    }
}
