//! One request on a connection of its own, without a library in between.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};

/// How long a caller waits for the next bytes: longer than the gateway lets it wait.
const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Whether it is marked as a replay.
    pub(super) replayed: bool,
    pub(super) body: Vec<u8>,
}

/// Sends a request and reads the whole answer.
pub(super) fn send(
    to: SocketAddr,
    method: &str,
    path: &str,
    key: Option<&str>,
    body: &str,
) -> Result<Answer> {
    let mut stream = TcpStream::connect(to).with_context(|| format!("cannot reach {to}"))?;
    stream.set_read_timeout(Some(ANSWER_WAIT))?;
    let key = key.map_or_else(String::new, |key| format!("idempotency-key: {key}\r\n"));
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\naccept-encoding: identity\r\n\
         content-type: application/json\r\n{key}content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).context("cannot send the request")?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).context("the answer broke off")?;
    parse(&bytes).context("the answer cannot be read")
}

fn parse(bytes: &[u8]) -> Option<Answer> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?.to_ascii_lowercase();
    let rest = &bytes[end + 4..];
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<_> = lines.filter_map(|line| line.split_once(':')).collect();
    let header = |name: &str| headers.iter().find(|(n, _)| *n == name).map(|(_, v)| v.trim());
    let body = match header("content-length") {
        _ if header("transfer-encoding") == Some("chunked") => chunks(rest)?,
        Some(length) => rest.get(..length.parse().ok()?)?.to_vec(),
        None => rest.to_vec(),
    };
    Some(Answer { status, replayed: header("idempotent-replayed") == Some("true"), body })
}

fn chunks(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let line = std::str::from_utf8(&rest[..end]).ok()?;
        let size = usize::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend(rest.get(end + 2..end + 2 + size)?);
        rest = rest.get(end + 2 + size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_framings_are_read() {
        let plain =
            b"HTTP/1.1 201 Created\r\nIdempotent-Replayed: true\r\nContent-Length: 2\r\n\r\n{}";
        let answer = parse(plain).unwrap();
        assert_eq!((answer.status, answer.replayed, &*answer.body), (201, true, &b"{}"[..]));
        let chunked =
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n[{\r\n2;x\r\n}]\r\n0\r\n\r\n";
        let answer = parse(chunked).unwrap();
        assert_eq!((answer.status, answer.replayed, &*answer.body), (200, false, &b"[{}]"[..]));
    }

    #[test]
    fn half_an_answer_is_none() {
        for half in ["HTTP/1.1 201 Cr", "HTTP/1.1 201 C\r\ncontent-length: 9\r\n\r\n{}"] {
            assert!(parse(half.as_bytes()).is_none(), "{half}");
        }
    }
}
