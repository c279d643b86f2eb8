//! Any bytes as what an upstream writes to the gateway: the client gets an answer with one length, nothing in it speaks
//! for Semel or for the upstream's connection, a success is never run again, and a replay is the first answer.

use std::cell::RefCell;

use http::StatusCode;
use semel_http::classify::{Class, class};

use crate::{
    gateway::{Served, parted},
    runtime,
};

/// Meant for one connection alone.
const NEVER: [&str; 4] = ["keep-alive", "proxy-authenticate", "proxy-connection", "upgrade"];

/// Checks the promise on one input.
pub(crate) fn run(data: &[u8]) {
    thread_local! {
        static KEPT: RefCell<Option<Served>> = const { RefCell::new(None) };
    }
    runtime(async {
        let served = Served::of(KEPT.take()).await;
        served.says(data);
        check(&served).await;
        KEPT.set(Some(served));
    });
}

async fn check(served: &Served) {
    let request = format!(
        "POST /pay HTTP/1.1\r\nhost: a\r\nconnection: close\r\nidempotency-key: k{}\r\n\
         content-length: 2\r\n\r\n{{}}",
        served.input()
    );
    let first = served.answer(request.as_bytes()).await;
    assert_eq!(served.seen().len(), 1, "a request is sent once");
    if first.is_empty() {
        // A body that broke off before anything of it was sent breaks the client's connection.
        return;
    }
    let first = Answer::of(&first);
    let again = served.answer(request.as_bytes()).await;
    if again.is_empty() {
        assert!(class(first.status) != Class::Success, "{}", first.shown);
        return;
    }
    let again = Answer::of(&again);
    let runs = 1 + served.seen().len();
    if class(first.status) == Class::Success {
        assert_eq!(runs, 1, "{} ran again", first.status);
    }
    if again.replayed {
        assert_eq!((runs, again.status), (1, first.status), "{}", first.shown);
        if first.whole && again.whole {
            assert_eq!(
                again.body.escape_ascii().to_string(),
                first.body.escape_ascii().to_string()
            );
        }
    }
}

struct Answer {
    status: StatusCode,
    replayed: bool,
    body: Vec<u8>,
    /// Whether the body ended as its head said.
    whole: bool,
    shown: String,
}

impl Answer {
    fn of(bytes: &[u8]) -> Self {
        let shown = bytes.escape_ascii().to_string();
        let (head, rest) = parted(bytes).unwrap_or_else(|| panic!("no answer: {shown}"));
        let mut lines = head.split('\n');
        let start = lines.next().unwrap_or_default();
        let status = start.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let status = status.and_then(|status: u16| StatusCode::from_u16(status).ok());
        let status = status.unwrap_or_else(|| panic!("no status: {shown}"));
        assert!(!status.is_informational(), "{shown}");
        let headers: Vec<_> = lines.map(|line| line.split_once(':').expect("a header")).collect();
        for (name, _) in &headers {
            assert!(!NEVER.contains(name) && !name.starts_with("semel-"), "{name} in {shown}");
        }
        let values = |name: &str| -> Vec<String> {
            let met = headers.iter().filter(|(known, _)| *known == name);
            met.map(|(_, value)| value.trim().to_owned()).collect()
        };
        let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
        let (body, whole) = match (&lengths[..], &codings[..]) {
            ([], []) => (rest.to_vec(), true),
            ([length], []) => {
                let length = length.parse().unwrap_or_else(|_| panic!("no length: {shown}"));
                let bodiless = matches!(status.as_u16(), 204 | 304);
                assert!(rest.len() <= length && (!bodiless || rest.is_empty()), "{shown}");
                (rest.to_vec(), bodiless || rest.len() == length)
            }
            ([], [coding]) if coding == "chunked" => unchunked(rest),
            _ => panic!("several lengths: {shown}"),
        };
        let replayed = !values("idempotent-replayed").is_empty();
        Self { status, replayed, body, whole, shown }
    }
}

/// Puts chunks together, as far as they go.
fn unchunked(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else {
            return (body, false);
        };
        let size = std::str::from_utf8(&rest[..end]).ok();
        let size = size.and_then(|size| usize::from_str_radix(size, 16).ok());
        let size = size.unwrap_or_else(|| panic!("no chunk: {}", rest.escape_ascii()));
        if size == 0 {
            return (body, true);
        }
        let Some(chunk) = rest.get(end + 2..end + 2 + size) else { return (body, false) };
        body.extend_from_slice(chunk);
        rest = rest.get(end + 4 + size..).unwrap_or_default();
    }
}
